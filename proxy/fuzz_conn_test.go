package proxy

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// memoryConn is one end of a connection in memory that can be closed like a socket: a direction at a time. It waits on nothing but a sync.Cond, so
// that in a synctest bubble time passes while everybody waits.
type memoryConn struct {
	in, out *memoryPipe
}

// memoryPipe is one direction.
type memoryPipe struct {
	mu             sync.Mutex
	changed        *sync.Cond
	b              []byte
	most           int  // octets that nobody has read yet; a Write waits while there are as many
	ended, unread  bool // by the writer, by the reader
	reads, writes  time.Time
	timerR, timerW *time.Timer
}

func newMemoryPipe(most int) *memoryPipe {
	p := &memoryPipe{most: most}
	p.changed = sync.NewCond(&p.mu)
	return p
}

// newMemoryConn returns both ends.
func newMemoryConn(most int) (near, far *memoryConn) {
	a, b := newMemoryPipe(most), newMemoryPipe(most)
	return &memoryConn{in: a, out: b}, &memoryConn{in: b, out: a}
}

func past(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

// Read implements net.Conn.
func (c *memoryConn) Read(b []byte) (int, error) {
	p := c.in
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.unread:
			return 0, net.ErrClosed
		case past(p.reads):
			return 0, os.ErrDeadlineExceeded
		case len(p.b) > 0:
			n := copy(b, p.b)
			p.b = p.b[n:]
			p.changed.Broadcast()
			return n, nil
		case p.ended:
			return 0, io.EOF
		}
		p.changed.Wait()
	}
}

// Write implements net.Conn.
func (c *memoryConn) Write(b []byte) (n int, err error) {
	p := c.out
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.ended:
			return n, net.ErrClosed
		case p.unread:
			return n, syscall.EPIPE
		case past(p.writes):
			return n, os.ErrDeadlineExceeded
		}
		if room := min(p.most-len(p.b), len(b)-n); room > 0 {
			p.b = append(p.b, b[n:n+room]...)
			n += room
			p.changed.Broadcast()
		}
		if n == len(b) {
			return n, nil
		}
		p.changed.Wait()
	}
}

// put is a Write that never waits.
func (c *memoryConn) put(b []byte) {
	p := c.out
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended && !p.unread {
		p.b = append(p.b, b...)
		p.changed.Broadcast()
	}
}

// taken is a Read of everything that never waits. ended: nothing more comes.
func (c *memoryConn) taken() (b []byte, ended bool) {
	p := c.in
	p.mu.Lock()
	defer p.mu.Unlock()
	b, p.b = p.b, nil
	p.changed.Broadcast()
	return b, p.ended
}

// Close implements net.Conn.
func (c *memoryConn) Close() error {
	c.in.mu.Lock()
	c.in.unread = true
	c.in.changed.Broadcast()
	c.in.mu.Unlock()
	return c.CloseWrite()
}

func (c *memoryConn) CloseWrite() error {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.out.ended = true
	c.out.changed.Broadcast()
	return nil
}

func (p *memoryPipe) setDeadline(at *time.Time, timer **time.Timer, deadline time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*at = deadline
	if *timer != nil {
		(*timer).Stop()
		*timer = nil
	}
	if wait := time.Until(deadline); !deadline.IsZero() && wait > 0 {
		*timer = time.AfterFunc(wait, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.changed.Broadcast()
		})
	}
	p.changed.Broadcast()
}

// SetReadDeadline implements net.Conn.
func (c *memoryConn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.reads, &c.in.timerR, t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *memoryConn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.writes, &c.out.timerW, t)
	return nil
}

// SetDeadline implements net.Conn.
func (c *memoryConn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// RemoteAddr implements net.Conn.
func (*memoryConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 5} }

// LocalAddr implements net.Conn.
func (*memoryConn) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 6} }
