package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config"
	"github.com/shardmq/shardmq/config/certs"
	"github.com/shardmq/shardmq/config/certs/certtest"
	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards/discovery"
)

// tlsFile is a configuration with certificates in a folder.
func tlsFile(dir string) string {
	return fmt.Sprintf(`listeners: [{address: ":1", tls: {cert: %[1]s/server.pem, key: %[1]s/server.key}}, {address: ":2"}]
upstream: {nodes: [{address: "a:1"}], tls: {ca: %[1]s/ca.pem}}
`, dir)
}

// tlsFolder is a folder with the certificates that tlsFile names, and whose name is in it.
func tlsFolder(t *testing.T, ca *certtest.CA, name string) string {
	t.Helper()
	dir := t.TempDir()
	certtest.WriteFile(t, dir, "ca.pem", ca.PEM)
	ca.Issue(t, certtest.Asked{Name: name, Hosts: []string{"127.0.0.1"}}).Write(t, dir, "server")
	return dir
}

func TestFileToTLSOptions(t *testing.T) {
	dir := tlsFolder(t, certtest.NewCA(t, "CA"), "first")
	r := shardmq(nil, "proxy", "--config", write(t, tlsFile(dir)))
	require.Zero(t, r.code, r.stderr)
	require.Equal(t, "first", certs.Name(r.options.Listeners[0].TLS.Loaded().Leaf()))
	require.Nil(t, r.options.Listeners[1].TLS)
	require.NotNil(t, r.options.UpstreamTLS)
	require.True(t, r.options.Nodes[0].TLS)

	r = shardmq(nil, "proxy", "--config", write(t, `upstream: {nodes: [{address: "amqps://a"}], tls: {verify: false}}`))
	require.Contains(t, r.stderr, "warn configuration")
	require.Contains(t, r.stderr, "upstream.tls.verify: is false: whoever answers")
	file := write(t, `upstream: {nodes: [{address: "amqps://a"}], tls: {verify: false}}`)
	r = shardmq(nil, "config", "check", file)
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stderr, file+":1: upstream.tls.verify: is false: ")
	require.Contains(t, r.stderr, " (warning)\n")
	require.Contains(t, r.stdout, ": ok: ")

	r = shardmq(nil, "proxy", "--upstream", "amqps://127.0.0.1", "--upstream-ca", filepath.Join(dir, "ca.pem"))
	require.Zero(t, r.code, r.stderr)
	require.True(t, r.options.Nodes[0].TLS)
}

// Certificates that change are taken by connections to come, without an update of the proxy's.
func TestCertificatesAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := certtest.NewCA(t, "CA")
		dir := tlsFolder(t, ca, "first")
		second := ca.Issue(t, certtest.Asked{Name: "second", Hosts: []string{"127.0.0.1"}})
		r := startReloader(t, tlsFile(dir))
		r.quiet()
		shown := func() string { return certs.Name(r.running.listeners[":1#0"].Loaded().Leaf()) }
		require.Equal(t, "first", shown())

		certtest.WriteFile(t, dir, "server.key", second.Key) // its certificate comes later
		time.Sleep(3 * lookEvery)
		synctest.Wait()
		require.Equal(t, []string{"configuration not reloaded"}, r.messages())
		require.Equal(t, "first", shown())
		certtest.WriteFile(t, dir, "server.pem", second.Cert)
		r.quiet()
		require.Equal(t, "second", shown())
		replaced := r.logs.TakeAll()
		require.Len(t, replaced, 1)
		require.Equal(t, "TLS of listener replaced", replaced[0].Message)
		require.Equal(t, "second", replaced[0].ContextMap()["certificate"])
		require.Equal(t, ":1", replaced[0].ContextMap()["address"])

		certtest.WriteFile(t, dir, "ca.pem", certtest.NewCA(t, "CA 2").PEM)
		r.quiet()
		require.Equal(t, []string{"TLS to nodes replaced"}, r.messages())

		require.NoError(t, os.Remove(filepath.Join(dir, "ca.pem")))
		r.quiet()
		refused := r.logs.TakeAll()
		require.Len(t, refused, 1, "once")
		require.Equal(t, []any{r.path + ":2: upstream.tls.ca: " + dir + "/ca.pem: no such file; check the path"}, refused[0].ContextMap()["problems"])
		certtest.WriteFile(t, dir, "ca.pem", ca.PEM)
		r.quiet()
		require.Equal(t, []string{"TLS to nodes replaced"}, r.messages())
	})
}

// A file that is named anew and is broken is taken once it has been mended, though nothing else has changed.
func TestNewCertificateIsMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := certtest.NewCA(t, "CA")
		dir, other := tlsFolder(t, ca, "first"), tlsFolder(t, ca, "second")
		good, err := os.ReadFile(filepath.Join(other, "server.pem"))
		require.NoError(t, err)
		certtest.WriteFile(t, other, "server.pem", []byte("broken"))
		r := startReloader(t, tlsFile(dir))
		r.quiet()
		r.write(tlsFile(other))
		r.quiet()
		require.Equal(t, []string{"configuration not reloaded"}, r.messages())
		certtest.WriteFile(t, other, "server.pem", good)
		r.quiet()
		require.Equal(t, []string{"TLS of listener replaced"}, r.messages(), "and no restart is needed")
		require.Equal(t, "second", certs.Name(r.running.listeners[":1#0"].Loaded().Leaf()))
	})
}

