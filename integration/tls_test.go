package integration

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/certs/certtest"
	"github.com/shardmq/shardmq/integration/rig"
)

// Mutual TLS on both sides: the control connections make shards, the two clients' libraries and a plain client go through.
func TestTLSOnBothSides(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		s := newSecured(t, version)
		s.policies = s.policy("images", 4, "") + s.policy("jobs", 2, "")
		p := s.through(s.config(""))
		secure := s.overTLS(p, "client")

		ch := confirming(t, secure)
		declareSharded(t, ch, "images")
		c := consume(t, secure, "images", 20)
		sent := keys("key", 400)
		publishKeys(t, ch, "images", sent)
		waitBodies(t, sent, c)
		s.probe("images", 4).waitConsumers(1, 1, 1, 1)
		c.leave(t)

		works(t, s.plain(p))
		out := python(t, "session.py", "work", s.pikaOverTLS(p), "jobs", "x-modulus-hash")
		require.Contains(t, out, "delivery: ")
		require.Equal(t, out, python(t, "session.py", "work", s.plain(p), "jobs", "x-modulus-hash"), "the same as without TLS")

		for _, program := range []string{"list", "prune"} {
			said, code := shardmqCommand(t, "shards", program, "--config", writeConfig(t, s.config("")), "images")
			require.Zero(t, code, said)
			require.Contains(t, said, map[string]string{"list": "sharding: images", "prune": "no surplus shards"}[program])
		}
	})
}

// TLS from the client, none to the broker; and the large body that goes through many records.
func TestTLSToPlainAndLargeBodies(t *testing.T) {
	t.Parallel()
	s := newSecured(t, "")
	upstream := fmt.Sprintf(`"amqps://%s"`, s.broker.TLSAddr)
	plainUpstream := s.through(strings.Replace(s.config("{}"), upstream, fmt.Sprintf(`"amqp://%s"`, s.broker.Addr), 1))
	for _, p := range []*rig.Proxy{plainUpstream, s.through(s.config(""))} {
		url := s.overTLS(p, "client")
		works(t, url)
		ch := confirming(t, url)
		q, err := ch.QueueDeclare("", false, true, true, false, nil)
		require.NoError(t, err)
		for _, size := range []int{0, 1, 4087, 131064, 131065, 64 << 20} {
			sent := body(size)
			publish(t, ch, "", q.Name, amqp.Publishing{Body: sent})
			d, ok, err := ch.Get(q.Name, true)
			require.NoError(t, err)
			require.True(t, ok)
			require.Len(t, d.Body, size)
			require.Equal(t, sha256.Sum256(sent), sha256.Sum256(d.Body))
		}
	}
}

// handshakeAndRead speaks TLS as an overTLS URL says, and returns why that has ended, which with TLS 1.3 shows when something is read. A library that
// has begun to speak AMQP may find its connection closed before it looks why.
func handshakeAndRead(t *testing.T, url string) error {
	t.Helper()
	uri, err := amqp.ParseURI(url)
	require.NoError(t, err)
	ca, err := os.ReadFile(uri.CACertFile)
	require.NoError(t, err)
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	require.True(t, config.RootCAs.AppendCertsFromPEM(ca))
	if uri.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(uri.CertFile, uri.KeyFile)
		require.NoError(t, err)
		config.Certificates = []tls.Certificate{pair}
	}
	conn, err := tls.Dial("tcp", net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)), config)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Read(make([]byte, 1))
	return err
}

