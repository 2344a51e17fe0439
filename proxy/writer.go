package proxy

import (
	"io"
	"net"
)

// outlet is the way to one socket. Two kinds of octets go out there: runs of frames that the relay of that direction
// forwards straight from its read buffer, and frames of the router's own, which may come about anywhere.
//
// Wire order is decision order: decisions are made under session.mu, and whoever holds the token (busy) writes them in that order.
// The relay takes the token before it decides and, while it is inside a streamed frame, keeps it. Everybody else leaves
// octets with the router and has flush run: nobody waits for a socket with session.mu held, and no direction waits for
// the other's socket.
type outlet struct {
	conn  net.Conn
	take  func(spare []byte) []byte // the router's octets for this socket; session.mu held
	size  func() int                // how many there are; session.mu held
	busy  bool                      // the token; guarded by session.mu
	dead  bool                      // the socket is gone, octets are dropped; guarded by session.mu
	spare []byte                    // belongs to the token
	total int64                     // octets written; belongs to the token
}

// spareLimit is how large a buffer for own octets may be and still be kept.
const spareLimit = 64 << 10

func (o *outlet) keep(b []byte) {
	if cap(b) <= spareLimit {
		o.spare = b[:0]
	} else {
		o.spare = nil
	}
}

// acquire waits for the token. It returns with session.mu held.
func (s *session) acquire(o *outlet) {
	s.mu.Lock()
	for o.busy {
		s.changed.Wait()
	}
	o.busy = true
}

// yield writes the router's octets that have come about meanwhile and gives the token back. session.mu is held, and not held
// while writing.
func (s *session) yield(o *outlet) {
	for o.size() > 0 {
		b := o.take(o.spare)
		o.spare = nil
		dead := o.dead
		s.mu.Unlock()
		var err error
		if !dead {
			_, err = o.conn.Write(b)
			o.total += int64(len(b))
		}
		s.mu.Lock()
		o.keep(b)
		if err != nil {
			s.writeFailed(o, err)
		}
	}
	o.busy = false
	s.changed.Broadcast()
}

// flush sees to it that the router's octets for the socket go out soon. session.mu is held.
func (s *session) flush(o *outlet) {
	if o.busy || o.size() == 0 {
		return // whoever holds the token writes them
	}
	o.busy = true
	s.helpers.Go(func() {
		s.mu.Lock()
		s.yield(o)
		s.mu.Unlock()
	})
}

// writeFailed notes that a socket cannot be written to any more. The session goes on until that socket's reader has said what it
// has to say: a close text of the broker's may wait there.
func (s *session) writeFailed(o *outlet, err error) {
	if o.dead {
		return
	}
	o.dead = true
	s.note(o, err)
}

// batch is the octets of one decided read: runs of the read buffer and own octets, in order.
type batch struct {
	parts []part
	vec   [][]byte
	bufs  net.Buffers
}

// part is a run of the read buffer, or of the router's octets.
type part struct {
	own        bool
	start, end int
}

func (b *batch) reset() { b.parts = b.parts[:0] }

func (b *batch) add(own bool, start, end int) {
	if start == end {
		return
	}
	if n := len(b.parts); n > 0 && b.parts[n-1].own == own && b.parts[n-1].end == start {
		b.parts[n-1].end = end
		return
	}
	b.parts = append(b.parts, part{own, start, end})
}

// write sends the parts with as few system calls as the kernel allows, without copying any.
func (b *batch) write(w io.Writer, read, own []byte) (int64, error) {
	if len(b.parts) == 0 {
		return 0, nil
	}
	b.vec = b.vec[:0]
	for _, p := range b.parts {
		if p.own {
			b.vec = append(b.vec, own[p.start:p.end])
		} else {
			b.vec = append(b.vec, read[p.start:p.end])
		}
	}
	if len(b.vec) == 1 {
		n, err := w.Write(b.vec[0])
		return int64(n), err
	}
	b.bufs = b.vec
	n, err := b.bufs.WriteTo(w)
	clear(b.vec)
	return n, err
}
