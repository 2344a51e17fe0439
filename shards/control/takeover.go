package control

import (
	"context"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/frames"
)

const (
	// takeOverTimeout bounds looking for the states that a fallback queue holds.
	takeOverTimeout = 500 * time.Millisecond
	// lookAgainMax bounds the pause, doubled each time, between two looks at the
	// fallback queues that could not be seen into: the broker logs an error for each.
	lookAgainMax = time.Minute
	// peekMost is how many messages of a fallback queue are looked at: more than two
	// are not a leader's.
	peekMost = 16
)

// sight is what a look into a fallback queue has shown.
type sight struct {
	queue  string
	states [][]byte
	gone   bool // there is no such queue
	whole  bool // all that it holds has been seen, and it holds something
}

// takeOver looks into the fallback queues for a state that is newer than the one
// of the proper queue, which h has. Those that have one are noted for deletion,
// and those that somebody leads on, or whose node does not tell, for another look.
// It is bounded, since a queue whose node is down may not answer: a new leader is
// more urgent than a state that the proxies' reports make up for.
func (e *elector) takeOver(h *hold) {
	var queues []string
	for _, n := range e.s.t.o.Nodes() {
		queues = append(queues, fallbackQueue(n))
	}
	for _, seen := range e.peekAll(e.s.ctx, queues) {
		for _, state := range seen.states {
			if h.state == nil || h.newer(state, h.state) {
				h.state = state
			}
		}
		switch {
		case seen.whole:
			h.leftover = append(h.leftover, seen.queue)
		case !seen.gone:
			h.unseen = append(h.unseen, seen.queue)
		}
	}
}

// lookAgain looks into the fallback queues that takeOver could not see into: those
// who lead there resign within seconds, and nodes come back. A state there that is
// newer than the leader's own ends the lead, for the next one to take it over; any
// other goes with its queue.
func (e *elector) lookAgain(h *hold) {
	h.lookPause = min(max(2*h.lookPause, guardEvery), lookAgainMax)
	h.lookAt = time.Now().Add(h.lookPause)
	all := e.peekAll(h.ctx, h.unseen)
	h.unseen = nil
	for _, seen := range all {
		switch {
		case slices.ContainsFunc(seen.states, h.lacks):
			h.end(errOutdone)
			return
		case seen.whole:
			if h.leave(seen.queue) {
				h.forget(e.s)
			}
		case !seen.gone:
			h.unseen = append(h.unseen, seen.queue)
		}
	}
}

// peekAll looks into several queues at the same time; each has its time for itself.
func (e *elector) peekAll(ctx context.Context, queues []string) []sight {
	seen := make([]sight, len(queues))
	var looking sync.WaitGroup
	for i, queue := range queues {
		looking.Go(func() { seen[i] = e.peek(ctx, queue) })
	}
	looking.Wait()
	return seen
}

// peek looks into a fallback queue and leaves there what it holds. Usually there is
// none: deleting it, if it is empty and unused, tells, while looking for it would
// have the broker log an error.
func (e *elector) peek(ctx context.Context, queue string) sight {
	ctx, cancel := context.WithTimeout(ctx, takeOverTimeout)
	defer cancel()
	seen := sight{queue: queue}
	d := desk{w: e.s.in}
	_, err := at(ctx, &d, func(ch *amqp.Channel) (int, error) {
		return ch.QueueDelete(queue, true, true, false)
	})
	switch {
	case err == nil:
		seen.gone = true
	case isCode(err, frames.PreconditionFailed):
		messages, err := at(ctx, &d, func(ch *amqp.Channel) ([]amqp.Delivery, error) { return read(ctx, ch, queue) })
		seen.whole = err == nil && len(messages) > 0
		for _, m := range messages {
			if !e.s.t.foreign(m) {
				seen.states = append(seen.states, m.Body)
			}
		}
	}
	if ch := d.ch; ch != nil {
		d.w.spawn(func() { closeChannel(ch) })
	}
	return seen
}

// read returns what is in a queue that nobody consumes, and has given it back when
// it returns without an error. It consumes rather than gets: a queue of which
// messages are out and that has no consumer is empty and unused to the broker, and
// the next one to look would delete it with the state.
func read(ctx context.Context, ch *amqp.Channel, queue string) ([]amqp.Delivery, error) {
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil || q.Consumers > 0 || q.Messages == 0 {
		return nil, err
	}
	if err := ch.Qos(peekMost, 0, false); err != nil {
		return nil, err
	}
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		return nil, err
	}
	var found []amqp.Delivery
	for range min(q.Messages, peekMost) {
		select {
		case d, open := <-deliveries:
			if !open {
				return nil, errLeadLost
			}
			found = append(found, d)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return found, ch.Close()
}
