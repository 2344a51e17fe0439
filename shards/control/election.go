package control

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards/coordination"
)

const (
	// contendEvery is how often a proxy looks whether anybody leads.
	contendEvery = 400 * time.Millisecond
	// guardEvery is how often the leader looks whether it still leads.
	guardEvery = 2 * time.Second
	// moveUpEvery is how often a leader on a fallback queue looks whether it could
	// move up. The broker logs an error each time that it cannot.
	moveUpEvery = 5 * time.Second
	// mainAgain is how often a queue that did not answer is tried; until then the
	// fallback is used without waiting for it.
	mainAgain = 5 * time.Second
	// homecoming is how long the others let the leader on a fallback queue go first
	// once the proper queue is there again.
	homecoming = 8 * time.Second
	// resignDelay is the pause after a resignation. It doubles, up to resignMax,
	// with each one in a row; a lead that lasted steadyLead ends the row.
	resignDelay = time.Second
	resignMax   = 30 * time.Second
	steadyLead  = time.Minute
)

// elector contends for the lead while its session lasts.
//
// The lead is the exclusive consumption of the queue shardmq.state, which exists
// once. Whether it is free is told by its number of consumers: trying to consume
// would tell as well, but the broker logs every refusal as an error.
//
// Where that queue does not answer, because the node that it is on is down or
// hangs, a queue on the first node in name order that can be reached takes its
// place: shardmq.state.NODE. Proxies that reach other nodes than their fellows
// may then have two leaders, and so may the return of the proper queue, for
// seconds: a leader that hears of another one with a higher term resigns, and
// with each time it does so it waits longer before it contends again.
// A leader on a fallback queue moves up as soon as it can; whoever is elected on
// the proper queue takes over what states fallback queues hold, if they are
// newer, and deletes those once it has stored a state itself.
type elector struct {
	s    *session
	look desk // on the session's connection

	slow      int       // how often the proper queue has not answered in time, in a row
	downSince time.Time // when the proper queue was last found not to answer; zero = it does
	backSince time.Time // when it was found again after that; zero = it was not away
	fallback  *fallback // nil = not in use
	resigned  int       // resignations in a row
	problem   string    // what was logged last of why this proxy cannot contend
}

// run contends until the session ends. What ends the session first is the end of
// the lead, if this proxy leads then.
func (e *elector) run() {
	defer e.leaveFallback()
	pause := time.Duration(0)
	for e.s.pause(pause) {
		h, err := e.try()
		pause = jitter(contendEvery)
		e.report(err)
		switch {
		case errors.Is(err, coordination.ErrNoRights):
			e.s.fail(err)
		case h != nil:
			pause = e.lead(h)
		}
	}
}

// report logs why this proxy cannot contend, once per reason. The reason for the
// session's end is logged with that.
func (e *elector) report(err error) {
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	changed := problem != e.problem
	e.problem = problem
	if log := e.s.t.o.Log; log != nil && changed && err != nil && e.s.ctx.Err() == nil && !errors.Is(err, coordination.ErrNoRights) {
		log.Warn("this proxy cannot contend for the lead", "vhost", e.s.t.o.Vhost, "error", problem)
	}
}

// lead leads until that ends, and returns how long to wait before contending.
func (e *elector) lead(h *hold) time.Duration {
	for h != nil {
		began := time.Now()
		why := e.serve(h)
		if time.Since(began) > steadyLead {
			e.resigned = 0
		}
		if errors.Is(why, errResigned) {
			e.resigned++
			return jitter(min(resignDelay<<min(e.resigned-1, 10), resignMax))
		}
		if h = h.next; h != nil {
			e.leaveFallback()
		} else if time.Since(began) < contendEvery {
			return jitter(contendEvery) // what ended it may end the next one too
		}
	}
	return 0
}

// serve makes this proxy the leader until something ends that, and returns what.
func (e *elector) serve(h *hold) error {
	t := e.s.t
	state := h.state
	t.mu.Lock()
	t.lead = h
	t.mu.Unlock()
	e.log("this proxy leads", h.queue, nil)
	t.emit(coordination.Event{Kind: coordination.Elected, Body: state})
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.guard(h)
	}()
	for h.ctx.Err() == nil {
		select {
		case d, open := <-h.deliveries:
			if !open {
				h.end(errLeadLost)
				break
			}
			h.delivered(d)
		case <-h.ctx.Done():
		}
	}
	<-done
	t.mu.Lock()
	t.lead = nil
	t.mu.Unlock()
	h.release()
	why := context.Cause(h.ctx)
	e.log("this proxy leads no more", h.queue, why)
	t.emit(coordination.Event{Kind: coordination.Deposed})
	return why
}