// What a client may not do, and what the log says of it.
func TestTLSClientsRefused(t *testing.T) {
	t.Parallel()
	s := newSecured(t, "")
	p := s.through(s.config(""))
	s.front.Issue(t, certtest.Asked{Name: "late", Expired: true}).Write(t, s.dir, "late")
	s.back.Issue(t, certtest.Asked{Name: "stranger"}).Write(t, s.dir, "stranger")
	refused := func(url string, said string, words ...string) {
		t.Helper()
		require.ErrorContains(t, handshakeAndRead(t, url), said)
		logged(t, p, append(words, "connection ended")...)
	}
	refused(s.overTLS(p, ""), "certificate required", "client didn't provide a certificate")
	refused(s.overTLS(p, "late"), "expired certificate", "certificate has expired")
	untrusted := strings.Replace(s.overTLS(p, "client"), "front-ca.pem", "back-ca.pem", 1)
	refused(untrusted, "unknown authority", "the client refuses this listener's certificate", "bad certificate")
	_, port, err := net.SplitHostPort(p.Addrs[0])
	require.NoError(t, err)
	refused(strings.Replace(s.overTLS(p, "client"), "127.0.0.1:"+port, "localhost:"+port, 1), "localhost", "bad certificate")

	// Whoever insists on a certificate of another CA: amqp091-go does not show one that nobody asks for.
	pair, err := tls.LoadX509KeyPair(s.file("stranger.pem"), s.file("stranger.key"))
	require.NoError(t, err)
	conn, err := tls.Dial("tcp", p.Addrs[0], &tls.Config{RootCAs: s.front.Pool(), MinVersion: tls.VersionTLS12,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }})
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
		_ = conn.Close()
	}
	require.ErrorContains(t, err, "unknown certificate authority")
	logged(t, p, "TLS: tls: failed to verify certificate", "unknown authority")

	// Plain AMQP and HTTP on the TLS port, TLS on the plain one.
	_, err = amqp.Dial("amqp://guest:guest@" + p.Addrs[0] + "/")
	require.Error(t, err)
	logged(t, p, "no TLS: the connection begins with", "plain AMQP on a TLS listener")
	raw, err := net.Dial("tcp", p.Addrs[0])
	require.NoError(t, err)
	_, err = raw.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, raw)
	require.NoError(t, raw.Close())
	logged(t, p, "no TLS: the connection begins with", "(HTTP)")
	_, err = amqp.Dial(strings.Replace(s.overTLS(p, "client"), p.Addrs[0], p.Addrs[1], 1))
	require.Error(t, err)
	logged(t, p, "TLS on a plain listener")
	works(t, s.overTLS(p, "client"))
}

// Probes and health checks on the TLS port leave nothing in the log.
func TestTLSProbesAreQuiet(t *testing.T) {
	t.Parallel()
	s := newSecured(t, "")
	p := s.through(s.config(""))
	shown := []string{"--cert", s.file("client.pem"), "--key", s.file("client.key")}
	check := append([]string{"healthcheck", "--address", p.Addrs[0], "--tls", "--ca", s.clientsTrust}, shown...)
	said, code := shardmqCommand(t, check...)
	require.Zero(t, code, said)
	said, code = shardmqCommand(t, append(check, "--ready")...)
	require.Zero(t, code, said)

	probe, err := net.Dial("tcp", p.Addrs[0])
	require.NoError(t, err)
	require.NoError(t, probe.Close())
	pair, err := tls.LoadX509KeyPair(s.file("client.pem"), s.file("client.key"))
	require.NoError(t, err)
	secure, err := tls.Dial("tcp", p.Addrs[0], &tls.Config{RootCAs: s.front.Pool(), Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	require.NoError(t, err)
	require.NoError(t, secure.Close())

	works(t, s.overTLS(p, "client")) // and so all of the above are through
	require.NotContains(t, p.Logs(), "connection ended")

	said, code = shardmqCommand(t, "healthcheck", "--address", p.Addrs[0], "--tls", "--ca", s.clientsTrust)
	require.Equal(t, 1, code, said)
	require.Contains(t, said, "certificate required")
	said, code = shardmqCommand(t, "healthcheck", "--address", p.Addrs[0], "--tls")
	require.Equal(t, 1, code, said)
	require.Contains(t, said, "unknown authority")
}
