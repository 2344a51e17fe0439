package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/shards/coordination"
)

// Why a lead ends, the session's end apart.
var (
	errResigned   = errors.New("resigned")
	errLeadLost   = errors.New("the queue of the lead was deleted, or its node went down")
	errMute       = errors.New("the queue of the lead does not answer")
	errMovedUp    = errors.New("the lead moved to its proper queue")
	errOutdone    = errors.New("another proxy has stored a newer state")
	errOverruled  = errors.New("another proxy leads on the proper queue")
	errNoConfirm  = fmt.Errorf("no confirm from the broker within %s", storeTimeout)
	errUnroutable = errors.New("the queue of the lead has lost its binding")
)

// hold is one proxy's lead: the exclusive consumption of a queue, and the
// messages it was given and keeps unacknowledged.
//
// A state is replaced by publishing the new one, which comes back on the queue,
// and acknowledging the old one once the broker has confirmed the new one. When
// the lead ends the broker requeues what is unacknowledged, which is the last
// state that was stored; or two, of which the newer counts, if it ends in
// between.
type hold struct {
	queue      string
	w          *wire // the connection that consumes
	ch         *amqp.Channel
	deliveries <-chan amqp.Delivery
	name       string // begins the ids of messages it stores
	newer      func(a, b []byte) bool
	foreign    func(amqp.Delivery) bool
	storing    chan struct{} // taken while a state is being stored

	ctx      context.Context // ends with the lead; its cause says why
	fail     context.CancelCauseFunc
	next     *hold    // takes over from this one, for errMovedUp
	leftover []string // fallback queues whose states next has taken over

	// The guard's: the fallback queues that could not be seen into yet, when to look
	// again, and the pause that ends then.
	unseen    []string
	lookAt    time.Time
	lookPause time.Duration

	mu     sync.Mutex
	kept   []kept // in the order they came in
	state  []byte // the newest that is known to be stored; nil = none
	stores uint64 // how many were begun
	stored uint64 // the number of the last that was confirmed
}

// kept is a message that is not acknowledged.
type kept struct {
	tag    uint64
	number uint64 // of the hold's own stores; 0 = another's
}

// end ends the lead.
func (h *hold) end(why error) { h.fail(why) }

// store replaces the stored state.
func (h *hold) store(ctx context.Context, s *session, state []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, storeTimeout, errNoConfirm)
	defer cancel()
	select {
	case h.storing <- struct{}{}:
		defer func() { <-h.storing }()
	case <-ctx.Done():
		return fmt.Errorf("store: %w", context.Cause(ctx))
	case <-h.ctx.Done():
		return h.deposed()
	}
	h.mu.Lock()
	h.stores++
	number := h.stores
	h.mu.Unlock()
	if err := h.publish(ctx, s, number, state); err != nil {
		return err
	}
	if h.ctx.Err() != nil {
		return h.deposed()
	}
	h.confirmed(number, bytes.Clone(state))
	s.in.spawn(func() { h.forget(s) })
	return nil
}

func (h *hold) deposed() error {
	return fmt.Errorf("store: %w: %w", coordination.ErrNotElected, context.Cause(h.ctx))
}

// publish sends a state and waits for the broker's confirm. Where that does not
// come in time, or the message is returned, the lead is in doubt and ends.
func (h *hold) publish(ctx context.Context, s *session, number uint64, state []byte) error {
	id := h.name + strconv.FormatUint(number, 10)
	confirmation, err := s.publish(ctx, s.confirm, coordination.StateExchange, h.queue, true, amqp.Publishing{
		ContentType: "application/json", DeliveryMode: amqp.Persistent, MessageId: id, AppId: s.t.id, Body: state,
	})
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	blocked, is := s.alarm.state()
	if is {
		return coordination.ErrBlocked
	}
	for {
		select {
		case returned := <-s.returns:
			if returned.MessageId == id {
				h.end(errUnroutable)
				return h.deposed()
			}
		case <-confirmation.Done():
			return h.settled(s, confirmation, id)
		case <-blocked:
			return coordination.ErrBlocked
		case <-h.ctx.Done():
			return h.deposed()
		case <-s.ctx.Done():
			return &disconnectedError{context.Cause(s.ctx)}
		case <-ctx.Done():
			why := context.Cause(ctx)
			if errors.Is(why, errNoConfirm) { // and it is not the caller who gave up
				h.end(errNoConfirm)
			}
			return fmt.Errorf("store: %w", why)
		}
	}
}

