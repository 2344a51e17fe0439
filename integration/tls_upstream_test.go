package integration

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/certs/certtest"
	"github.com/shardmq/shardmq/integration/rig"
)

// shardmqCommand runs a command and returns what it has said, and its exit code.
func shardmqCommand(t *testing.T, args ...string) (string, int) {
	t.Helper()
	binary, err := rig.BuildProxy(t.Context())
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), binary, args...)
	out, _ := cmd.CombinedOutput() // the exit code says it
	return string(out), cmd.ProcessState.ExitCode()
}

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	return certtest.WriteFile(t, t.TempDir(), "shardmq.yaml", []byte(text))
}

// A node that is not believed, or does not believe the proxy, is one that cannot be reached: clients are told, the log says what to do.
func TestTLSUpstreamRefused(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		s := newSecured(t, version)
		s.policies = s.policy("images", 2, "") // so that there are control connections
		s.front.Issue(t, certtest.Asked{Name: "nobody"}).Write(t, s.dir, "nobody")
		shown := fmt.Sprintf("cert: %q, key: %q", s.file("proxy.pem"), s.file("proxy.key"))
		trusting := fmt.Sprintf("ca: %q", s.file("back-ca.pem"))
		secure, plain := "amqps://"+s.broker.TLSAddr, "amqp://"+s.broker.TLSAddr
		for name, c := range map[string]struct {
			tls, node string
			words     []string
		}{
			"CA of nobody":   {"{" + shown + "}", secure, []string{"signed by nobody that is trusted", "upstream.tls.ca", "unknown authority"}},
			"another name":   {"{" + trusting + ", " + shown + ", server-name: other.test}", secure, []string{"its certificate is for another name", "upstream.tls.server-name", "not other.test"}},
			"no certificate": {"{" + trusting + "}", secure, []string{"upstream.tls.cert"}},
			"another's":      {fmt.Sprintf("{%s, cert: %q, key: %q}", trusting, s.file("nobody.pem"), s.file("nobody.key")), secure, []string{"upstream.tls.cert"}},
			"TLS to plain":   {"{" + trusting + "}", "amqps://" + s.broker.Addr, []string{"does not speak TLS on this port"}},
			"plain to TLS":   {"{}", plain, []string{"it speaks TLS on this port"}},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				inner := *s
				inner.env = &env{t: t, broker: s.broker, vhost: s.vhost, url: s.url}
				p := inner.through(strings.Replace(s.config(c.tls), secure, c.node, 1))
				_, err := amqp.Dial(s.plain(p))
				require.ErrorContains(t, err, "shardmq cannot reach the broker")
				_, err = amqp.Dial(s.overTLS(p, "client"))
				require.ErrorContains(t, err, "shardmq cannot reach the broker")
				logged(t, p, append(c.words, "connection ended", "no upstream node reachable")...)
				if c.node == secure {
					logged(t, p, append(c.words, "coordination not connected")...)
				}
			})
		}
	}, "", "4.3")
}

func TestTLSWithoutVerification(t *testing.T) {
	t.Parallel()
	s := newSecured(t, "")
	tls := fmt.Sprintf("{cert: %q, key: %q, verify: false}", s.file("proxy.pem"), s.file("proxy.key"))
	p := s.through(s.config(tls))
	works(t, s.overTLS(p, "client"))
	logged(t, p, "warn", "upstream.tls.verify: is false")

	named := fmt.Sprintf("{ca: %q, cert: %q, key: %q, server-name: broker.test, min-version: 1.3}", s.file("back-ca.pem"), s.file("proxy.pem"), s.file("proxy.key"))
	works(t, s.overTLS(s.through(s.config(named)), "client"))
}

// The flags alone.
func TestTLSUpstreamByFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := certtest.NewCA(t, "CA")
	cert, key := ca.Issue(t, certtest.Asked{Name: "broker", Hosts: []string{"localhost"}}).Write(t, dir, "broker")
	caFile := certtest.WriteFile(t, dir, "ca.pem", ca.PEM)
	e := newNodeEnv(t, rig.NodeOptions{TLS: &rig.NodeTLS{CA: caFile, Cert: cert, Key: key}})
	_, port, err := net.SplitHostPort(e.broker.TLSAddr)
	require.NoError(t, err)
	upstream := "amqps://guest:guest@localhost:" + port
	p := e.start(rig.ProxyOptions{Upstream: upstream, Shards: map[string]int{"images": 2}, Args: []string{"--upstream-ca", caFile}})
	ch := confirming(t, p.URL)
	declareSharded(t, ch, "images")
	c := consume(t, p.URL, "images", 0)
	publishKeys(t, ch, "images", keys("k", 50))
	waitBodies(t, keys("k", 50), c)
	said, code := shardmqCommand(t, "shards", "list", "--upstream", upstream, "--upstream-ca", caFile, "--shard", "images=2")
	require.Zero(t, code, said)
	require.Contains(t, said, "sharding: images")

	p = e.start(rig.ProxyOptions{Upstream: upstream})
	_, err = amqp.Dial(p.URL)
	require.ErrorContains(t, err, "shardmq cannot reach the broker")
	logged(t, p, "signed by nobody that is trusted")
}

