package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"syscall"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
)

// With heartbeats every idle connection is spoken on all the time, and waking a relay for each costs many times what passing it on does. So the
// parker reads for a parked relay, and when what is there is heartbeats alone it does what the relay would. All else the relay gets to see,
// with what has been read.

// beatSize is the size of a heartbeat frame, in octets, and beatFrame the frame.
const (
	beatSize  = frames.Overhead
	beatFrame = uint64(frames.TypeHeartbeat)<<56 | uint64(frames.End)
)

// heartbeats is the parker's part in that, its goroutine's own.
type heartbeats struct {
	buf         *[]byte          // to read into, with nothing in it between events
	read, write func(fd uintptr) // made once: a closure per call would be an allocation per call
	out         []byte           // what write is to write
	n           int              // what they have done
	err         error
}

func newHeartbeats() *heartbeats {
	h := &heartbeats{buf: getBuffer(smallBuffer, 0)}
	h.read = func(fd uintptr) { h.n, h.err = once(syscall.Read, fd, *h.buf) }
	h.write = func(fd uintptr) { h.n, h.err = once(syscall.Write, fd, h.out) }
	return h
}

func (h *heartbeats) release() { putBuffer(h.buf) }

// pass reads for a parked relay and passes heartbeats on. false: the relay is to be woken, and finds in its reader what else there was.
// The session's mu is held, so that nobody else takes the token meanwhile, nor wakes the relay.
func (h *heartbeats) pass(d *relay) bool {
	s := d.s
	to := s.opposite(d).in.raw
	if to == nil || d.out.busy || d.out.dead || d.out.size() > 0 || s.ending() || !s.rt.Established() {
		return false
	}
	if err := d.in.raw.Control(h.read); err != nil {
		return false // closed, as the relay will see
	}
	switch {
	case errors.Is(h.err, syscall.EAGAIN):
		return true // others have read it
	case h.err != nil:
		d.fault = os.NewSyscallError("read", h.err) // a socket tells its error once
		return false
	case h.n == 0:
		return false // the end, which can be read again
	}
	got := (*h.buf)[:h.n]
	if !onlyHeartbeats(got) {
		d.in.take(h.buf, h.n)
		h.buf = getBuffer(smallBuffer, 0)
		return false
	}
	d.from.beat()
	defer d.from.rest()
	h.send(d, to, got[:passing(d, got)])
	s.after(nil)
	return true
}

// onlyHeartbeats reports whether b is whole heartbeat frames: on channel 0 and empty, as they have to be.
func onlyHeartbeats(b []byte) bool {
	for ; len(b) >= beatSize; b = b[beatSize:] {
		if binary.BigEndian.Uint64(b) != beatFrame {
			return false
		}
	}
	return len(b) == 0
}

// passing has the router decide on heartbeats and returns how many octets of them go out; they are all the same.
func passing(d *relay, b []byte) (n int) {
	for ; len(b) > 0; b = b[beatSize:] {
		if d.frame(frames.Frame(b[:beatSize])) == router.Forward {
			n += beatSize
		}
	}
	return n
}

// send writes b to a relay's outlet. If the socket does not take all of it now, a goroutine waits for that, as the relay would.
func (h *heartbeats) send(d *relay, to syscall.RawConn, b []byte) {
	s, o := d.s, d.out
	h.out, h.n = b, 0
	_ = to.Control(h.write) // an error comes again
	o.total += int64(h.n)
	if h.n == len(b) {
		return
	}
	rest := bytes.Clone(b[h.n:])
	o.busy = true
	s.help(func() {
		n, err := o.conn.Write(rest)
		s.mu.Lock()
		defer s.mu.Unlock()
		o.total += int64(n)
		if err != nil {
			s.writeFailed(o, err)
		}
		s.yield(o)
	})
}

// opposite is the relay of the other direction.
func (s *session) opposite(d *relay) *relay {
	both := s.relays.Load()
	if both[0] == d {
		return both[1]
	}
	return both[0]
}