// settled reads a confirm. The broker sends the return of a message before its
// confirm.
func (h *hold) settled(s *session, confirmation *amqp.DeferredConfirmation, id string) error {
	for {
		select {
		case returned, open := <-s.returns:
			if !open || returned.MessageId == id {
				h.end(errUnroutable)
				return h.deposed()
			}
			continue
		default:
		}
		break
	}
	if !confirmation.Acked() {
		h.end(errLeadLost)
		return h.deposed()
	}
	return nil
}

// confirmed notes that a state is stored.
func (h *hold) confirmed(number uint64, state []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stored, h.state = number, state
	h.settle()
}

// delivered keeps a message that came in, and ends the lead if its state is
// another proxy's and newer: one that led before, and was slow.
func (h *hold) delivered(d amqp.Delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.foreign(d) {
		if err := h.ch.Ack(d.DeliveryTag, false); err != nil {
			h.end(errLeadLost)
		}
		return
	}
	k := kept{tag: d.DeliveryTag}
	if text, own := strings.CutPrefix(d.MessageId, h.name); own {
		k.number, _ = strconv.ParseUint(text, 10, 64)
	}
	h.kept = append(h.kept, k)
	if k.number == 0 && (h.state == nil || h.newer(d.Body, h.state)) {
		h.end(errOutdone)
		return
	}
	h.settle()
}

// settle acknowledges what the last stored state has replaced, once that one has
// come back: what came in before it and what was stored before it. A store that
// failed may come in late. Called with mu held.
func (h *hold) settle() {
	back := false
	for _, k := range h.kept {
		back = back || k.number == h.stored && k.number != 0
	}
	if !back {
		return
	}
	rest := h.kept[:0]
	for _, k := range h.kept {
		if k.number >= h.stored {
			rest = append(rest, k)
			continue
		}
		if err := h.ch.Ack(k.tag, false); err != nil {
			h.end(errLeadLost)
		}
	}
	h.kept = rest
}

// lacks reports whether a state is newer than the one that is known to be stored.
func (h *hold) lacks(state []byte) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state == nil || h.newer(state, h.state)
}

// leave has a fallback queue deleted once a state has been stored in this one's, and reports whether one has.
func (h *hold) leave(queue string) (now bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leftover = append(h.leftover, queue)
	return h.stored > 0
}

// forget deletes the fallback queues whose state is in this one's now, unless
// somebody leads there. What fails is left: it is looked at by the next leader.
func (h *hold) forget(s *session) {
	h.mu.Lock()
	leftover := h.leftover
	h.leftover = nil
	h.mu.Unlock()
	for _, queue := range leftover {
		d := desk{w: s.in}
		_, _ = at(s.ctx, &d, func(ch *amqp.Channel) (int, error) {
			n, err := ch.QueueDelete(queue, true, false, false)
			if err == nil {
				err = ch.Close()
			}
			return n, err
		})
	}
}

// collect takes in what is in the queue, n messages, and reports the newest
// state. Messages beyond it are acknowledged.
func (h *hold) collect(n int) error {
	timer := time.NewTimer(requestTimeout)
	defer timer.Stop()
	for range n {
		select {
		case d, open := <-h.deliveries:
			if !open {
				return errLeadLost
			}
			h.take(d)
		case <-timer.C: // somebody else has taken them, or nobody has them any more
			return nil
		case <-h.ctx.Done():
			return context.Cause(h.ctx)
		}
	}
	return nil
}

// take compares a message with the one that is kept, and acknowledges the older.
func (h *hold) take(d amqp.Delivery) {
	older := kept{tag: d.DeliveryTag}
	if h.foreign(d) {
		_ = h.ch.Ack(older.tag, false)
		return
	}
	if len(h.kept) == 0 || !h.newer(h.state, d.Body) {
		h.state = d.Body
		if len(h.kept) == 0 {
			h.kept = []kept{older}
			return
		}
		h.kept[0], older = older, h.kept[0]
	}
	_ = h.ch.Ack(older.tag, false)
}
