package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/shardmq/shardmq/frames"
)

// rig is a running proxy in front of a scripted broker.
type rig struct {
	t      *testing.T
	addr   string
	logs   *observer.ObservedLogs
	broker *broker
	secure *tls.Config             // of clients; nil: plain AMQP
	wrap   func(net.Conn) net.Conn // what is put around their sockets; nil: nothing
	srv    *server
	cancel context.CancelFunc
	done   chan error // what Run has returned
}

// startRig runs a proxy with one node, the rig's broker, unless change says otherwise.
func startRig(t *testing.T, change func(*Options)) *rig {
	t.Helper()
	return startPrepared(t, change, func(*server) {})
}

// startPrepared is startRig with a look at the server before it runs.
func startPrepared(t *testing.T, change func(*Options), prepare func(*server)) *rig {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	ctx, cancel := context.WithCancel(context.Background())
	r := &rig{t: t, logs: logs, broker: listenBroker(t), cancel: cancel, done: make(chan error, 1)}
	addrs := make(chan []net.Addr, 1)
	o := Options{Listeners: []Listener{{Address: "127.0.0.1:0"}}, Nodes: []Node{{Address: r.broker.addr()}}, Log: zap.New(core), Version: "test",
		HandshakeTimeout: time.Hour, DrainTimeout: time.Hour, Ready: func(a []net.Addr) { addrs <- a }}
	if change != nil {
		change(&o)
	}
	r.srv = newServer(o)
	prepare(r.srv)
	go func() { r.done <- r.srv.run(ctx) }()
	select {
	case a := <-addrs:
		r.addr = a[0].String()
	case err := <-r.done:
		require.FailNow(t, "the proxy did not start", err)
	}
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-r.done)
		r.done <- nil
	})
	return r
}

// dial connects a client.
func (r *rig) dial() *peer {
	r.t.Helper()
	p := dialPeer(r.t, r.addr)
	if r.secure != nil {
		conn := p.Conn
		if r.wrap != nil {
			conn = r.wrap(conn)
		}
		return newPeer(r.t, tls.Client(conn, r.secure))
	}
	return p
}

func dialPeer(t *testing.T, addr string) *peer {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	return newPeer(t, conn)
}

// session is the only session there is.
func (r *rig) session() *session {
	r.t.Helper()
	r.srv.mu.Lock()
	defer r.srv.mu.Unlock()
	require.Len(r.t, r.srv.sessions, 1)
	for s := range r.srv.sessions {
		return s
	}
	return nil
}

// ended waits for n lines about connections' ends and returns them.
func (r *rig) ended(n int) []observer.LoggedEntry {
	r.t.Helper()
	var all []observer.LoggedEntry
	require.Eventually(r.t, func() bool {
		all = r.logs.Filter(func(e observer.LoggedEntry) bool {
			return e.Message == "connection ended" || e.Message == "connection closed"
		}).All()
		return len(all) >= n
	}, time.Minute, time.Millisecond)
	require.Len(r.t, all, n)
	return all
}

// cause is the error of the only connection that has ended.
func (r *rig) cause() string {
	r.t.Helper()
	text, _ := r.ended(1)[0].ContextMap()["error"].(string)
	return text
}

// broker accepts connections for a test to play the broker on.
type broker struct {
	t        *testing.T
	listener net.Listener
	secure   *tls.Config // nil: plain AMQP
	conns    chan net.Conn
}

func listenBroker(t *testing.T) *broker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b := &broker{t: t, listener: l, conns: make(chan net.Conn, 100)}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b.conns <- c
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		accepting.Wait()
		for len(b.conns) > 0 {
			_ = (<-b.conns).Close()
		}
	})
	return b
}

func (b *broker) addr() string { return b.listener.Addr().String() }

// accept waits for the proxy's next connection and reads its protocol header.
func (b *broker) accept() *peer {
	b.t.Helper()
	conn := <-b.conns
	if b.secure != nil {
		conn = tls.Server(conn, b.secure)
	}
	p := newPeer(b.t, conn)
	require.Equal(b.t, frames.ProtocolHeader[:], p.read(len(frames.ProtocolHeader)))
	return p
}

// peer is one end of a connection, driven by a test: its methods fail the test, so only the test's goroutine may call them,
// except next and the net.Conn's.
type peer struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func newPeer(t *testing.T, c net.Conn) *peer {
	t.Cleanup(func() { _ = c.Close() })
	return &peer{Conn: c, t: t, r: bufio.NewReader(c)}
}

// write sends octets as they are.
func (p *peer) write(b []byte) {
	p.t.Helper()
	_, err := p.Conn.Write(b)
	require.NoError(p.t, err)
}

// send sends methods on a channel.
func (p *peer) send(channel uint16, ms ...frames.Method) {
	p.t.Helper()
	var b []byte
	for _, m := range ms {
		b = frames.AppendMethod(b, channel, m)
	}
	p.write(b)
}

func (p *peer) read(n int) []byte {
	p.t.Helper()
	b := make([]byte, n)
	_, err := io.ReadFull(p.r, b)
	require.NoError(p.t, err)
	return b
}

// next reads one frame.
func (p *peer) next() (frames.Frame, error) {
	head := make([]byte, frames.HeadSize)
	if _, err := io.ReadFull(p.r, head); err != nil {
		return nil, err
	}
	f := append(head, make([]byte, frames.ParseHead(head).Size+1)...)
	if _, err := io.ReadFull(p.r, f[frames.HeadSize:]); err != nil {
		return nil, err
	}
	return frames.Next(f, 0)
}

func (p *peer) frame() frames.Frame {
	p.t.Helper()
	f, err := p.next()
	require.NoError(p.t, err)
	return f
}

// expect reads a frame with that method and decodes it into m.
func expect[M frames.Method](p *peer, m M) M {
	p.t.Helper()
	f := p.frame()
	require.Equal(p.t, m.ID().String(), f.Method().String())
	require.NoError(p.t, m.Decode(f.Args()))
	return m
}

// eof expects the end of what the other side sends.
func (p *peer) eof() {
	p.t.Helper()
	rest, err := io.ReadAll(p.r)
	require.NoError(p.t, err)
	require.Empty(p.t, rest)
}

// reset closes the connection with a TCP reset.
func (p *peer) reset() {
	p.t.Helper()
	conn := p.Conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	require.NoError(p.t, conn.(*net.TCPConn).SetLinger(0))
	require.NoError(p.t, conn.Close())
}

func (p *peer) closeWrite() {
	p.t.Helper()
	require.NoError(p.t, p.Conn.(interface{ CloseWrite() error }).CloseWrite())
}
