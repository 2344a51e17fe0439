package main

import (
	"crypto/tls"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/certs/certtest"
)

// A vhost that cannot be looked at does not keep the others from it; a mistake of whoever asks ends it.
func TestShardsLooksAtEveryVhost(t *testing.T) {
	file := write(t, `upstream:
  nodes: [{name: rabbit@a, address: "127.0.0.1:1"}]
policies:
  - {name: a, vhost: a, pattern: "^x$", definition: {shards: 1}}
  - {name: b, vhost: b, pattern: "^x$", definition: {shards: 1}}
`)
	for _, command := range []string{"list", "prune"} {
		r := shardmq(nil, "shards", command, "--config", file)
		require.Equal(t, 1, r.code)
		require.Empty(t, r.stdout)
		for _, vhost := range []string{"a", "b"} {
			require.Contains(t, r.stderr, "shardmq: vhost "+vhost+": no RabbitMQ node has answered")
		}
	}
	r := shardmq(nil, "shards", "list", "--config", file, "x")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.stderr, "say which one with --vhost")
}

// handshaking is a server that does TLS handshakes and says nothing.
func handshaking(t *testing.T, config *tls.Config) (address string) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func(c net.Conn) { _ = c.Close() }(conn)
				_, _ = io.Copy(io.Discard, conn)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	return l.Addr().String()
}

// What is wrong with TLS is told in terms of what was given, and not as if the broker had said it over AMQP.
func TestShardsOverTLS(t *testing.T) {
	ca := certtest.NewCA(t, "CA")
	config := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{ca.Issue(t, certtest.Asked{Name: "node", Hosts: []string{"127.0.0.1"}}).TLS(t)}}
	asking := config.Clone()
	asking.ClientAuth = tls.RequireAnyClientCert
	caFile := certtest.WriteFile(t, t.TempDir(), "ca.pem", ca.PEM)
	list := func(node *tls.Config, more ...string) string {
		address := handshaking(t, node)
		r := shardmq(nil, append([]string{"shards", "list", "--upstream", "amqps://" + address, "--node-name", "rabbit@a", "--shard", "x=1"}, more...)...)
		require.Equal(t, 1, r.code)
		return r.stderr
	}
	// A refusal in TLS 1.3 comes behind the handshake.
	refused := list(asking, "--upstream-ca", caFile)
	require.Contains(t, refused, "AMQP handshake: it asks for a certificate: set upstream.tls.cert and upstream.tls.key in a file (--config) (")
	require.NotContains(t, refused, "Exception")
	untrusted := list(config)
	require.Contains(t, untrusted, "name the CA's file in --upstream-ca (")
	require.NotContains(t, untrusted, "Exception")
	file := write(t, "upstream: {nodes: [{name: rabbit@a, address: \""+handshaking(t, asking)+"\"}], tls: {ca: "+caFile+"}}\n"+
		"policies: [{name: x, pattern: \"^x$\", definition: {shards: 1}}]\n")
	r := shardmq(nil, "shards", "list", "--config", file)
	require.Contains(t, r.stderr, "AMQP handshake: it asks for a certificate: set upstream.tls.cert and upstream.tls.key (")
	require.NotContains(t, r.stderr, "Exception")
}
