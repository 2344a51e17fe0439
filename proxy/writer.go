package proxy

import "net"

// outlet is the way to one socket. Two kinds of octets go out there: runs of frames that the relay of that direction
// forwards straight from its read buffer, and frames of the router's own, which may come about anywhere.
//
// Wire order is decision order: decisions are made under session.mu, and whoever holds the token (busy) writes them in that order.
// The relay takes the token before it decides and, while it is inside a streamed frame, keeps it. Everybody else leaves
// octets with the router and has flush run: nobody waits for a socket with session.mu held, and no direction waits for
// the other's socket.
type outlet struct {
	conn   net.Conn
	take   func(spare []byte) []byte // the router's octets for this socket; session.mu held
	size   func() int                // how many there are; session.mu held
	busy   bool                      // the token; guarded by session.mu
	inside bool                      // the relay has the token inside a frame and waits for the rest; guarded by session.mu
	dead   bool                      // the socket is gone, octets are dropped; guarded by session.mu
	total  int64                     // octets written; belongs to the token
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
		b := o.take(nil)
		dead := o.dead
		s.mu.Unlock()
		var err error
		if !dead {
			_, err = o.conn.Write(b)
			o.total += int64(len(b))
		}
		s.mu.Lock()
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
	s.help(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.yield(o)
	})
}

// writeFailed notes that a socket cannot be written to any more. The session goes on until that socket's reader has said what it
// has to say: a close text of the broker's may wait there.
func (s *session) writeFailed(o *outlet, err error) {
	if o.dead {
		return
	}
	o.dead = true
	if !s.rt.Closing() {
		s.note(o, err)
	}
}
