package proxy

import (
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

func TestWrongProtocolHeader(t *testing.T) {
	cases := []struct{ name, sent, cause string }{
		{"AMQP 1.0", "AMQP\x00\x01\x00\x00", "another AMQP version"},
		{"AMQP 1.0 and more, not waiting", "AMQP\x03\x01\x00\x00" + string(pattern(5000)), "another AMQP version"},
		{"HTTP", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "(HTTP)"},
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS on a plain listener"},
		{"something", "12345678", `"12345678"`},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			r := startRig(t, nil)
			client := r.dial()
			client.write([]byte(tc.sent))
			require.Equal(t, frames.ProtocolHeader[:], client.read(8))
			client.eof()
			require.NoError(t, client.Close())
			require.Contains(t, r.cause(), tc.cause)
			require.Contains(t, r.cause(), "not AMQP 0-9-1")
		})
	}
}

// RabbitMQ takes AMQP 0-9 for 0-9-1, and there are clients that say so.
func TestOldProtocolHeader(t *testing.T) {
	r := startRig(t, nil)
	client := r.dial()
	client.write([]byte("AMQP\x01\x01\x00\x09"))
	broker := newPeer(t, <-r.broker.conns)
	require.Equal(t, frames.ProtocolHeader[:], broker.read(8))
	broker.send(0, startMethod)
	require.Equal(t, startMethod, expect(client, &frames.ConnectionStart{}))
}

func TestShortHeaderIsLogged(t *testing.T) {
	r := startRig(t, nil)
	client := r.dial()
	client.write([]byte("\x16\x03\x01"))
	require.NoError(t, client.Close())
	require.Contains(t, r.cause(), "TLS on a plain listener")
}

// The beginning of a good header is nothing wrong.
func TestCutHeaderIsNoOtherVersion(t *testing.T) {
	r := startRig(t, nil)
	client := r.dial()
	client.write(frames.ProtocolHeader[:6])
	require.NoError(t, client.Close())
	cause := r.cause()
	require.Contains(t, cause, "protocol header")
	require.NotContains(t, cause, "AMQP version")
}

// Load balancers and kubelets connect and say nothing, all day.
func TestPortProbeIsSilent(t *testing.T) {
	r := startRig(t, nil)
	for _, end := range []func(*peer){func(p *peer) { require.NoError(t, p.Close()) }, (*peer).reset} {
		end(r.dial())
	}
	client, broker := r.openChannel(0) // accepted behind the probes
	require.NoError(t, client.Close())
	broker.eof()
	require.NoError(t, broker.Close())
	r.cancel()
	require.NoError(t, <-r.done)
	r.done <- nil
	r.ended(1)
	require.Empty(t, r.broker.conns)
}

// deadAddress is one where nobody listens, and nobody else can, until listen is called.
func deadAddress(t *testing.T) (address string, listen func() net.Listener) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "bound, not listening")
	t.Cleanup(func() { _ = f.Close() })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	listen = func() net.Listener {
		require.NoError(t, syscall.Listen(fd, 10))
		l, err := net.FileListener(f)
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(name.(*syscall.SockaddrInet4).Port)), listen
}

// deadNode is a node at such an address.
func deadNode(t *testing.T) Node {
	t.Helper()
	address, _ := deadAddress(t)
	return Node{Address: address}
}

// turnedAway plays a client that no node can be reached for.
func turnedAway(client *peer, pipelined bool) {
	client.t.Helper()
	client.write(frames.ProtocolHeader[:])
	start := expect(client, &frames.ConnectionStart{})
	require.Contains(client.t, string(start.Mechanisms), "PLAIN")
	client.send(0, startOk())
	if pipelined {
		client.write(pattern(5000))
	}
	m := expect(client, &frames.ConnectionClose{})
	require.EqualValues(client.t, 320, m.ReplyCode)
	require.Contains(client.t, m.ReplyText, "cannot reach the broker")
	client.eof()
	require.NoError(client.t, client.Close())
}

func TestUpstreamUnreachable(t *testing.T) {
	for _, pipelined := range []bool{false, true} {
		r := startRig(t, func(o *Options) { o.Nodes = []Node{deadNode(t), deadNode(t)} })
		turnedAway(r.dial(), pipelined)
		require.Contains(t, r.cause(), "no upstream node reachable")
		for _, n := range r.srv.upstreams() {
			require.Contains(t, r.cause(), n.Address)
		}
	}
}

// A forwarder in front of a broker that is down (Docker's, a load balancer) accepts connections and closes them at once.
func TestUpstreamAcceptsAndCloses(t *testing.T) {
	for name, end := range map[string]func(*peer){"clean": func(p *peer) { require.NoError(p.t, p.Close()) }, "reset": (*peer).reset} {
		t.Run(name, func(t *testing.T) {
			r := startRig(t, nil)
			client := r.dial()
			client.write(frames.ProtocolHeader[:])
			end(newPeer(t, <-r.broker.conns))
			start := expect(client, &frames.ConnectionStart{})
			require.NotEmpty(t, start.Mechanisms)
			client.send(0, startOk())
			require.EqualValues(t, 320, closeOk(client).ReplyCode)
			client.eof()
			require.NoError(t, client.Close())
			require.Contains(t, r.cause(), r.broker.addr())
		})
	}
}

func TestProxyRecoversWithItsBroker(t *testing.T) {
	address, listen := deadAddress(t)
	r := startRig(t, func(o *Options) { o.Nodes = []Node{{Address: address}} })
	turnedAway(r.dial(), false)
	l := listen()
	client := r.dial()
	client.write(frames.ProtocolHeader[:])
	conn, err := l.Accept()
	require.NoError(t, err)
	broker := newPeer(t, conn)
	require.Equal(t, frames.ProtocolHeader[:], broker.read(8))
	broker.send(0, startMethod)
	require.Equal(t, startMethod, expect(client, &frames.ConnectionStart{}))
}