// A file that also says anew who gets which identity must not have the new certificates go to the former clients, nor the former ones to
// clients that the new CAs let in.
func TestIdentitiesStayWithTheirClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := certtest.NewCA(t, "CA")
		dir, other := tlsFolder(t, ca, "first"), tlsFolder(t, certtest.NewCA(t, "CA 2"), "second")
		text := func(listeners, identity, dir string) string {
			return fmt.Sprintf(`listeners: [{address: ":1", tls: {cert: %[3]s/server.pem, key: %[3]s/server.key, client-ca: %[3]s/ca.pem}},
  {address: ":3", tls: {cert: %[3]s/server.pem, key: %[3]s/server.key}}%[1]s]
upstream: {nodes: [{address: "amqps://a"}], tls: {identities: [{name: app, %[2]s, cert: %[3]s/server.pem, key: %[3]s/server.key}]}}
`, listeners, identity, dir)
		}
		const side, app1 = `, {address: ":2", identity: app}`, "common-name: app1"
		r := startReloader(t, text(side, app1, dir))
		r.quiet()
		shown := func() []string {
			return []string{certs.Name(r.running.listeners[":1#0"].Loaded().Leaf()), certs.Name(r.running.identities["app"].Loaded().Leaf()),
				certs.Name(r.running.listeners[":3#0"].Loaded().Leaf())}
		}
		for _, changed := range []string{text(side, "common-name: app2", other), text(side, `subject: "CN=app1"`, other), text(`, {address: ":2"}`, app1, other),
			text(`, {address: "127.0.0.1:2", identity: app}`, app1, other), text("", app1, other)} {
			r.write(changed)
			r.quiet()
			require.Equal(t, []string{"first", "first", "second"}, shown(), changed)
			said := r.messages()
			require.Contains(t, said, "needs a restart")
			require.Contains(t, said, "certificate of identity stays until the restart, for who gets which identity has changed")
			require.Contains(t, said, "TLS of listener stays until the restart, for who gets which identity has changed")
		}
		r.write(text(side+`, {address: ":4"}`, app1, other)) // a listener more is nobody's loss
		r.quiet()
		require.Equal(t, []string{"second", "second", "second"}, shown())
	})
}

// The management API over https goes by upstream.tls.
func TestManagementOverTLS(t *testing.T) {
	ca := certtest.NewCA(t, "CA")
	dir := t.TempDir()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`[{"name":"rabbit@a","running":true}]`))
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Issue(t, certtest.Asked{Name: "m", Hosts: []string{"127.0.0.1"}}).TLS(t)}, MinVersion: tls.VersionTLS12}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	text := "upstream: {discovery: {management: {url: \"" + s.URL + "\", port: 5671}}"
	for more, want := range map[string]string{
		", tls: {ca: " + certtest.WriteFile(t, dir, "ca.pem", ca.PEM) + ", server-name: other.test}}": "", "}": "unknown authority",
	} {
		cfg, err := config.Parse("shardmq.yaml", []byte(text+more), os.LookupEnv)
		require.NoError(t, err)
		nodes, err := upstreamNodes(t.Context(), cfg, liveOf(t, cfg).upstream)
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, []config.Node{{Name: "rabbit@a", Address: "a:5671", TLS: true}}, nodes)
	}
	r := shardmq(nil, "proxy", "--config", write(t, "upstream: {tls: {}, discovery: {management: {url: \"https://a\"}}}\n"))
	require.Zero(t, r.code, r.stderr)
	require.True(t, r.options.DiscoveryTLS)
	m, ok := r.options.Discovery.(discovery.Management)
	require.True(t, ok)
	require.True(t, m.TLS, "the ports for TLS")
	require.NotNil(t, m.Client)
}

func TestHealthcheckOverTLS(t *testing.T) {
	ca := certtest.NewCA(t, "CA")
	dir := tlsFolder(t, ca, "listener")
	caFile, cert, key := dir+"/ca.pem", dir+"/server.pem", dir+"/server.key"
	loaded, found := certs.LoadServer(certs.ServerOptions{Cert: cert, Key: key, ClientCA: caFile})
	require.Empty(t, found)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c := tls.Server(conn, certs.NewLive(loaded).Server())
			if _, err := io.ReadFull(c, make([]byte, len(frames.ProtocolHeader))); err == nil {
				_, _ = c.Write(frames.ProtocolHeader[:])
				_, _ = io.Copy(io.Discard, c)
			}
			_ = c.Close()
		}
	}()
	defer func() { _ = l.Close(); <-done }()
	shown := []string{"--cert", cert, "--key", key}
	for _, c := range []struct {
		flags []string
		code  int
		want  string
	}{
		{append([]string{"--tls", "--ca", caFile}, shown...), 0, "healthy"},
		{append([]string{"--tls", "--no-verify"}, shown...), 0, "healthy"},
		{append([]string{"--tls"}, shown...), 1, "unknown authority"},
		{append([]string{"--tls", "--ca", caFile, "--server-name", "a.test"}, shown...), 1, "a.test"},
		{[]string{"--tls", "--ca", caFile}, 1, "certificate required"},
		{[]string{"--ca", caFile}, 2, "--tls: is missing; --ca"},
		{[]string{"--tls", "--cert", cert}, 2, "--cert: give both of --cert and --key, or neither"},
		{[]string{"--tls", "--ca", "none.pem"}, 2, "--ca: none.pem: no such file; check the path"},
	} {
		r := shardmq(nil, append([]string{"healthcheck", "--address", l.Addr().String()}, c.flags...)...)
		require.Equal(t, c.code, r.code, "%q: %s", c.flags, r.stderr)
		require.Contains(t, r.stdout+r.stderr, c.want, "%q", c.flags)
	}
}
