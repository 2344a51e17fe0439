package proxy

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/shardmq/shardmq/config/certs"
)

// tlsConn is a TLS connection over a socket. Its Close and CloseWrite tell the peer so (close_notify) as far as that can be done at once: they
// never wait for the socket, for they are called with a session's mutex held.
type tlsConn struct {
	*tls.Conn
	wire    *wire
	explain func(error) error     // words an error; may be nil
	fault   atomic.Pointer[error] // of Read
}

// newTLSConn begins TLS on conn as one of the sides, tls.Server or tls.Client. The handshake is still to come.
func newTLSConn(conn net.Conn, config *tls.Config, side func(net.Conn, *tls.Config) *tls.Conn, explain func(error) error) *tlsConn {
	w := &wire{Conn: conn, in: newReader(conn)}
	return &tlsConn{Conn: side(w, config), wire: w, explain: explain}
}

// Read implements net.Conn. It waits.
func (c *tlsConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, c.worded(err)
}

// tryRead reads what has come already; errNotNow: nothing, or only a part of a record.
func (c *tlsConn) tryRead(b []byte) (int, error) {
	c.wire.quick = true
	n, err := c.Conn.Read(b)
	c.wire.quick = false
	if n > 0 {
		return n, nil // an error beside it comes again
	}
	if err == errNotNow { //nolint:errorlint // as it was given to crypto/tls: this is done for every read
		return 0, err
	}
	return 0, c.worded(err)
}

func (c *tlsConn) worded(err error) error {
	if err == nil || err == io.EOF || c.explain == nil { //nolint:errorlint // as io.Reader demands
		return err
	}
	err = c.explain(err)
	if _, known := err.(*certs.Fault); known { //nolint:errorlint // as explain has made it
		c.fault.CompareAndSwap(nil, &err)
	}
	return err
}

// Write implements net.Conn. A peer that refuses a certificate says so and closes: what it has said is worth more than that it has closed.
func (c *tlsConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil {
		if why := c.fault.Load(); why != nil {
			err = *why
		}
	}
	return n, err
}

// Close implements net.Conn.
func (c *tlsConn) Close() error {
	c.wire.leave()
	return c.Conn.Close()
}

// CloseWrite ends what is sent; the peer may go on sending, if it is willing to after a close_notify.
func (c *tlsConn) CloseWrite() error {
	c.wire.leave()
	_ = c.Conn.CloseWrite()
	if tcp, ok := c.wire.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite()
	}
	return nil
}

// wire is the socket under a TLS connection. What is read from it goes through a pooled buffer, held only while there is something in it:
// crypto/tls takes a record in two reads, and would have to be given a buffer for plain text before it can find out that there is none.
// One goroutine reads, any may write.
type wire struct {
	net.Conn
	in      *reader
	err     error // why nothing more can be read
	quick   bool  // Read must not wait
	seen    bool  // anything has been read
	leaving atomic.Bool
}

// errNotNow is what crypto/tls gets instead of a wait. It goes on later with what it has only if an error is temporary.
var errNotNow net.Error = notNow{}

type notNow struct{}

func (notNow) Error() string   { return "nothing to read yet" }
func (notNow) Timeout() bool   { return true }
func (notNow) Temporary() bool { return true }

// Read implements net.Conn for crypto/tls.
func (w *wire) Read(b []byte) (int, error) {
	if len(w.in.unread()) == 0 {
		if w.quick && w.err == nil {
			return 0, errNotNow
		}
		if err := w.await(); err != nil {
			return 0, err
		}
		if w.err != nil {
			return 0, w.err
		}
	}
	n := copy(b, w.in.unread())
	w.in.consume(n)
	return n, nil
}

// await waits until Read has something to say. The error is that of the deadline.
func (w *wire) await() error {
	if w.err != nil {
		return nil
	}
	err := w.in.fill(0)
	if os.IsTimeout(err) {
		return err
	}
	w.err = err
	w.seen = w.seen || err == nil
	return nil
}

// Write implements net.Conn for crypto/tls. It does not wait any more once the connection is being left.
func (w *wire) Write(b []byte) (int, error) {
	if !w.leaving.Load() {
		return w.Conn.Write(b)
	}
	n, err := 0, error(os.ErrDeadlineExceeded)
	if w.in.raw != nil {
		if rawErr := w.in.raw.Write(func(fd uintptr) bool {
			n, err = syscall.Write(int(fd), b)
			return true
		}); rawErr != nil {
			return 0, rawErr
		}
	}
	if n < len(b) && err == nil {
		err = io.ErrShortWrite
	}
	return max(n, 0), err
}

// leave has all writes end that wait: crypto/tls holds a lock meanwhile that it needs to say goodbye.
func (w *wire) leave() {
	w.leaving.Store(true)
	_ = w.Conn.SetWriteDeadline(time.Unix(1, 0))
}
