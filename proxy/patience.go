package proxy

import (
	"errors"
	"time"

	"github.com/shardmq/shardmq/frames"
)

// Whatever waits in a session is waited for with a limit once one side has gone, or may have without being seen to:
//
//   - what is held of the client's, until the broker answers what came before (awaitHeld), and so is a client that is not read while too
//     much of it is held (breathe): patience, heldWait, with a broker that does not answer or stops inside a frame. A broker that has said that
//     it is blocked has any time, until its heartbeats fail to come (watch);
//   - compositions, the same: router's Tick. Publishes that pause: the topology;
//   - answers to what came before octets that cannot be read, and the way to a client that is to be told so (awaitRefusal, linger): closeOkWait;
//   - writes to a client, once either side has gone, and to a broker that has gone: write deadlines;
//   - the rest of what a side says, once the other has gone: read deadlines, closeOkWait and lingerWait.
//
// What a client has sent before it went is written to a broker that is slow to read for as long as that lives: the broker may be out of memory.

// errUnanswered is why a session ends whose client cannot be read any further.
var errUnanswered = errors.New("upstream: what the client has asked is not answered")

// patience is how long the session has been waiting for the broker in vain. The zero value begins with the first look.
type patience struct {
	since time.Time
	heard [2]uint64 // answers, and the beats inside a frame
}

// outOf reports whether nothing but the broker's part is missing, its answers or the rest of a frame, and it has done nothing about that for
// heldWait: not whether it has done all of it, for a broker may be slow. mu is held.
func (s *session) outOf(p *patience) bool {
	now, heard := time.Now(), [2]uint64{s.rt.Answers(), 0}
	owes := s.rt.Stuck()
	if beats := s.life.broker.n.Load(); s.down.inside && beats%2 == 0 {
		owes, heard[1] = true, beats
	}
	if !owes || p.since.IsZero() || p.heard != heard {
		p.since, p.heard = now, heard
	}
	return now.Sub(p.since) >= heldWait
}

// unanswered closes the connection of a client that is not read because the broker does not answer, and returns what it is told. mu is held.
func (s *session) unanswered() error {
	e := &frames.Exception{Code: frames.InternalError, Text: "the broker does not answer what was asked of it, and shardmq can hold no more"}
	s.cause(errUnanswered)
	s.rt.RaiseConnection(e)
	s.after(nil)
	return e
}
