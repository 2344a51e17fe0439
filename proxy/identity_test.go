package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"testing"

	"github.com/pires/go-proxyproto"
	"github.com/pires/go-proxyproto/tlvparse"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/certs"
	"github.com/shardmq/shardmq/config/certs/certtest"
	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
)

// named is a certificate with an organisation and behind it these common names.
func named(commonNames ...any) *x509.Certificate {
	names := pkix.RDNSequence{{{Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: "Example"}}}
	for _, cn := range commonNames {
		names = append(names, pkix.RelativeDistinguishedNameSET{{Type: oidCommonName, Value: cn}})
	}
	raw, err := asn1.Marshal(names)
	if err != nil {
		panic(err)
	}
	c := &x509.Certificate{RawSubject: raw}
	c.Subject.FillFromRDNSequence(&names)
	return c
}

// showing is the TLS of a client that has shown a certificate.
func showing(c *x509.Certificate, verified bool) *tls.ConnectionState {
	s := &tls.ConnectionState{Version: tls.VersionTLS13, CipherSuite: tls.TLS_AES_128_GCM_SHA256, PeerCertificates: []*x509.Certificate{c}}
	if verified {
		s.VerifiedChains = [][]*x509.Certificate{{c}}
	}
	return s
}

func TestWhoGetsWhichIdentity(t *testing.T) {
	subject, err := certs.ParseSubject("CN=app2,O=Example")
	require.NoError(t, err)
	o := &Options{Identities: []Identity{
		{Name: "one", CommonName: "app1"}, {Name: "two", Subject: subject}, {Name: "side"}, {Name: "app3"},
	}}
	for name, tc := range map[string]struct {
		listener string
		state    *tls.ConnectionState
		want     string
	}{
		"no TLS":                                  {"", nil, ""},
		"TLS without a certificate":               {"", &tls.ConnectionState{}, ""},
		"by common name":                          {"", showing(named("app1"), true), "one"},
		"not verified":                            {"", showing(named("app1"), false), ""},
		"another case":                            {"", showing(named("APP1"), true), ""},
		"the beginning of it":                     {"", showing(named("app"), true), ""},
		"two common names":                        {"", showing(named("app1", "app1"), true), ""},
		"two common names, the last one fits":     {"", showing(named("x", "app1"), true), ""},
		"two common names, the first one fits":    {"", showing(named("app1", "x"), true), ""},
		"a common name that is no text":           {"", showing(named(5), true), ""},
		"no common name":                          {"", showing(named(), true), ""},
		"by subject":                              {"", showing(named("app2"), true), "two"},
		"by subject, another name in front":       {"", showing(named("x", "app2"), true), ""},
		"by subject, another name behind":         {"", showing(named("app2", "x"), true), ""},
		"by subject, not verified":                {"", showing(named("app2"), false), ""},
		"an identity's name is no client's":       {"", showing(named("side"), true), ""},
		"likewise":                                {"", showing(named("app3"), true), ""},
		"the listener's":                          {"side", nil, "side"},
		"the listener's before the certificate's": {"side", showing(named("app1"), true), "side"},
		"a listener's that is none":               {"nobody", showing(named("app1"), true), ""},
	} {
		got := ""
		if i := o.identity(&Listener{Identity: tc.listener}, tc.state); i != nil {
			got = i.Name
		}
		require.Equal(t, tc.want, got, name)
	}
}

// What is not known to be the client's certificate is taken for the proxy's.
func TestCertificateIsTheProxysUnlessKnown(t *testing.T) {
	require.Zero(t, router.ProxyCertificate)
	plain := &node{Node: Node{}}
	require.Equal(t, router.NoCertificate, new(upstreamAs).certificate(plain))
	require.Equal(t, router.NoCertificate, (&upstreamAs{client: true}).certificate(plain), "nobody sees it")
}

func TestCipherNames(t *testing.T) {
	for suite, want := range map[uint16]string{ // as "openssl ciphers -stdname" has them
		tls.TLS_AES_128_GCM_SHA256:                        "TLS_AES_128_GCM_SHA256",
		tls.TLS_CHACHA20_POLY1305_SHA256:                  "TLS_CHACHA20_POLY1305_SHA256",
		tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256:         "ECDHE-RSA-AES128-GCM-SHA256",
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384:       "ECDHE-ECDSA-AES256-GCM-SHA384",
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256: "ECDHE-ECDSA-CHACHA20-POLY1305",
		tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA:            "ECDHE-RSA-AES128-SHA",
		tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256:         "ECDHE-RSA-AES128-SHA256",
		tls.TLS_RSA_WITH_AES_256_GCM_SHA384:               "AES256-GCM-SHA384",
		tls.TLS_RSA_WITH_3DES_EDE_CBC_SHA:                 "DES-CBC3-SHA",
	} {
		require.Equal(t, want, opensslName(suite))
	}
}

