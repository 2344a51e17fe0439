package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/certs"
	"github.com/shardmq/shardmq/config/certs/certtest"
)

// What is to be changed is called as it is where it stands: in a file, or among the flags.
func TestRemediesAmongFlags(t *testing.T) {
	as := &upstreamAs{flags: true, tls: trusting(t, certtest.NewCA(t, "CA"), nil).Loaded()}
	alert := func(code uint8) error { return &net.OpError{Op: "remote error", Err: alertError(code)} }
	unverified := func(err error) error { return &tls.CertificateVerificationError{Err: err} }
	for _, c := range []struct {
		err  error
		want string
	}{
		{unverified(x509.UnknownAuthorityError{}), "its certificate is signed by nobody that is trusted: name the CA's file in --upstream-ca ("},
		{unverified(x509.HostnameError{Certificate: &x509.Certificate{}}), "set upstream.tls.server-name in a file (--config) to one that is in it ("},
		{alert(certs.AlertCertificateRequired), "it asks for a certificate: set upstream.tls.cert and upstream.tls.key in a file (--config) ("},
		{alert(certs.AlertHandshakeFailure), "it may ask for a certificate (upstream.tls.cert in a file (--config)), or for other ciphers ("},
		{alert(certs.AlertProtocolVersion), "see upstream.tls.min-version in a file (--config) ("},
		{alert(certs.AlertUnrecognizedName), "see upstream.tls.server-name in a file (--config) ("},
	} {
		require.ErrorContains(t, as.fault(c.err), c.want)
		require.NotContains(t, (&upstreamAs{tls: as.tls}).fault(c.err).Error(), "--")
	}
	n := answering(t, "\x15\x03\x01\x00\x02\x02\x46")
	_, _, err := newServer(Options{Nodes: []Node{n}, Flags: true}).dial(t.Context(), upstreamAs{})
	require.ErrorContains(t, err, "it speaks TLS on this port: give amqps:// in --upstream")
	secure := answeringTLS(t, serverTLS(t, certtest.NewCA(t, "other"), nil).Server())
	secure.TLS = true
	_, err = Dial(t.Context(), &Options{UpstreamTLS: trusting(t, certtest.NewCA(t, "CA"), nil), Flags: true}, secure)
	require.ErrorContains(t, err, "name the CA's file in --upstream-ca")
}

// alertError is an alert as crypto/tls passes it on.
type alertError uint8

func (alertError) Error() string { return "tls: an alert" }
