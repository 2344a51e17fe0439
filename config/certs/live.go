package certs

import (
	"cmp"
	"crypto/tls"
	"net/http"
	"sync/atomic"
)

// Live is a TLS configuration that may be replaced: what is connected later goes by the new one, what is connected stays. It is safe for
// concurrent use.
type Live struct {
	now    atomic.Pointer[Loaded]
	server *tls.Config
}

// NewLive returns one that begins with l.
func NewLive(l *Loaded) *Live {
	v := &Live{}
	v.now.Store(l)
	v.server = &tls.Config{MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return v.now.Load().config, nil }}
	return v
}

// Replace has connections from now on go by l. It reports whether that says anything else than what there was.
func (v *Live) Replace(l *Loaded) (changed bool) {
	return !v.now.Swap(l).Same(l)
}

// Loaded is what new connections go by.
func (v *Live) Loaded() *Loaded { return v.now.Load() }

// Server is for tls.Server; not to be modified.
func (v *Live) Server() *tls.Config { return v.server }

// Client is for tls.Client, to connect to a host. It belongs to the caller.
func (v *Live) Client(host string) *tls.Config { return v.now.Load().Client(host) }

// Client is for tls.Client, to connect to a host. It belongs to the caller.
func (l *Loaded) Client(host string) *tls.Config {
	c := l.config.Clone()
	c.ServerName = cmp.Or(c.ServerName, host)
	return c
}

// HTTP is a client for https:// URLs, whose host is what servers must prove; ServerName is for others. Each of its requests has a
// connection of its own. Redirects are not followed: they would take a password elsewhere.
func (v *Live) HTTP() *http.Client {
	return &http.Client{Transport: transport{v}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

type transport struct{ live *Live }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	c := t.live.now.Load().config.Clone()
	c.ServerName = "" // the URL's
	return (&http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: c, DisableKeepAlives: true}).RoundTrip(r)
}

// Certificate is for tls.Config.GetClientCertificate: what is shown from now on, also by connections that are being made.
func (v *Live) Certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if c := v.now.Load().config.Certificates; len(c) > 0 {
		return &c[0], nil
	}
	return &tls.Certificate{}, nil // none
}
