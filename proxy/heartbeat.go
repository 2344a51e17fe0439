package proxy

import (
	"errors"
	"sync/atomic"
	"time"
)

// Heartbeats pass from end to end: client and broker send them to each other, and RabbitMQ drops a client that is silent for two to three
// intervals. The proxy looks all the same. To the broker a client seems alive while the proxy asks for things in its name, moves of a
// consumer for one; and neither side sees the other's end while the proxy waits for a peer that is gone to take octets. Nor does the broker
// see that a client is alive whose questions the proxy answers by itself: then the proxy sends a heartbeat in its stead.

// looksPerBeat is how often a peer is looked at in a heartbeat interval, looksSilent how many looks in a row that find nothing new mean that it
// is gone: after two intervals and at most half of one more.
const (
	looksPerBeat = 2
	looksSilent  = 2 * looksPerBeat

	// lookMoments is how many moments between two looks there are to begin at. Sessions share them: a timer that goes off by itself costs many
	// times what is looked at.
	lookMoments = 16
)

// Causes of a session's end.
var (
	errClientSilent = errors.New("client: not heard of for two heartbeat intervals")
	errBrokerSilent = errors.New("upstream: not heard of for two heartbeat intervals")
)

// pulse counts the reads of one socket. Even: the relay waits for its peer. Odd: it deals with what it has read, and may be waiting for
// the other side to take that; then what the peer sends goes unread, and its silence means nothing.
type pulse struct{ n atomic.Uint64 }

// beat: something has come. rest: the relay goes back to reading. Whoever reads the socket calls both.
func (p *pulse) beat() { p.n.Add(1) }
func (p *pulse) rest() { p.n.Add(1) }

// ear looks at a pulse now and then.
type ear struct {
	last  uint64
	quiet int
}

// silent reports whether nothing has come for long.
func (e *ear) silent(p *pulse) bool {
	now := p.n.Load()
	if now != e.last || now%2 == 1 {
		e.last, e.quiet = now, 0
		return false
	}
	e.quiet++
	return e.quiet >= looksSilent
}

// watch looks at both peers until the session ends or the timer that it returns is stopped. mu is held.
func (s *session) watch(interval time.Duration) (timer *time.Timer) {
	var client, broker ear
	var sent int64 // to the broker, when it was looked at last
	every := interval / looksPerBeat
	timer = time.AfterFunc(s.srv.untilLook(every), func() {
		defer s.guard()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ctx.Err() != nil || s.gone.broker {
			return // the session ends, and has deadlines of its own
		}
		switch {
		case !s.gone.client && client.silent(&s.life.client):
			s.cutLocked(errClientSilent) // as RabbitMQ does, without a word
			return
		case broker.silent(&s.life.broker):
			s.cause(errBrokerSilent)
			s.readUntil(s.relays.Load()[1], time.Unix(1, 0)) // which tells the client
			return
		case s.up.busy: // something is being sent
		case s.up.total == sent && client.quiet == 0:
			s.rt.Beat()
			s.flush(&s.up)
		default:
			sent = s.up.total
		}
		timer.Reset(s.srv.untilLook(every))
	})
	return timer
}

// untilLook is how long it is to the next look. From one that was at one of the moments it is every, however late that was dealt with.
func (s *server) untilLook(every time.Duration) time.Duration {
	now := time.Since(s.began)
	return (now + every).Round(every/lookMoments) - now
}
