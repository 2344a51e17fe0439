package proxy

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// A relay that waits for its peer keeps a goroutine, and with it a stack of several KiB. One that has waited for a while is parked: its goroutine
// ends, and the parker watches its socket together with those of all the others. When something comes the relay goes on in a new one, unless
// it is heartbeats and nothing else: those the parker passes on by itself.
// Relays of TLS connections are not parked.

// parkEvery is how often relays are looked at. Whoever has read nothing between two looks is parked.
const parkEvery = time.Second

// crowdSize is how many relays have to have been parked for their memory to matter, slimEvery how often at the most that is given back, restless
// which part of all parked relays may be woken or parked between two looks that find them calm: one in so many.
const (
	crowdSize = 200
	slimEvery = 5 * time.Second
	restless  = 32
)

// errParked is what a relay's run returns when another goroutine is to go on with it.
var errParked = errors.New("parked")

// parking is a relay's part in that. Guarded by session.mu where nothing else is said.
type parking struct {
	parked atomic.Bool // written with session.mu held
	kicked bool        // its read has been interrupted, for it to be parked
	until  time.Time   // the read deadline of whoever ends the session; zero: none
	token  int32       // the parker's; 0: none yet
	fault  error       // what the parker has met when it read the socket
	unfit  bool        // it could not be watched, and is left alone from now on
	seen   uint64      // its pulse at the last look; sweep's own
}

// startParking has idle relays parked until ctx ends, and woken until the parker is closed. Without a parker none is parked.
func (s *server) startParking(ctx context.Context, background *sync.WaitGroup) {
	var err error
	if s.parker, err = s.newParker(); err != nil {
		s.unparked(err)
		return
	}
	background.Go(func() {
		if err := s.parker.run(); err != nil {
			s.unparked(err)
		}
	})
	background.Go(func() { s.sweep(ctx.Done()) })
}

// sweep parks idle relays until stop is closed.
func (s *server) sweep(stop <-chan struct{}) {
	tick := time.NewTicker(s.parkEvery)
	defer tick.Stop()
	var idle []*relay
	var last slimmed
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			idle = s.idle(idle[:0])
			for _, d := range idle {
				d.s.kick(d)
			}
			clear(idle)
			if last.due(s.parked.Load(), time.Now()) {
				debug.FreeOSMemory()
			}
		}
	}
}

// slimmed is when memory was given back to the system last: without traffic there is no garbage collection that would.
type slimmed struct {
	at           time.Time
	until, count int64 // relays that were parked then, or fewer if they have become fewer since; and at the last look
}

// due reports whether a crowd has gone idle since, and hardly anybody comes or goes at the moment: some always do.
func (l *slimmed) due(parked int64, now time.Time) bool {
	calm := max(parked-l.count, l.count-parked) <= parked/restless
	l.count, l.until = parked, min(l.until, parked)
	if !calm || parked-l.until < crowdSize || now.Sub(l.at) < slimEvery {
		return false
	}
	l.at, l.until = now, parked
	return true
}

// idle appends to list the relays that have read nothing since the last call.
func (s *server) idle(list []*relay) []*relay {
	s.mu.Lock()
	defer s.mu.Unlock()
	for each := range s.sessions {
		both := each.relays.Load()
		if both == nil {
			continue
		}
		for _, d := range both {
			if d.parked.Load() || d.in.raw == nil {
				continue
			}
			if n := d.from.n.Load(); n != d.seen {
				d.seen = n
			} else if n%2 == 0 {
				list = append(list, d)
			}
		}
	}
	return list
}

// kick interrupts the read of a relay, which then parks itself.
func (s *session) kick(d *relay) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.parked.Load() || d.kicked || d.unfit || !d.until.IsZero() || d.out.inside || !s.rt.Established() || s.ending() {
		return
	}
	d.kicked = true
	_ = d.in.conn.SetReadDeadline(time.Unix(1, 0))
}

// ending reports whether anybody has begun to end the session. mu is held.
func (s *session) ending() bool {
	return s.gone.client || s.gone.broker || s.rt.Closing() || s.ctx.Err() != nil
}

// interrupted is called by a relay whose read has met a deadline. nil: it reads on; errParked: its goroutine is to end; err: the deadline was
// set by whoever ends the session.
func (s *session) interrupted(d *relay, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !d.kicked {
		if time.Now().Before(d.until) {
			return nil // it was kicked just before that was set
		}
		return err
	}
	d.kicked = false
	_ = d.in.conn.SetReadDeadline(time.Time{})
	if d.in.buf != nil || s.ending() {
		return nil
	}
	if err := s.srv.parker.watch(d); err != nil {
		d.unfit = true
		s.srv.unparked(err)
		return nil
	}
	d.parked.Store(true)
	s.srv.parked.Add(1)
	return errParked
}

// unparked warns that idle connections are not parked. Once: it is the system's limits, not one connection.
func (s *server) unparked(err error) {
	s.unparkedOnce.Do(func() { s.log.Warn("idle connections keep their goroutines", zap.Error(err)) })
}

// wake has a parked relay go on. mu is held.
func (s *session) wake(d *relay) {
	if d.parked.Load() {
		s.srv.parker.unwatch(d)
		d.parked.Store(false)
		s.srv.parked.Add(-1)
		s.srv.crew.start(func() { s.carry(d) })
	}
}

// wakeSoon is wake for those who must not wait for mu: whoever has it may be long.
func (s *session) wakeSoon(d *relay) {
	go func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.wake(d)
	}()
}

// readUntil gives a relay a deadline for the rest of what its peer has to say. mu is held.
func (s *session) readUntil(d *relay, t time.Time) {
	d.kicked, d.until = false, t
	_ = d.in.conn.SetReadDeadline(t)
	s.wake(d)
}