func (e *elector) log(msg, queue string, why error) {
	log := e.s.t.o.Log
	if log == nil {
		return
	}
	kv := []any{"vhost", e.s.t.o.Vhost, "queue", queue}
	if why != nil {
		kv = append(kv, "reason", why.Error())
	}
	log.Info(msg, kv...)
}

// release gives the messages back to the queue, and with them the lead.
func (h *hold) release() {
	h.fail(errResigned) // unless it has another reason
	h.w.spawn(func() { closeChannel(h.ch) })
}

// guard ends the lead when its queue is gone or silent, or when it is a fallback
// and the proper one can be had.
func (e *elector) guard(h *hold) {
	d := desk{w: h.w}
	slow, looked := 0, time.Now()
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-h.ctx.Done():
			return
		}
		q, err := inspect(h.ctx, &d, h.queue)
		switch {
		case errors.Is(err, errSlow):
			if slow++; slow > 1 {
				h.end(errMute)
			}
		case err != nil || q.Consumers == 0:
			h.end(errLeadLost)
		default:
			slow = 0
		}
		if len(h.unseen) > 0 && h.ctx.Err() == nil && !time.Now().Before(h.lookAt) {
			e.lookAgain(h)
		}
		if h.queue != coordination.StateQueue && h.ctx.Err() == nil && time.Since(looked) >= moveUpEvery {
			e.moveUp(h)
			looked = time.Now()
		}
	}
}

// moveUp makes this leader on a fallback queue the one on the proper queue. If
// there is one already, this one has no business leading.
func (e *elector) moveUp(h *hold) {
	q, err := inspect(h.ctx, &e.look, coordination.StateQueue)
	switch {
	case err != nil:
		return
	case q.Consumers > 0:
		e.answered()
		h.end(errOverruled)
		return
	}
	next, err := e.take(e.s.in, coordination.StateQueue)
	if err != nil || next == nil {
		return
	}
	next.unseen = slices.DeleteFunc(next.unseen, func(queue string) bool { return queue == h.queue })
	next.leftover = append(next.leftover, h.queue)
	h.next = next
	h.end(errMovedUp)
	h.mu.Lock()
	state := h.state
	h.mu.Unlock()
	if state != nil && (next.state == nil || h.newer(state, next.state)) {
		next.state = state
	}
	e.answered()
}

// try takes the lead if it is free, and returns nil if it is not.
func (e *elector) try() (*hold, error) {
	if !e.downSince.IsZero() && time.Since(e.downSince) < mainAgain {
		// Before the fallback is taken the proper queue is looked at anew: the
		// fallback may be free because its leader has moved up.
		if _, free, err := e.lookFallback(); !free {
			return nil, err
		}
	}
	q, err := inspectOrDeclare(e.s.ctx, &e.look, coordination.StateQueue)
	switch {
	case err == nil:
	case errors.Is(err, errSlow):
		if e.slow++; e.slow < 2 {
			return nil, err
		}
		return e.down()
	case isCode(err, frames.NotFound): // it can be neither found nor made: its node is down
		return e.down()
	default:
		return nil, refusal("look for queue '"+coordination.StateQueue+"'", e.s.in, err)
	}
	e.answered()
	if q.Consumers > 0 {
		e.backSince = time.Time{}
		e.leaveFallback()
		return nil, nil
	}
	if !e.backSince.IsZero() && time.Since(e.backSince) < homecoming {
		return nil, nil
	}
	e.leaveFallback()
	return e.take(e.s.in, coordination.StateQueue)
}

// down notes that the proper queue does not answer.
func (e *elector) down() (*hold, error) {
	e.downSince, e.backSince = time.Now(), time.Time{}
	return e.tryFallback()
}

// answered notes that it does.
func (e *elector) answered() {
	if !e.downSince.IsZero() {
		e.downSince, e.backSince = time.Time{}, time.Now()
	}
	e.slow = 0
}
