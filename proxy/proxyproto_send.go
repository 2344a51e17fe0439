package proxy

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"

	"github.com/pires/go-proxyproto"
	"github.com/pires/go-proxyproto/tlvparse"
)

// ProxyVersion is a version of the PROXY protocol.
type ProxyVersion uint8

// The versions that nodes can be spoken to in; the zero value is none.
const (
	ProxyOff ProxyVersion = 0
	ProxyV1  ProxyVersion = 1
	ProxyV2  ProxyVersion = 2
)

// maxCommonName is how long a common name may be to be told, in octets. X.520 allows 64 characters.
const maxCommonName = 256

// Header is what one of the proxy's own connections to a node begins with, before TLS; nothing for ProxyOff. It carries the connection's own
// addresses: RabbitMQ drops a connection that begins with UNKNOWN, and 3.10 one with LOCAL as well.
func (v ProxyVersion) Header(conn net.Conn) []byte {
	b, _ := v.header(&origin{client: conn.LocalAddr(), server: conn.RemoteAddr()}, nil) // two ends of a socket always go into a header
	return b
}

// header is what a client's connection to a node begins with; nil for ProxyOff. state is the client's TLS, nil for none.
func (v ProxyVersion) header(o *origin, state *tls.ConnectionState) ([]byte, error) {
	if v == ProxyOff {
		return nil, nil
	}
	h := proxyproto.HeaderProxyFromAddrs(byte(v), o.client, o.server)
	if v == ProxyV2 {
		if err := h.SetTLVs(o.tlvs(state)); err != nil {
			return nil, fmt.Errorf("PROXY protocol header for the broker: %w", err)
		}
	}
	b, err := h.Format()
	if err != nil {
		return nil, fmt.Errorf("PROXY protocol header for the broker: %w", err)
	}
	return b, nil
}

// tlvs is what version 2 tells beside the addresses. The client's own TLS with the proxy counts before what a header has said of TLS in front of it.
func (o *origin) tlvs(state *tls.ConnectionState) (out []proxyproto.TLV) {
	alpn, authority, ssl := o.alpn, o.authority, o.ssl
	if state != nil {
		alpn, authority, ssl = []byte(state.NegotiatedProtocol), []byte(state.ServerName), clientTLS(state)
	}
	for _, each := range []proxyproto.TLV{
		{Type: proxyproto.PP2_TYPE_ALPN, Value: alpn},
		{Type: proxyproto.PP2_TYPE_AUTHORITY, Value: authority},
		{Type: proxyproto.PP2_TYPE_UNIQUE_ID, Value: o.uniqueID},
	} {
		if len(each.Value) > 0 {
			out = append(out, each)
		}
	}
	if ssl != nil {
		if each, err := ssl.Marshal(); err == nil {
			out = append(out, each)
		}
	}
	return out
}

// clientTLS describes a client's TLS. RabbitMQ shows it where version and cipher are given, the latter by OpenSSL's name.
func clientTLS(state *tls.ConnectionState) *tlvparse.PP2SSL {
	ssl := &tlvparse.PP2SSL{Client: tlvparse.PP2_BITFIELD_CLIENT_SSL, Verify: 1, TLV: []proxyproto.TLV{
		{Type: proxyproto.PP2_SUBTYPE_SSL_VERSION, Value: []byte(strings.Replace(tls.VersionName(state.Version), "TLS ", "TLSv", 1))},
		{Type: proxyproto.PP2_SUBTYPE_SSL_CIPHER, Value: []byte(opensslName(state.CipherSuite))},
	}}
	if len(state.VerifiedChains) > 0 {
		ssl.Client |= tlvparse.PP2_BITFIELD_CLIENT_CERT_CONN | tlvparse.PP2_BITFIELD_CLIENT_CERT_SESS
		ssl.Verify = 0
		if cn, ok := commonName(state.PeerCertificates[0]); ok && len(cn) <= maxCommonName {
			ssl.TLV = append(ssl.TLV, proxyproto.TLV{Type: proxyproto.PP2_SUBTYPE_SSL_CN, Value: []byte(cn)})
		}
	}
	return ssl
}

// opensslName is OpenSSL's name of a cipher suite. Those of TLS 1.3 have one name everywhere.
func opensslName(suite uint16) string {
	name := tls.CipherSuiteName(suite)
	exchange, cipher, old := strings.Cut(strings.TrimPrefix(name, "TLS_"), "_WITH_")
	if !old {
		return name
	}
	cipher = strings.NewReplacer("AES_128", "AES128", "AES_256", "AES256", "3DES_EDE_CBC", "DES_CBC3", "_CBC_", "_",
		"CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305").Replace(cipher)
	if exchange != "RSA" {
		cipher = exchange + "_" + cipher
	}
	return strings.ReplaceAll(cipher, "_", "-")
}
