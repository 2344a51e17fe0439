package shards

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardmq/shardmq/frames"
)

// work is the Topology's side of an Exchange: who is looking at it now, and what
// was found last.
//
// Lock order: turn, then mu. turn is held while the exchange's shards, bindings
// or State are changed, requests to the broker included; mu only for moments.
type work struct {
	mu            sync.Mutex
	turn          chan struct{} // a mutex one can stop waiting for
	running, next *flight       // next begins when running has ended
	missing       time.Time     // when the exchange was last found missing
	refused       time.Time     // when the broker last refused something
	refusal       error
	words         uint32 // word counts in use, as State.Words; kept while the exchange is gone
	set           *Set   // last shard set, for its generation
	shape         ExchangeSpec
	shaped        time.Time // when the exchange was probed last
	warnedReal    bool
	adopted       map[string]string // queues found fit to be shards, and for which arguments
	prepared      *prepared         // made for an exchange that is not there yet; guarded by the turn
	surplus       surplus           // see surplus.go
	stores        sync.Mutex        // held while State is replaced; after turn, before mu
	counting      *counting         // the last reading of the counts
	recount       *counting         // the next one, when it is wanted already
	pause         time.Duration     // before the next try while it cannot be set up
	told          string            // the refusal that was logged last
	accord        accord            // see plan.go
	counted       counted           // see snapshot.go
	shut          chan struct{}     // closed when publishes may go on, nil while they may; guarded by stores
	toldBarrier   bool              // that the policy's order-barrier is without effect
}

// flight is one run of resolve that any number of callers wait for.
type flight struct {
	done  chan struct{} // closed at the end; then the rest may be read
	state *State
	err   error
}

// lock takes the turn, or returns ctx's error.
func (w *work) lock(ctx context.Context) error {
	w.mu.Lock()
	if w.turn == nil {
		w.turn = make(chan struct{}, 1)
	}
	turn := w.turn
	w.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tryLock takes the turn if nobody has it.
func (w *work) tryLock() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.turn == nil {
		w.turn = make(chan struct{}, 1)
	}
	select {
	case w.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

func (w *work) unlock() { <-w.turn }

// Resolve finds out what the exchange is in the broker and, if it exists, makes
// sure of its shards, their bindings and its catch-all. Without force a known
// answer is enough: a positive one for good, "missing" and a refusal for a second.
// With force the look begins after the call, so it sees what the caller
// has just done. Concurrent calls share a run. Refusals are *BrokerError; other
// errors match ErrUnreachable or the context's.
func (t *Topology) Resolve(ctx context.Context, x *Exchange, force bool) (*State, error) {
	if !force {
		if state, err, ok := x.work.remembered(x.State()); ok {
			return state, err
		}
	}
	f := t.join(x, force)
	select {
	case <-f.done:
		return f.state, f.err
	case <-ctx.Done():
		return nil, fmt.Errorf("resolve exchange '%s': %w", x.Name, context.Cause(ctx))
	}
}

// remembered returns what need not be asked again.
func (w *work) remembered(state *State) (*State, error, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case state.Set != nil:
		return state, nil, true
	case w.refusal != nil && time.Since(w.refused) < refusedFor:
		return nil, w.refusal, true
	case state.Mode == Missing && time.Since(w.missing) < missingFor:
		return state, nil, true
	}
	return nil, nil, false
}

// join returns the flight to wait for. A forced caller cannot use one that has
// begun: it may have looked already.
func (t *Topology) join(x *Exchange, force bool) *flight {
	w := &x.work
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.running != nil && !force:
		return w.running
	case w.running != nil:
		if w.next == nil {
			w.next = &flight{done: make(chan struct{})}
		}
		return w.next
	}
	f := &flight{done: make(chan struct{})}
	if t.spawn(func() { t.fly(x, f) }) {
		w.running = f
	} else {
		f.err = ErrTopologyClosed
		close(f.done)
	}
	return f
}

// fly runs a flight and those that queue up behind it. Callers come and go; the
// run has the topology's life and a deadline of its own.
func (t *Topology) fly(x *Exchange, f *flight) {
	w := &x.work
	for f != nil {
		ctx, cancel := context.WithTimeout(t.ctx, resolveTimeout)
		f.state, f.err = t.resolve(ctx, x)
		cancel()
		w.mu.Lock()
		w.note(f)
		done := f.done
		f, w.running, w.next = w.next, w.next, nil
		w.mu.Unlock()
		close(done)
	}
}

