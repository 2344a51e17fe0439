package config

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/certs"
	"github.com/shardmq/shardmq/config/certs/certtest"
)

const tlsFile = `
listeners:
  - address: ":5671"
    tls: {cert: server.pem, key: server.key, client-ca: ca.pem, client-auth: optional, min-version: 1.3}
  - address: ":5672"
upstream:
  nodes:
    - {name: rabbit@a, address: "a:5671"}
    - {name: rabbit@b, address: "amqp://b"}
    - {name: rabbit@c, address: "amqps://[::1]/"}
  tls: {ca: ca.pem, cert: app1.pem, key: app1.key, server-name: rabbit.example, verify: true, min-version: "1.2"}
`

func TestTLSKeys(t *testing.T) {
	dir := identityDir(t)
	c := parseIn(t, dir, tlsFile)
	file := func(name string) string { return filepath.Join(dir, name) }
	require.Equal(t, &certs.ServerOptions{Cert: file("server.pem"), Key: file("server.key"), ClientCA: file("ca.pem"),
		ClientAuth: certs.Optional, MinVersion: tls.VersionTLS13}, c.Listeners[0].TLS)
	require.Nil(t, c.Listeners[1].TLS)
	require.Equal(t, &certs.ClientOptions{CA: file("ca.pem"), Cert: file("app1.pem"), Key: file("app1.key"), ServerName: "rabbit.example",
		MinVersion: tls.VersionTLS12}, c.Upstream.TLS)
	require.Equal(t, []Node{
		{Name: "rabbit@a", Address: "a:5671", TLS: true}, {Name: "rabbit@b", Address: "b:5672"}, {Name: "rabbit@c", Address: "[::1]:5671", TLS: true},
	}, c.Upstream.Nodes)
	require.Empty(t, c.Warnings)
	require.ElementsMatch(t, []string{file("server.pem"), file("server.key"), file("ca.pem"), file("ca.pem"), file("app1.pem"), file("app1.key")}, c.Files())
}

// Which nodes have TLS.
func TestNodesWithTLS(t *testing.T) {
	for text, want := range map[string]bool{
		`{nodes: [{address: "a:1"}]}`:                                         false,
		`{nodes: [{address: "amqp://a:1"}]}`:                                  false,
		`{nodes: [{address: "amqps://a:1"}]}`:                                 true,
		`{nodes: [{address: "a:1"}], tls: {}}`:                                true,
		`{tls: {min-version: 1.3}, nodes: [{address: "a:1"}]}`:                true,
		`{tls: {}, nodes: [{address: "amqp://a:1"}]}`:                         false,
		`{discovery: {srv: {name: _amqp._tcp.x}}}`:                            false,
		`{discovery: {srv: {name: _amqps._tcp.x}}}`:                           true,
		`{discovery: {srv: {name: x}}, tls: {}}`:                              true,
		`{discovery: {management: {url: "https://a"}}}`:                       false,
		`{tls: {server-name: x}, discovery: {management: {url: "http://a"}}}`: true,
	} {
		c := parse(t, "upstream: "+text+"\n")
		if c.Upstream.Discovery != nil {
			require.Equal(t, want, c.Upstream.Discovery.TLS, text)
			continue
		}
		require.Equal(t, []Node{{Address: "a:1", TLS: want}}, c.Upstream.Nodes, text)
	}
}

// What certificates cannot be for is no name to ask for.
func TestServerNames(t *testing.T) {
	for _, good := range []string{"a", "rabbit.example", "Rabbit-1.Example.", "_rabbit.example", "10.0.0.1", "::1", "2001:db8::1"} {
		require.NoError(t, CheckServerName(good), good)
	}
	for _, bad := range []string{"a:1", "rabbit.example:5671", "[::1]", "[::1]:5671", "fe80::1%eth0", "amqps://a", "*.example", "a b", "a/b", "a..b", ".", "-a",
		"räbbit.example", "a@b"} {
		require.ErrorContains(t, CheckServerName(bad), "is \""+bad+"\"; give a host name alone, without a port, as it is in the certificate, e.g. rabbit.example")
	}
	_, err := Parse("f.yaml", []byte(`upstream: {nodes: [{address: "amqps://a"}], tls: {server-name: "a:1"}}`), os.LookupEnv)
	require.EqualError(t, err, `f.yaml:1: upstream.tls.server-name: is "a:1"; give a host name alone, without a port, as it is in the certificate, e.g. rabbit.example`)
}

// Problems and warnings of certificates stand where the file is named.
func TestCertificatesAreChecked(t *testing.T) {
	dir := identityDir(t)
	ca := certtest.NewCA(t, "ca 2")
	ca.Issue(t, certtest.Asked{Name: "old", Hosts: []string{"localhost"}, Expired: true}).Write(t, dir, "old")
	require.NoError(t, os.Chmod(filepath.Join(dir, "old.key"), 0o644))
	name := filepath.Join(dir, "shardmq.yaml")
	c := parseIn(t, dir, `
listeners:
  - address: ":1"
    tls: {cert: old.pem, key: old.key}
upstream:
  nodes: [{address: "amqps://a"}]
  tls:
    verify: false
`)
	require.Len(t, c.Warnings, 3)
	require.Contains(t, c.Warnings[0].String(), name+":4: listeners[0].tls.key: "+dir+"/old.key: can be read by everybody; ")
	require.Contains(t, c.Warnings[1].String(), name+":4: listeners[0].tls.cert: "+dir+"/old.pem: old expired on ")
	require.Contains(t, c.Warnings[2].String(), name+":8: upstream.tls.verify: is false: whoever answers")

	_, err := Parse(name, []byte(`
listeners:
  - address: ":1"
    tls:
      cert: server.pem
      key: app1.key
upstream: {nodes: [{address: "amqps://a"}], tls: {ca: app1.key}}
`), os.LookupEnv)
	require.EqualError(t, err, name+":6: listeners[0].tls.key: "+dir+"/app1.key: does not belong to the certificate in "+dir+"/server.pem; give the key that it was made for\n"+
		name+":7: upstream.tls.ca: "+dir+"/app1.key: holds no certificate but private key; give the file with the certificate")
}

// What of TLS takes a restart, and what is told as a change of a node.
func TestChangesOfTLS(t *testing.T) {
	dir := identityDir(t)
	before := parseIn(t, dir, tlsFile)
	after := parseIn(t, dir, tlsFile)
	require.True(t, Same(before, after))
	after.Listeners[0].TLS.Cert = "other.pem"
	require.False(t, Same(before, after))
	require.Empty(t, NeedRestart(before, after), "another certificate is taken over")
	after.Upstream.TLS = nil
	require.Empty(t, NeedRestart(before, after))
	after.Listeners[0].TLS = nil
	require.Equal(t, []string{"listeners"}, NeedRestart(before, after))
	after = parseIn(t, dir, tlsFile)
	after.Upstream.Nodes[1].TLS = true
	require.Equal(t, []Change{{Kind: Changed, Name: "rabbit@b", Keys: []string{"tls: false -> true"}}}, Diff(before, after).Nodes)
}
