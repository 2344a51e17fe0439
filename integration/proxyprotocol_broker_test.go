package integration

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/certs/certtest"
	"github.com/shardmq/shardmq/integration/rig"
)

var peerFields = []string{"peer_host", "peer_port", "host", "port"}

// TestProxyProtocolToTheBroker: the broker shows the client's address, and the proxy's own connections stand as well.
func TestProxyProtocolToTheBroker(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		e := newProxied(t, rig.NodeOptions{Version: version})
		for _, send := range []string{"v1", "v2"} {
			p := e.through(send, e.broker.Addr, "", "")
			listener := strings.Split(p.Addr, ":")
			require.NotContains(t, p.Logs(), "warn")

			conn := dial(t, e.at(p.Addr))
			local := conn.LocalAddr().(*net.TCPAddr)
			e.shows(peerFields, "127.0.0.1", fmt.Sprint(local.Port), listener[0], listener[1])

			conn = behind(t, believedHeader, e.at(p.Addr), amqp.Config{Properties: amqp.Table{"connection_name": "my " + send}})
			e.shows(append(peerFields, "user"), "192.0.2.7", "1234", "192.0.2.8", "5672", e.user)
			out := e.ctl("list_connections", "peer_host", "client_properties")
			require.Regexp(t, `192\.0\.2\.7\s.*"client_address","192\.0\.2\.7:1234"`, out)
			require.Regexp(t, `192\.0\.2\.7\s.*"proxy","shardmq `, out)
			require.Regexp(t, `192\.0\.2\.7\s.*"connection_name","my `+send, out)

			ch := channel(t, conn)
			require.NoError(t, ch.Confirm(false))
			declareSharded(t, ch, "images")
			publish(t, ch, "images", "k", text("over the control connections' shards"))
			require.Len(t, drain(t, ch, "images"), 1)
			require.NoError(t, conn.Close())

			conn = behind(t, "PROXY TCP6 2001:db8::7 2001:db8::8 1234 5672\r\n", e.at(p.Addr), amqp.Config{})
			e.shows(peerFields, "2001:db8::7", "1234", "2001:db8::8", "5672")
			require.NoError(t, conn.Close())
			code, err := p.Stop()
			require.NoError(t, err)
			require.Zero(t, code)
			logged(t, p, `"client":"192.0.2.7:1234"`, `"via":"127.0.0.1:`, "connection closed")
		}
		require.NotContains(t, e.broker.LogTail(10_000), "crasher")
	})
}

// TestProxyProtocolOfTheProxysOwn: what the proxy and its commands ask of a node is understood, and spoils nobody's log.
func TestProxyProtocolOfTheProxysOwn(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		e := newProxied(t, rig.NodeOptions{Version: version})
		p := e.start(rig.ProxyOptions{Config: fmt.Sprintf(`listeners: [{address: "127.0.0.1:0"}]
upstream: {nodes: [{address: %q}], proxy-protocol: v2}
admin: {address: "127.0.0.1:0"}
`, e.broker.Addr)}) // without policies it has no control connection that readiness could go by
		for range 3 {
			code, text := fetch(t, p, "/readyz")
			require.Equal(t, 200, code, text)
		}
		dial(t, e.at(p.Addr)) // the broker has got that far
		require.NotContains(t, e.broker.LogTail(10_000), "[error]")

		file := filepath.Join(t.TempDir(), "shardmq.yaml")
		for _, send := range []string{"v1", "v2"} {
			require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "upstream: {nodes: [{name: %q, address: %q}], proxy-protocol: %s}\npolicies:\n%s",
				e.broker.Name, e.broker.Addr, send, e.policy("images", 2, "")), 0o600))
			out, code := shardmq(t, "shards", "list", "--config", file)
			require.Zero(t, code, out)
		}
		require.NotContains(t, e.broker.LogTail(10_000), "crasher")
	})
}

// TestProxyProtocolAndPika: pika's session is what it is without any of this.
func TestProxyProtocolAndPika(t *testing.T) {
	t.Parallel()
	e := newProxied(t, rig.NodeOptions{})
	p := e.through("v2", e.broker.Addr, "", "")
	plain := newEnv(t)
	jobs := plain.name("jobs")
	require.Equal(t, python(t, "session.py", "work", plain.url, jobs, "fanout"), python(t, "session.py", "work", e.at(p.Addr), jobs, "fanout"))
}

// TestProxyProtocolBeforeTLS: on both sides the header comes before TLS, and the broker shows the client's TLS.
func TestProxyProtocolBeforeTLS(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		dir := t.TempDir()
		ca := certtest.NewCA(t, "CA")
		caFile := certtest.WriteFile(t, dir, "ca.pem", ca.PEM)
		cert, key := ca.Issue(t, certtest.Asked{Name: "server", Hosts: []string{"127.0.0.1"}}).Write(t, dir, "server")
		e := newProxied(t, rig.NodeOptions{Version: version, TLS: &rig.NodeTLS{CA: caFile, Cert: cert, Key: key}})
		secure := fmt.Sprintf("  - address: \"127.0.0.1:0\"\n    tls: {cert: %q, key: %q}\n    proxy-protocol: {trusted: [127.0.0.1]}\n", cert, key)
		for _, node := range []string{e.broker.Addr, "amqps://" + e.broker.TLSAddr} {
			upstream := ""
			if strings.HasPrefix(node, "amqps") {
				upstream = fmt.Sprintf("  tls: {ca: %q}\n", caFile)
			}
			p := e.through("v2", node, upstream, secure)
			config := amqp.Config{TLSClientConfig: certified(ca.PEM)}
			config.TLSClientConfig.MaxVersion = tls.VersionTLS12
			config.TLSClientConfig.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}
			conn := behind(t, believedHeader, "amqps"+strings.TrimPrefix(e.at(p.Addrs[1]), "amqp"), config)
			e.shows([]string{"peer_host", "peer_port", "ssl", "ssl_protocol", "ssl_cipher", "ssl_hash"}, "192.0.2.7", "1234", "true", "tlsv1.2", "aes_256_gcm", "aead")
			require.NoError(t, conn.Close())
			declareSharded(t, open(t, e.at(p.Addr)), "images")

			inside, err := tls.Dial("tcp", p.Addrs[1], certified(ca.PEM))
			require.Error(t, err, "this listener insists on a header")
			require.Nil(t, inside)
			logged(t, p, "no PROXY protocol header, which this listener asks of the peer", " (TLS)")
			plain, err := net.Dial("tcp", p.Addrs[1])
			require.NoError(t, err)
			_, err = plain.Write([]byte(believedHeader))
			require.NoError(t, err)
			named := certified(ca.PEM)
			named.ServerName = "127.0.0.1"
			inside = tls.Client(plain, named)
			_, err = inside.Write([]byte(believedHeader + "AMQP\x00\x00\x09\x01"))
			require.NoError(t, err)
			logged(t, p, "a second PROXY protocol header: there may be only one", `"client":"192.0.2.7:1234"`)
			require.NoError(t, inside.Close())
		}
		require.NotContains(t, e.broker.LogTail(10_000), "crasher")
	})
}