// told is what a header of version 2 tells a node.
func told(t *testing.T, o *origin, state *tls.ConnectionState) map[proxyproto.PP2Type]string {
	t.Helper()
	o.client, o.server = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 1}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 8), Port: 2}
	b, err := ProxyV2.header(o, state)
	require.NoError(t, err)
	h, err := parseProxyHeader(b)
	require.NoError(t, err)
	tlvs, err := h.TLVs()
	require.NoError(t, err)
	out := map[proxyproto.PP2Type]string{}
	for _, each := range tlvs {
		out[each.Type] = string(each.Value)
		if tlvparse.IsSSL(each) {
			ssl, err := tlvparse.SSL(each)
			require.NoError(t, err)
			require.True(t, ssl.ClientSSL())
			require.Equal(t, ssl.ClientCertConn(), ssl.Verified())
			for _, sub := range ssl.TLV {
				out[sub.Type] = string(sub.Value)
			}
			delete(out, each.Type)
		}
	}
	return out
}

func TestTLSInHeader(t *testing.T) {
	behind := &origin{uniqueID: []byte("id"), alpn: []byte("amqp"), authority: []byte("outer"), ssl: &tlvparse.PP2SSL{Client: 1, Verify: 1,
		TLV: []proxyproto.TLV{{Type: proxyproto.PP2_SUBTYPE_SSL_VERSION, Value: []byte("TLSv1.2")}}}}
	require.Equal(t, map[proxyproto.PP2Type]string{}, told(t, &origin{}, nil))
	require.Equal(t, map[proxyproto.PP2Type]string{proxyproto.PP2_TYPE_UNIQUE_ID: "id", proxyproto.PP2_TYPE_ALPN: "amqp",
		proxyproto.PP2_TYPE_AUTHORITY: "outer", proxyproto.PP2_SUBTYPE_SSL_VERSION: "TLSv1.2"}, told(t, behind, nil), "passed on")

	state := showing(named("app1"), true)
	state.ServerName = "inner"
	require.Equal(t, map[proxyproto.PP2Type]string{proxyproto.PP2_TYPE_UNIQUE_ID: "id", proxyproto.PP2_TYPE_AUTHORITY: "inner",
		proxyproto.PP2_SUBTYPE_SSL_VERSION: "TLSv1.3", proxyproto.PP2_SUBTYPE_SSL_CIPHER: "TLS_AES_128_GCM_SHA256", proxyproto.PP2_SUBTYPE_SSL_CN: "app1"},
		told(t, behind, state), "what the proxy knows itself counts")
	require.NotContains(t, told(t, &origin{}, showing(named("app1"), false)), proxyproto.PP2_SUBTYPE_SSL_CN, "not verified")
}

// Who cannot be reached as an identity is told of that, and is offered EXTERNAL, without which it would not answer.
func TestIdentityThatIsRefused(t *testing.T) {
	ca, other := certtest.NewCA(t, "CA"), certtest.NewCA(t, "other")
	asking := serverTLS(t, ca, func(o *certs.ServerOptions) { o.ClientCA = certtest.WriteFile(t, t.TempDir(), "ca.pem", ca.PEM) })
	for _, by := range []*certtest.CA{ca, other} {
		r := startRig(t, func(o *Options) {
			o.Nodes[0] = answeringTLS(t, asking.Server())
			o.Nodes[0].TLS, o.UpstreamTLS = true, trusting(t, ca, nil)
			o.Identities = []Identity{{Name: "app1", TLS: trusting(t, ca, func(o *certs.ClientOptions) {
				o.Cert, o.Key = by.Issue(t, certtest.Asked{Name: "app1", Expired: by == ca}).Write(t, t.TempDir(), "app1")
			})}}
			o.Listeners[0].Identity = "app1"
		})
		client := r.dial()
		client.write(frames.ProtocolHeader[:])
		start := expect(client, &frames.ConnectionStart{})
		require.Equal(t, "PLAIN AMQPLAIN EXTERNAL", string(start.Mechanisms))
		client.send(0, &frames.ConnectionStartOk{Mechanism: "EXTERNAL", Locale: "en_US"})
		require.EqualValues(t, 320, expect(client, &frames.ConnectionClose{}).ReplyCode)
		require.NoError(t, client.Close())
		require.Contains(t, r.cause(), `the certificate of identity "app1": see upstream.tls.identities`)
	}
}
