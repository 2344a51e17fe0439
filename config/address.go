package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/shardmq/shardmq/shards/discovery"
)

// CheckListen checks the address of a listener: "host:port", or ":port" for
// every interface. Port 0 lets the system choose a free one. The error says
// what is wrong and what to do.
func CheckListen(address string) error {
	return checkAddress(address, "0.0.0.0:5673 or :5673", 0, false)
}

// CheckNode checks the address of a RabbitMQ node: "host:port".
func CheckNode(address string) error {
	return checkAddress(address, "rabbit-a.example:5672", 1, true)
}

// AdminExample is the address of the admin listener in examples.
const AdminExample = "127.0.0.1:15673"

// CheckAdmin checks the address of the admin listener: "host:port".
func CheckAdmin(address string) error {
	return checkAddress(address, AdminExample, 0, false)
}

// CheckNodeTemplate checks a template of node names: a name with {host} or
// {fqdn} where a host's short or full name goes.
func CheckNodeTemplate(template string) error {
	if discovery.CheckNodeName(template) != nil {
		return fmt.Errorf("is %q; give a node's name with {host} for the host's short name or {fqdn} for its full one, e.g. %s",
			clip(template), DefaultNodeName)
	}
	return nil
}

// CheckHostTemplate checks a template of nodes' hosts, which has {host} or {fqdn}
// for the short or full host in a node's name.
func CheckHostTemplate(template string) error {
	if discovery.CheckNodeName("rabbit@"+template) != nil {
		return fmt.Errorf("is %q; give a host with {host} for the first part of the host in the node's name or {fqdn} for all of it, "+
			"e.g. {host}.rabbit.example", clip(template))
	}
	return nil
}

// CheckManagement checks the URL of a management API. Errors do not repeat it:
// it may hold a password.
func CheckManagement(text string) error {
	const form = "e.g. http://a:15672"
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("is no http:// or https:// URL; give the management API's, %s", form)
	case u.User != nil:
		return fmt.Errorf("has a user in it; give username and password as keys of their own")
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("has parameters after ? or #; give the management API's address alone, %s", form)
	}
	return nil
}

// CheckServerName checks the name that a server is asked for in TLS, and must prove: a host name or an IP address.
func CheckServerName(name string) error {
	if _, err := netip.ParseAddr(name); err == nil && !strings.Contains(name, "%") {
		return nil
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		if label == "" || label[0] == '-' || strings.ContainsFunc(label, notInHostName) {
			return fmt.Errorf("is %q; give a host name alone, without a port, as it is in the certificate, e.g. rabbit.example", clip(name))
		}
	}
	return nil
}

// notInHostName goes by what crypto/x509 compares with names in certificates; the underscore is not DNS's, but is used.
func notInHostName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

func checkAddress(address, example string, leastPort int, needHost bool) error {
	if address == "" {
		return fmt.Errorf("is empty; give host:port, e.g. %s", example)
	}
	if strings.Contains(address, "://") {
		// The URL may hold a password, so it is not repeated here.
		return fmt.Errorf("is a URL; give only host:port, e.g. %s", example)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("is %q; give host:port, e.g. %s (an IPv6 address stands in brackets: [::1]:5672)", clip(address), example)
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < leastPort || n > 65535 || port[0] == '+' {
		return fmt.Errorf("has the port %q; give a number from %d to 65535, e.g. %s", clip(port), leastPort, example)
	}
	if host == "" && needHost {
		return fmt.Errorf("is %q, without a host; give host:port, e.g. %s", address, example)
	}
	if strings.ContainsAny(host, " \t\r\n/@") {
		return fmt.Errorf("has the host %q; give a host name or an IP address, e.g. %s", clip(host), example)
	}
	return nil
}

// CheckNodeName checks a node's name, which becomes a part of its shards' names.
func CheckNodeName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("is empty; give the node's name as rabbitmqctl status shows it, e.g. rabbit@a")
	case len(name) > maxName:
		return fmt.Errorf("is %d bytes long; give at most %d", len(name), maxName)
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return fmt.Errorf("is %q; give a name without spaces, as rabbitmqctl status shows it, e.g. rabbit@a", clip(name))
	}
	return nil
}