// note remembers a negative answer. w.mu is held.
func (w *work) note(f *flight) {
	w.refusal = nil
	if _, refused := errors.AsType[*BrokerError](f.err); refused {
		w.refused, w.refusal = time.Now(), f.err
	}
	if f.err == nil && f.state.Mode == Missing {
		w.missing = time.Now()
	}
}

// resolve is one look at the exchange and the setting up of what it needs.
func (t *Topology) resolve(ctx context.Context, x *Exchange) (*State, error) {
	w := &x.work
	if err := w.lock(ctx); err != nil {
		return nil, err
	}
	state, agreed, err := t.setUp(ctx, x)
	if err == nil {
		t.publish(x, state)
		w.follows(agreed)
	} else {
		w.failed()
	}
	w.unlock()
	if err != nil {
		return nil, err
	}
	if state.Mode == Missing {
		t.routes.unpin(x)
	} else {
		t.routes.pin(x)
	}
	t.regroup(x)
	return state, nil
}

// setUp probes, and declares and binds what is not there. The state's shards are
// those of what was agreed, nil when it has none. The turn is held.
func (t *Topology) setUp(ctx context.Context, x *Exchange) (*State, *agreement, error) {
	found, err := t.probe(ctx, x)
	if err != nil {
		return nil, nil, err
	}
	state := &State{Mode: found.mode(x.Policy()), Type: found.kind}
	if state.Mode == Missing {
		t.abandonLate(ctx, x)
		return state, nil, nil
	}
	x.work.prepared = nil
	agreed, err := t.agree(ctx, x, state.Mode)
	if err != nil {
		return nil, nil, err
	}
	x.work.takeSets(x, state, agreed.plan)
	if state.Mode == Sharded {
		state.Words = x.work.words | 1
	}
	plan := bindingOf(x, state)
	if err := t.declareShards(ctx, plan); err != nil {
		return nil, nil, err
	}
	state.Live = plan.live(state)
	if err := t.settleBindings(ctx, state, plan, found); err != nil {
		return nil, nil, err
	}
	if state.RealQueue, err = t.realQueue(ctx, x); err != nil {
		return nil, nil, err
	}
	agreed.ready = plan.covers(state.Next)
	return state, agreed, nil
}

// realQueue looks whether a queue has the exchange's own name. When no node
// tells, for the queue's own may be down, what was known stays.
func (t *Topology) realQueue(ctx context.Context, x *Exchange) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, realQueueTimeout)
	defer cancel()
	var exists bool
	err := t.onAny(ctx, func(b Broker) error {
		count, err := b.QueueCount(ctx, x.Name)
		exists = count.Exists
		return err
	})
	switch {
	case nodeDown(err):
		return x.State().RealQueue, nil
	case isRefusal(err, frames.ResourceLocked):
		exists = true // somebody's exclusive queue
	case err != nil:
		return false, err
	}
	if exists && !x.work.warnedReal {
		t.log.Warn("a queue has the name of a sharded exchange: publishes through the default exchange to that name "+
			"are refused (406) by the proxy until the queue is removed or renamed", "queue", x.Name, "vhost", t.vhost)
	}
	x.work.warnedReal = exists
	return exists, nil
}

// publish makes a state the exchange's present one. The turn is held.
func (t *Topology) publish(x *Exchange, state *State) {
	w := &x.work
	if state.Set != nil {
		w.set = state.Set
	} else {
		w.follows(nil)
	}
	w.words |= state.Words
	before := x.State()
	state = t.store(x, state)
	if before.Mode != state.Mode || !before.Set.Same(state.Set) || before.LiveLen() != state.LiveLen() {
		shards := 0
		if state.Set != nil {
			shards = state.Set.Len()
		}
		t.log.Info("exchange state", "exchange", x.Name, "vhost", t.vhost,
			"mode", state.Mode.String(), "type", state.Type, "shards", shards, "live", state.LiveLen())
	}
}

// regroup has consumers and other proxies told what the exchange is now, and has
// it set up again if other shards have been decided on meanwhile. It calls into
// sessions, so no turn or lock is held.
func (t *Topology) regroup(x *Exchange) {
	x = t.routes.canonical(x)
	if g := x.group.Load(); g != nil {
		g.setChanged()
		g.changed()
	} else {
		t.restate(x)
	}
	t.follow(x)
}
