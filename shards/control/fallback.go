package control

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards/coordination"
)

const (
	// fallbackTimeout bounds connecting to one node when looking for the first that
	// can be reached.
	fallbackTimeout = 2 * time.Second
	// fallbackAgain is how often it is looked for anew, so that all proxies come to
	// the same one.
	fallbackAgain = 10 * time.Second
	// takeOverTimeout bounds looking for the states that fallback queues hold.
	takeOverTimeout = 500 * time.Millisecond
	// peekMost is how many messages of a fallback queue are looked at: more than two
	// are not a leader's.
	peekMost = 16
)

var errNoNode = errors.New("no node can be reached")

// fallback is a connection to the node whose queue stands in for the proper one.
type fallback struct {
	w      *wire
	look   desk
	chosen time.Time
}

// fallbackQueue is the name of the queue on a node.
func fallbackQueue(n NodeAddress) string { return coordination.StateQueue + "." + label(n) }

// tryFallback takes the lead on the fallback queue if it is free.
func (e *elector) tryFallback() (*hold, error) {
	f, free, err := e.lookFallback()
	if !free {
		return nil, err
	}
	return e.take(f.w, fallbackQueue(f.w.node))
}

// lookFallback reports whether nobody leads on the fallback queue.
func (e *elector) lookFallback() (f *fallback, free bool, err error) {
	if f = e.fallback; f == nil || f.w.conn.IsClosed() || time.Since(f.chosen) > fallbackAgain {
		if f, err = e.choose(); err != nil {
			return nil, false, err
		}
	}
	q, err := inspect(e.s.ctx, &f.look, fallbackQueue(f.w.node))
	if err != nil {
		err = refusal("look for queue '"+fallbackQueue(f.w.node)+"'", f.w, err)
		e.leaveFallback() // another node may be more willing
		return nil, false, err
	}
	return f, q.Consumers == 0, nil
}

// choose connects to the first node in name order that can stand in.
func (e *elector) choose() (*fallback, error) {
	nodes := slices.SortedFunc(slices.Values(e.s.t.o.Nodes()), func(a, b NodeAddress) int {
		return cmp.Compare(label(a), label(b))
	})
	why := errNoNode
	for _, n := range nodes {
		f := e.fallback
		if f == nil || f.w.node != n || f.w.conn.IsClosed() {
			w, err := e.dialFallback(n)
			if err != nil {
				why = err
				continue
			}
			f = &fallback{w: w, look: desk{w: w}}
		}
		if err := e.fits(f); err != nil {
			why = err
			if f != e.fallback {
				f.w.close()
			}
			continue
		}
		if f != e.fallback {
			e.leaveFallback()
		}
		e.fallback, f.chosen = f, time.Now()
		return f, nil
	}
	return nil, why
}

// fits makes sure that the node has its queue, and that the session's node knows
// of it: after a partition nodes can be reached that are no longer in one cluster.
func (e *elector) fits(f *fallback) error {
	queue := fallbackQueue(f.w.node)
	if _, err := inspectOrDeclare(e.s.ctx, &f.look, queue); err != nil {
		return refusal("look for queue '"+queue+"'", f.w, err)
	}
	if _, err := inspect(e.s.ctx, &e.look, queue); err != nil {
		return refusal("look for queue '"+queue+"' of another node", e.s.in, err)
	}
	return nil
}

func (e *elector) dialFallback(n NodeAddress) (*wire, error) {
	ctx, cancel := context.WithTimeout(e.s.ctx, fallbackTimeout)
	defer cancel()
	w, stop, err := e.s.t.dial(ctx, n, "shardmq coordination (stand-in)")
	if err != nil {
		return nil, err
	}
	if !stop() {
		w.close()
		return nil, unreachable(n.Address, context.Cause(ctx))
	}
	return w, nil
}

// leaveFallback ends the connection to the stand-in's node, if there is one.
func (e *elector) leaveFallback() {
	if e.fallback != nil {
		e.fallback.w.close()
		e.fallback = nil
	}
}

// takeOver looks into the fallback queues for a state that is newer than the one
// of the proper queue, which h has. Those that have one are noted for deletion.
// It is bounded, since a queue whose node is down may not answer: a new leader is
// more urgent than a state that the proxies' reports make up for.
func (e *elector) takeOver(h *hold) {
	ctx, cancel := context.WithTimeout(e.s.ctx, takeOverTimeout)
	defer cancel()
	var mu sync.Mutex
	var looking sync.WaitGroup
	for _, n := range e.s.t.o.Nodes() {
		looking.Go(func() {
			states, inUse := e.peek(ctx, fallbackQueue(n))
			mu.Lock()
			defer mu.Unlock()
			for _, state := range states {
				if h.state == nil || h.newer(state, h.state) {
					h.state = state
				}
			}
			if len(states) > 0 {
				h.leftover = append(h.leftover, fallbackQueue(n))
			} else if inUse {
				h.unseen = append(h.unseen, fallbackQueue(n))
			}
		})
	}
	looking.Wait()
}

// lookAgain looks into the fallback queues that somebody else led on when this
// leader of the proper queue took over: their leaders resign within seconds. A
// state there that is newer than the leader's own ends the lead, for the next one
// to take it over; any other goes with its queue.
func (e *elector) lookAgain(h *hold) {
	ctx, cancel := context.WithTimeout(h.ctx, takeOverTimeout)
	defer cancel()
	unseen := h.unseen
	h.unseen = nil
	for _, queue := range unseen {
		states, inUse := e.peek(ctx, queue)
		switch {
		case slices.ContainsFunc(states, h.lacks):
			h.end(errOutdone)
			return
		case len(states) > 0:
			if h.leave(queue) {
				h.forget(e.s)
			}
		case inUse:
			h.unseen = append(h.unseen, queue)
		}
	}
}

// peek returns the messages of a fallback queue and leaves them there; inUse says
// that there is such a queue. Usually there is none: deleting it, if it is empty
// and unused, tells, while looking for it would have the broker log an error.
func (e *elector) peek(ctx context.Context, queue string) (states [][]byte, inUse bool) {
	d := desk{w: e.s.in}
	_, err := at(ctx, &d, func(ch *amqp.Channel) (int, error) {
		return ch.QueueDelete(queue, true, true, false)
	})
	if isCode(err, frames.PreconditionFailed) {
		inUse = true
		states, _ = at(ctx, &d, func(ch *amqp.Channel) (found [][]byte, err error) {
			for len(found) < peekMost {
				m, ok, err := ch.Get(queue, false)
				if err != nil || !ok {
					return found, err
				}
				found = append(found, m.Body)
			}
			return found, nil
		})
	}
	if ch := d.ch; ch != nil {
		d.w.spawn(func() { closeChannel(ch) })
	}
	return states, inUse
}
