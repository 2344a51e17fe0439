package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"

	"github.com/pires/go-proxyproto"
	"github.com/pires/go-proxyproto/tlvparse"
	"go.uber.org/zap"
)

// ProxyProtocol has a listener take the client's address from a PROXY protocol header, version 1 or 2
// (https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt). The header comes before everything else, TLS included.
type ProxyProtocol struct {
	// Trusted are the peers that are believed. A header from anybody else is what the connection ends with.
	Trusted []netip.Prefix
	// Optional lets trusted peers also connect without a header.
	Optional bool
}

// trusts reports whether a peer's header is to be believed.
func (p *ProxyProtocol) trusts(peer net.Addr) bool {
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return false
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	for _, prefix := range p.Trusted {
		if prefix.Contains(ip) {
			return true
		}
	}
	return false
}

// origin is where a client's connection comes from.
type origin struct {
	client net.Addr // the client
	server net.Addr // what the client has connected to
	via    net.Addr // the peer whose word this is; nil: the client is the peer
	headed bool     // a header has been taken, whatever it says

	// From a header of version 2, to be passed on.
	uniqueID, alpn, authority []byte
	ssl                       *tlvparse.PP2SSL // nil: nothing is said of TLS
}

// Causes of a session's end at its header.
var (
	errNoProxyHeader  = errors.New("no PROXY protocol header, which this listener asks of the peer (see listeners[].proxy-protocol)")
	errProxyTooLong   = errors.New("the header is too long")
	errProxyDatagrams = errors.New("the header speaks of datagrams")
	errProxyChecksum  = errors.New("the header's checksum is wrong")
)

// originate finds out who the client is: it reads the PROXY protocol header where one is due, and not an octet more. It reports whether
// the session can go on.
func (s *session) originate() bool {
	rule := s.from.ProxyProtocol
	if rule == nil || !rule.trusts(s.origin.client) {
		return true
	}
	first, err := firstOctet(s.client)
	switch {
	case err != nil:
		s.quiet() // a port probe, however it ends
		return false
	case first != proxyproto.SIGV1[0] && first != proxyproto.SIGV2[0]:
		return rule.Optional || s.headless()
	}
	header, err := readProxyHeader(s.client)
	if err != nil {
		s.cause(fmt.Errorf("PROXY protocol: %w", err))
		return false
	}
	if err := s.origin.take(header); err != nil {
		s.cause(fmt.Errorf("PROXY protocol: %w", err))
		return false
	}
	s.origin.headed = true
	s.introduce()
	return true
}

// spoken is the function of that name for what this connection goes on with: it knows what has come before.
func (s *session) spoken(begin []byte) string {
	rule := s.from.ProxyProtocol
	switch {
	case begin[0] == tlsHandshakeRecord && s.from.TLS != nil:
		return " (TLS)" // in place of something else
	case !isProxyHeader(begin):
	case s.origin.headed:
		return " (a second PROXY protocol header: there may be only one)"
	case rule != nil && rule.trusts(s.origin.client):
		return " (a PROXY protocol header behind the TLS handshake: it has to come before)"
	}
	return spoken(begin)
}

// headless deals with a peer that must send a header and does not: only "shardmq healthcheck" gets an answer.
func (s *session) headless() bool {
	var begin [8]byte
	n, err := io.ReadFull(s.client, begin[:])
	if err == nil && begin == healthHeader {
		s.answerHealth()
		return false
	}
	s.cause(fmt.Errorf("%w: the connection begins with %q%s", errNoProxyHeader, begin[:n], s.spoken(begin[:])))
	return false
}

// introduce has log and broker know the client by the address that is believed.
func (s *session) introduce() {
	if s.origin.via == nil {
		return
	}
	fields := []zap.Field{zap.Uint64("conn", s.id), zap.Stringer("client", s.origin.client), zap.Stringer("via", s.origin.via)}
	if s.origin.uniqueID != nil {
		fields = append(fields, zap.ByteString("unique_id", s.origin.uniqueID))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = s.srv.log.With(fields...)
	s.rt.Introduce(s.origin.client.String())
}

// take believes a header. One without addresses (LOCAL, UNKNOWN, a family that is not TCP's) leaves the peer's own.
func (o *origin) take(h *proxyproto.Header) error {
	tlvs, err := h.TLVs()
	if err != nil {
		return err
	}
	if h.Command.IsLocal() {
		return nil // the peer's own connection, a health check perhaps
	}
	if h.TransportProtocol.IsDatagram() {
		return errProxyDatagrams
	}
	for _, each := range tlvs {
		switch each.Type {
		case proxyproto.PP2_TYPE_UNIQUE_ID:
			o.uniqueID = each.Value
		case proxyproto.PP2_TYPE_ALPN:
			o.alpn = each.Value
		case proxyproto.PP2_TYPE_AUTHORITY:
			o.authority = each.Value
		case proxyproto.PP2_TYPE_SSL:
			ssl, err := tlvparse.SSL(each)
			if err != nil {
				return err
			}
			o.ssl = &ssl
		}
	}
	if client, server, ok := h.TCPAddrs(); ok {
		o.client, o.server, o.via = client, server, o.client
	}
	return nil
}

// firstOctet waits for the first octet on a socket and leaves it there. io.EOF: none comes.
func firstOctet(conn net.Conn) (byte, error) {
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var b [1]byte
	var n int
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, _, failed = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
			if !errors.Is(failed, syscall.EINTR) {
				return !errors.Is(failed, syscall.EAGAIN)
			}
		}
	})
	switch {
	case err != nil:
		return 0, err
	case failed != nil:
		return 0, failed
	case n == 0:
		return 0, io.EOF
	}
	return b[0], nil
}

// isProxyHeader reports whether at least five octets begin a PROXY protocol header.
func isProxyHeader(begin []byte) bool {
	return bytes.HasPrefix(begin, proxyproto.SIGV1) || bytes.HasPrefix(begin, proxyproto.SIGV2[:5])
}
