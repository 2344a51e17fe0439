package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/shardmq/shardmq/config/certs"
)

// secure does the TLS handshake where the listener asks for one, within the client's deadline. It reports whether the session can go on.
func (s *session) secure() bool {
	if s.from.TLS == nil {
		return true
	}
	c := newTLSConn(s.client, s.from.TLS.Server(), tls.Server, s.clientFault)
	s.mu.Lock()
	s.client, s.down.conn = c, c
	s.mu.Unlock()
	if err := c.Handshake(); err != nil {
		switch {
		case !c.wire.seen:
			s.quiet() // a port probe
		case errors.Is(err, os.ErrDeadlineExceeded):
			s.cause(fmt.Errorf("TLS: %w", errHandshake))
		default:
			s.cause(s.clientFault(err))
		}
		return false
	}
	state := c.ConnectionState()
	s.mu.Lock()
	s.tls = &state
	s.mu.Unlock()
	return true
}

// tlsFields tells in the log what has protected the client's connection.
func (s *session) tlsFields() []zap.Field {
	if s.tls == nil {
		return nil
	}
	fields := []zap.Field{zap.String("tls", tls.VersionName(s.tls.Version))}
	if len(s.tls.PeerCertificates) > 0 {
		fields = append(fields, zap.String("certificate", certs.Name(s.tls.PeerCertificates[0])))
	}
	return fields
}

// upstreamAs is whom the proxy speaks for on a connection to a node. The zero value: for itself.
type upstreamAs struct {
	preamble []byte        // sent before anything else, TLS included; nil: ProxyVersion.Header
	tls      *certs.Loaded // for nodes with TLS; nil: the proxy's own as it is now
	client   bool          // the certificate in tls is the client's
	identity string        // whose it is then
	flags    bool          // Options.Flags
}

// connect opens a connection to a node: TCP, the preamble, TLS if the node is to have it.
func (s *server) connect(ctx context.Context, n *node, as upstreamAs) (net.Conn, error) {
	as.flags = s.o.Flags
	d := net.Dialer{KeepAlive: 15 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", n.Address)
	if err != nil {
		return nil, err
	}
	if as.preamble == nil {
		as.preamble = s.o.ProxyProtocol.Header(conn)
	}
	if len(as.preamble) > 0 {
		if _, err := conn.Write(as.preamble); err != nil {
			_ = conn.Close()
			return nil, err
		}
	}
	if !n.TLS {
		return conn, nil
	}
	host, _, _ := net.SplitHostPort(n.Address)
	if as.tls == nil {
		as.tls = s.o.UpstreamTLS.Loaded()
	}
	c := newTLSConn(conn, as.tls.Client(host), tls.Client, as.fault)
	if err := c.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("no answer to the TLS handshake: %w", ctx.Err())
		}
		return nil, fmt.Errorf("TLS: %w", as.fault(err))
	}
	return c, nil
}

// Dial connects to a node as a proxy with these options does for itself.
func Dial(ctx context.Context, o *Options, n Node) (net.Conn, error) {
	return (&server{o: *o}).connect(ctx, &node{Node: n}, upstreamAs{})
}

// errNoNode says that an address is no node's any more.
var errNoNode = errors.New("this is no upstream node any more")

// dialControl connects the proxy's own connections, all of them, to a node.
func (s *server) dialControl(ctx context.Context, _, address string) (net.Conn, error) {
	for _, n := range s.upstreams() {
		if n.Address == address {
			return s.connect(ctx, n, upstreamAs{})
		}
	}
	return nil, errNoNode
}
