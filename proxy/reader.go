package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// reader reads one socket into a pooled buffer that it holds only while there is something in it.
// One goroutine at a time uses it.
type reader struct {
	conn net.Conn
	raw  syscall.RawConn // nil: conn is not a socket
	tls  *tlsConn        // nil: conn is something else
	buf  *[]byte         // nil while empty
	r, w int             // unread octets are (*buf)[r:w]
	want int             // size of the next buffer

	readable func(fd uintptr) bool // made once: a closure per read would be an allocation per read
	n        int
	err      error
}

func newReader(conn net.Conn) *reader {
	d := &reader{conn: conn, want: smallBuffer}
	d.tls, _ = conn.(*tlsConn)
	if sc, ok := conn.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			d.raw = raw
			d.readable = d.tryRead
		}
	}
	return d
}

// unread is what has been read and not yet been consumed. It stays valid until the next fill.
func (d *reader) unread() []byte {
	if d.buf == nil {
		return nil
	}
	return (*d.buf)[d.r:d.w]
}

// consume gives up the first n unread octets, and the buffer when none are left.
func (d *reader) consume(n int) {
	d.r += n
	if d.r == d.w {
		d.r, d.w = 0, 0
		d.release()
	}
}

func (d *reader) release() {
	if d.buf != nil {
		putBuffer(d.buf)
		d.buf = nil
	}
}

// take has an empty reader go on with a buffer whose first n octets somebody else has read from its socket.
func (d *reader) take(buf *[]byte, n int) {
	d.buf, d.r, d.w = buf, 0, n
	d.adapt()
}

// fill reads more, waiting until something is there. need is how many unread octets the caller must be able to have at
// once (0: no matter). io.EOF: the peer has closed its side.
func (d *reader) fill(need int) error {
	if d.buf != nil {
		d.makeRoom(need)
	}
	if d.tls != nil {
		return d.decrypt(need)
	}
	if d.raw == nil {
		if d.buf == nil {
			d.buf = getBuffer(d.want, need)
		}
		n, err := d.conn.Read((*d.buf)[d.w:])
		d.w += n
		if n > 0 {
			return nil
		}
		return err
	}
	if err := d.raw.Read(d.readable); err != nil {
		return err
	}
	if d.n == 0 {
		if d.w == 0 {
			d.release()
		}
		if d.err != nil {
			return os.NewSyscallError("read", d.err)
		}
		return io.EOF
	}
	d.w += d.n
	d.adapt()
	return nil
}

// decrypt is fill for TLS: all records that have come and fit. While there is none, an empty reader holds no buffer.
func (d *reader) decrypt(need int) error {
	for {
		if d.buf == nil {
			d.buf = getBuffer(d.want, need)
		}
		n, err := d.tls.tryRead((*d.buf)[d.w:])
		if n > 0 {
			for ; n > 0 && d.w+n < len(*d.buf); n, _ = d.tls.tryRead((*d.buf)[d.w:]) {
				d.w += n
			}
			d.w += n
			d.adapt()
			return nil
		}
		if d.w == 0 {
			d.release()
		}
		if err != errNotNow { //nolint:errorlint // see tryRead
			return err
		}
		if err := d.tls.wire.await(); err != nil {
			return err
		}
	}
}

// makeRoom moves the unread octets, part of one frame, to where need octets fit.
func (d *reader) makeRoom(need int) {
	old := *d.buf
	have := d.w - d.r
	if d.r > 0 {
		copy(old, old[d.r:d.w])
		d.r, d.w = 0, have
	}
	if need > len(old) || have == len(old) {
		d.buf = getBuffer(0, max(need, 2*have))
		copy(*d.buf, old[:have])
		putBuffer(&old)
	}
}

// adapt picks the size of the next buffer: large while reads fill the small one.
func (d *reader) adapt() {
	switch {
	case d.w == len(*d.buf):
		d.want = largeBuffer
	case d.w < smallBuffer:
		d.want = smallBuffer
	}
}

// tryRead reads what is there without waiting. While nothing is, an empty reader holds no buffer.
func (d *reader) tryRead(fd uintptr) bool {
	if d.buf == nil {
		d.buf = getBuffer(d.want, 0)
	}
	d.n, d.err = once(syscall.Read, fd, (*d.buf)[d.w:])
	if errors.Is(d.err, syscall.EAGAIN) {
		d.err = nil
		if d.w == 0 {
			d.release()
		}
		return false
	}
	return true
}

// once reads or writes a socket without waiting, as Go's sockets are, and tries again when it was interrupted. n is 0 if that fails.
func once(call func(int, []byte) (int, error), fd uintptr, b []byte) (n int, err error) {
	for {
		if n, err = call(int(fd), b); !errors.Is(err, syscall.EINTR) {
			return max(n, 0), err
		}
	}
}