// Certificates of both sides are replaced while a connection stays up.
func TestTLSReplaced(t *testing.T) {
	t.Parallel()
	s := newSecured(t, "")
	p := s.through(s.config(""))
	stays := confirming(t, s.overTLS(p, "client"))
	q, err := stays.QueueDeclare("", false, true, true, false, nil)
	require.NoError(t, err)
	staysUp := func() {
		publish(t, stays, "", q.Name, text("still here"))
		_, ok, err := stays.Get(q.Name, true)
		require.NoError(t, err)
		require.True(t, ok)
	}
	staysUp()

	// A new CA for the clients' side, one file after the other, the listener's own last: once that is taken all are.
	front := certtest.NewCA(t, "front CA 2")
	certtest.WriteFile(t, s.dir, "front-ca.pem", front.PEM)
	front.Issue(t, certtest.Asked{Name: "client 2"}).Write(t, s.dir, "client")
	front.Issue(t, certtest.Asked{Name: "listener 2", Hosts: []string{"127.0.0.1"}}).Write(t, s.dir, "listener")
	logged(t, p, "TLS of listener replaced", "listener 2")
	works(t, s.overTLS(p, "client"))
	staysUp()

	// A broken one changes nothing, and says so.
	good, err := os.ReadFile(s.file("listener.pem"))
	require.NoError(t, err)
	certtest.WriteFile(t, s.dir, "listener.pem", []byte("no certificate"))
	logged(t, p, "configuration not reloaded", "listeners[0].tls.cert: "+s.file("listener.pem")+": holds no PEM")
	works(t, s.overTLS(p, "client"))
	require.NoError(t, p.Signal(syscall.SIGHUP))
	eventually(t, "another line for the SIGHUP", func() string {
		if n := strings.Count(p.Logs(), "configuration not reloaded"); n < 2 {
			return fmt.Sprint(n)
		}
		return ""
	})
	certtest.WriteFile(t, s.dir, "listener.pem", good)
	logged(t, p, "configuration read again: nothing to change")

	// The broker's side: first its certificate, which the proxy does not trust, then the CA.
	back := certtest.NewCA(t, "back CA 2")
	certtest.WriteFile(t, s.dir, "back-ca.pem", back.PEM)
	back.Issue(t, certtest.Asked{Name: "broker 2", Hosts: []string{"127.0.0.1"}}).Write(t, s.dir, "broker")
	back.Issue(t, certtest.Asked{Name: "proxy 2"}).Write(t, s.dir, "proxy")
	_, err = s.broker.Ctl(t.Context(), "eval", "ssl:clear_pem_cache().")
	require.NoError(t, err)
	logged(t, p, "TLS to nodes replaced", "proxy 2")
	works(t, s.overTLS(p, "client"))
	staysUp()
	require.NotContains(t, p.Logs(), "needs a restart")
}

// A broker that dies: clients are told, and find it again.
func TestTLSBrokerKilled(t *testing.T) {
	t.Parallel()
	s := newSecured(t, "")
	s.policies = s.policy("images", 2, "")
	p := s.through(s.config(""))
	url := s.overTLS(p, "client")
	declareSharded(t, confirming(t, url), "images")
	conn, err := amqp.Dial(url)
	require.NoError(t, err)
	gone := conn.NotifyClose(make(chan *amqp.Error, 1))
	require.NoError(t, s.broker.Kill())
	require.Equal(t, amqp.ConnectionForced, closed(t, gone).Code)
	_, err = amqp.Dial(url)
	require.ErrorContains(t, err, "shardmq cannot reach the broker")
	require.NoError(t, s.broker.Restart(t.Context()))
	ch := eventuallyOpen(t, url)
	require.NoError(t, ch.Confirm(false))
	c := consume(t, url, "images", 0)
	publishKeys(t, ch, "images", keys("k", 50))
	waitBodies(t, keys("k", 50), c)
}

// Clients that stall in the TLS handshake keep nobody out, and are cut in time.
func TestTLSHandshakeStalls(t *testing.T) {
	t.Parallel()
	s := newSecured(t, "")
	p := s.through(strings.Replace(s.config(""), "policies:", "proxy: {handshake-timeout: 3s}\npolicies:", 1))
	var stalled []net.Conn
	for i := range 50 {
		conn, err := net.Dial("tcp", p.Addrs[0])
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Write([]byte("\x16\x03\x01\x02\x00\x01"[:1+i%6])) // the beginning of a ClientHello
		require.NoError(t, err)
		stalled = append(stalled, conn)
	}
	works(t, s.overTLS(p, "client"))
	for _, conn := range stalled {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
		_, err := conn.Read(make([]byte, 1))
		require.Error(t, err)
		var timeout net.Error
		require.False(t, errors.As(err, &timeout) && timeout.Timeout(), "not cut")
	}
	logged(t, p, "connection ended", "TLS", "handshake not complete in time")
}
