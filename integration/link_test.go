package integration

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// link is a TCP connection path to a broker that can be cut, held and restored.
type link struct {
	t    *testing.T
	addr string // stays the same over cut and restore
	to   string

	mu       sync.Mutex
	changed  *sync.Cond
	listener net.Listener
	conns    map[net.Conn]bool
	held     bool   // nothing is read from clients
	heldOf   string // nothing is read from clients that have said this; "" = from nobody
	closed   bool
	running  sync.WaitGroup
}

// newLink returns a link to the address; it is gone when the test ends.
func newLink(t *testing.T, to string) *link {
	t.Helper()
	l := &link{t: t, to: to, conns: map[net.Conn]bool{}}
	l.changed = sync.NewCond(&l.mu)
	l.addr = "127.0.0.1:0"
	l.restore()
	t.Cleanup(func() {
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		l.hold(false)
		l.holdOf("")
		l.cut()
		l.running.Wait()
	})
	return l
}

// restore listens again, at the same address as before.
func (l *link) restore() {
	l.t.Helper()
	listener, err := net.Listen("tcp", l.addr)
	require.NoError(l.t, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listener, l.addr = listener, listener.Addr().String()
	l.running.Go(func() { l.accept(listener) })
}

// cut ends all connections at once and accepts no more: the address refuses connections.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.listener.Close()
	for c := range l.conns {
		_ = c.Close()
	}
}

// hold stops (or resumes) passing on what clients send: their connections stay up, and fill.
func (l *link) hold(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = on
	l.changed.Broadcast()
}

// holdOf stops passing on what one client sends whose address the proxy has announced to the broker, which nothing else has; "" resumes it.
func (l *link) holdOf(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heldOf = address
	l.changed.Broadcast()
}

func (l *link) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		l.running.Go(func() { l.serve(client) })
	}
}

func (l *link) serve(client net.Conn) {
	defer client.Close()
	l.passes(nil)
	server, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer server.Close()
	l.track(client, server)
	defer l.forget(client, server)
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	})
	buffer := make([]byte, 32<<10)
	var said []byte // its beginning
	for {
		l.passes(said)
		n, err := client.Read(buffer)
		said = append(said, buffer[:min(n, len(buffer)-len(said))]...)
		if _, werr := server.Write(buffer[:n]); err != nil || werr != nil {
			break
		}
	}
	_ = server.Close()
	back.Wait()
}

// passes waits while the link is held for who has said that.
func (l *link) passes(said []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.held || l.heldOf != "" && bytes.Contains(said, []byte(l.heldOf)) {
		l.changed.Wait()
	}
}

func (l *link) track(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		l.conns[c] = true
		if l.closed {
			_ = c.Close()
		}
	}
}

func (l *link) forget(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		delete(l.conns, c)
	}
}
