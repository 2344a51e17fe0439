package integration

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/integration/rig"
)

// believer is a proxy in front of the shared broker with a listener for headers from trusted peers (YAML), and a plain one.
func believer(t *testing.T, rule string) (*env, *rig.Proxy) {
	t.Helper()
	e := newEnv(t)
	return e, e.start(rig.ProxyOptions{Listeners: 2, Config: fmt.Sprintf(`listeners:
  - address: "127.0.0.1:0"
    proxy-protocol: %s
  - address: "127.0.0.1:0"
upstream:
  nodes: [{address: %q}]
proxy: {handshake-timeout: 2s}
admin: {address: "127.0.0.1:0"}
`, rule, e.broker.Addr)})
}

// saying connects, writes each packet on its own, and returns what the proxy says before it closes the connection or waits for more.
func saying(t *testing.T, address string, packets ...string) (answer string, open bool) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	for _, p := range packets {
		if _, err := io.WriteString(conn, p); err != nil {
			return "", false // refused by then
		}
	}
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
	b := make([]byte, 64<<10)
	n, err := conn.Read(b)
	return string(b[:n]), err == nil && n > 8
}

// TestHeadersOnTheWire: however a header comes in, and whatever is none, with the real program.
func TestHeadersOnTheWire(t *testing.T) {
	t.Parallel()
	_, p := believer(t, "{trusted: [127.0.0.1]}")
	amqp := string(frames.ProtocolHeader[:])
	v2 := "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x07\xc0\x00\x02\x08\x04\xd2\x16\x28"
	for name, packets := range map[string][]string{"one packet": {believedHeader + amqp}, "split": {believedHeader[:9], believedHeader[9:] + amqp[:3], amqp[3:]},
		"version 2": {v2 + amqp}, "version 2, split": {v2[:13], v2[13:], amqp}, "unknown": {"PROXY UNKNOWN\r\n", amqp}} {
		answer, open := saying(t, p.Addrs[0], packets...)
		require.True(t, open, name)
		require.Contains(t, answer, "RabbitMQ", "%s: connection.start", name)
	}
	for sent, cause := range map[string]string{
		amqp:                               "no PROXY protocol header",
		"GET / HTTP/1.0\r\n\r\n":           "no PROXY protocol header",
		"PROXY TCP4 1.2.3.4\r\n" + amqp:    "the header is malformed",
		v2[:12] + "\x31" + v2[13:] + amqp:  "the header is malformed",
		v2[:14] + "\xff\xff" + v2[16:]:     "the header is too long",
		"PROXY TCP4 " + string(body(1000)): "the header is too long",
		believedHeader + believedHeader:    "a second PROXY protocol header: there may be only one",
	} {
		_, open := saying(t, p.Addrs[0], sent)
		require.False(t, open, "%q", head([]byte(sent), 40))
		logged(t, p, cause, "connection ended")
	}
	for _, sent := range []string{"", "PROX", believedHeader[:20], v2[:20], believedHeader} { // and no more
		_, open := saying(t, p.Addrs[0], sent)
		require.False(t, open, "%q", sent)
	}
	logged(t, p, "the header is not complete", "timeout")

	answer, open := saying(t, p.Addrs[1], believedHeader+amqp)
	require.False(t, open)
	require.Equal(t, amqp, answer, "what RabbitMQ says to what it does not speak")
	dial(t, "amqp://guest:guest@"+p.Addrs[1]+"/") // the others go on
}

// TestHeaderOfAStranger: who is not trusted is not believed, and is a client like any other without a header.
func TestHeaderOfAStranger(t *testing.T) {
	t.Parallel()
	e, p := believer(t, "{trusted: [10.0.0.0/8, \"::1\"]}")
	answer, open := saying(t, p.Addr, believedHeader+string(frames.ProtocolHeader[:]))
	require.False(t, open)
	require.Equal(t, string(frames.ProtocolHeader[:]), answer)
	logged(t, p, "a PROXY protocol header, which this listener does not take from this peer", `"client":"127.0.0.1:`)
	require.NotContains(t, p.Logs(), "192.0.2.7")
	dial(t, withHost(t, e.url, p.Addr))
}

// TestManyBadHeaders: they leave nothing behind.
func TestManyBadHeaders(t *testing.T) {
	t.Parallel()
	e, p := believer(t, "{trusted: [127.0.0.1]}")
	dial(t, withHost(t, e.url, p.Addrs[1]))
	check := leavesNothing(t, p)
	for i := range 200 {
		conn, err := net.Dial("tcp", p.Addrs[0])
		require.NoError(t, err)
		_, _ = io.WriteString(conn, []string{"PROXY TCP4 nobody\r\n", believedHeader, "PROXY", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c", ""}[i%5])
		if i%2 == 0 {
			require.NoError(t, conn.(*net.TCPConn).SetLinger(0))
		}
		require.NoError(t, conn.Close())
	}
	check()
}
