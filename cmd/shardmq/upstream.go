package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/shardmq/shardmq/config"
)

// upstream is a parsed --upstream.
type upstream struct {
	address  string // host:port
	username string
	password config.Secret
	vhost    string
	tls      bool
}

const upstreamForm = "amqp://user:password@host:port/vhost"

// parseUpstream reads an AMQP URI. Its errors never repeat the text, which may
// hold a password.
func parseUpstream(text string) (upstream, error) {
	u, err := url.Parse(text)
	if err != nil {
		// The cause without its *url.Error, which quotes the whole text.
		return upstream{}, fmt.Errorf("is not a URL; give %s, with special characters in user, password "+
			"and vhost percent-encoded (%%2F for /)", upstreamForm)
	}
	switch {
	case u.Scheme != "amqp" && u.Scheme != "amqps":
		return upstream{}, fmt.Errorf("does not begin with amqp:// or amqps://; give %s", upstreamForm)
	case u.RawQuery != "" || u.Fragment != "":
		return upstream{}, fmt.Errorf("has parameters after ? or #; give only %s", upstreamForm)
	case strings.Contains(strings.TrimPrefix(u.EscapedPath(), "/"), "/"):
		return upstream{}, errors.New("has more than one / after the address; write a / in a vhost's name as %2F")
	}
	return fromURL(u)
}

func fromURL(u *url.URL) (upstream, error) {
	up := upstream{username: config.DefaultUsername, password: config.DefaultPassword, vhost: config.DefaultVhost, tls: u.Scheme == "amqps"}
	if u.User != nil {
		password, ok := u.User.Password()
		if u.User.Username() == "" || !ok || password == "" {
			return up, fmt.Errorf("has only one of user and password; give both (%s), or neither for %s:%s",
				upstreamForm, up.username, up.password)
		}
		up.username, up.password = u.User.Username(), config.Secret(password)
	}
	port := u.Port()
	switch {
	case port == "" && up.tls:
		port = "5671"
	case port == "":
		port = "5672"
	}
	up.address = net.JoinHostPort(u.Hostname(), port)
	if err := config.CheckNode(up.address); err != nil {
		return up, fmt.Errorf("the address %w", err)
	}
	// "amqp://host" and "amqp://host/" both mean the default vhost, as most
	// client libraries take it.
	if vhost := strings.TrimPrefix(u.Path, "/"); vhost != "" {
		up.vhost = vhost
	}
	if len(up.vhost) > 255 {
		return up, fmt.Errorf("has a vhost of %d bytes; AMQP allows 255", len(up.vhost))
	}
	return up, nil
}
