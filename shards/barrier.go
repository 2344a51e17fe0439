package shards

import (
	"context"
	"errors"
	"time"

	"github.com/shardmq/shardmq/shards/coordination"
)

// pauseMost is how long a proxy keeps a pause that no leader ends. A leader gives
// up after coordination.Timing.Patience, which is shorter; so this is for a proxy
// that hears none.
const pauseMost = 90 * time.Second

// Fencer waits until everything that this proxy's clients have published to the
// exchange so far has reached its shards. What they publish from now on is held:
// State.Paused says so already. It returns early, with the context's error, when
// ctx ends.
type Fencer func(ctx context.Context, x *Exchange) error

// FenceBy has pauses wait for fence. It is to be called before Start, Resolve and
// Group; without it nobody publishes.
func (t *Topology) FenceBy(fence Fencer) { t.fencer = fence }

// pause is this proxy's part in a change of shards that keeps the order: while it
// is on, publishes to the exchange wait. It goes on when a plan says so, and off
// when a State is stored that a plan without it asks for: the plan alone does not
// move the publishes. Guarded by work.mu.
type pause struct {
	on     bool
	run    uint64 // numbers pauses
	begun  bool   // somebody looks after this run
	fenced uint64 // the generation that everything has been fenced for; 0 = not yet
	forced bool   // has lasted too long: publishes go on regardless
	end    context.CancelFunc
}

// take makes a plan the present one. mu is held.
func (a *accord) take(p *coordination.Plan) {
	was := a.plan
	a.plan = p
	if !p.Pause || a.pause.on && was != nil && was.Pause && was.Generation == p.Generation {
		return
	}
	a.pause.over()
	a.pause.begin()
}

// begin begins a pause. mu is held.
func (p *pause) begin() {
	p.on = true
	p.run++
}

// over ends the pause. mu is held.
func (p *pause) over() {
	if p.end != nil {
		p.end()
	}
	*p = pause{run: p.run}
}

// pauses reports whether publishes by a state have to wait, and ends the pause if
// the state is the one that it was for.
func (w *work) pauses(state *State) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := &w.accord
	if !a.pause.on || a.plan == nil || state.Set == nil {
		return false
	}
	if !a.plan.Pause && state.Set.Generation() >= a.plan.Generation {
		a.pause.over()
		return false
	}
	return state.Mode == Sharded && !a.pause.forced
}

// obey has publishes wait, or go on, as the present plan has it. It does not block.
func (t *Topology) obey(x *Exchange) {
	w := &x.work
	w.mu.Lock()
	on, begins := w.accord.pause.on, w.accord.pause.on && !w.accord.pause.begun
	run := w.accord.pause.run
	var ctx context.Context
	if begins {
		w.accord.pause.begun = true
		ctx, w.accord.pause.end = context.WithTimeout(t.ctx, pauseMost)
	}
	w.mu.Unlock()
	if on {
		t.amend(x, func(*State) {})
	}
	if begins {
		t.spawn(func() { t.keepPause(ctx, x, run) })
	}
}

// keepPause fences one pause and sees to it that it ends.
func (t *Topology) keepPause(ctx context.Context, x *Exchange, run uint64) {
	w := &x.work
	during := func(fn func(a *accord)) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.accord.pause.run != run || !w.accord.pause.on {
			return false
		}
		fn(&w.accord)
		return true
	}
	if t.fencer == nil || t.fencer(ctx, x) == nil {
		if during(func(a *accord) { a.pause.fenced = a.plan.Generation + 1 }) {
			t.restate(x)
		}
	}
	<-ctx.Done()
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return
	}
	if during(func(a *accord) { a.pause.forced, a.pause.fenced = true, 0 }) {
		t.log.Warn("publishes have waited too long for a leader to change the exchange's shards and go on: "+
			"messages with the same key may overtake each other", "exchange", x.Name, "vhost", t.vhost, "waited", pauseMost.String())
		t.amend(x, func(*State) {})
		t.restate(x)
	}
}

// AwaitOpen waits until publishes to an exchange whose State is Paused may go on.
// Errors are the context's, and ErrTopologyClosed.
func (t *Topology) AwaitOpen(ctx context.Context, x *Exchange) error {
	for {
		x.work.stores.Lock()
		shut := x.work.shut
		x.work.stores.Unlock()
		if shut == nil {
			return nil
		}
		select {
		case <-shut:
		case <-t.ctx.Done():
			return ErrTopologyClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// gate notes whether publishes wait, for AwaitOpen. stores is held.
func (w *work) gate(paused bool) {
	switch {
	case paused && w.shut == nil:
		w.shut = make(chan struct{})
	case !paused && w.shut != nil:
		close(w.shut)
		w.shut = nil
	}
}

// tellBarrier logs, once, that the broker's own hashing knows no barrier.
func (t *Topology) tellBarrier(x *Exchange) {
	w := &x.work
	w.mu.Lock()
	told := w.toldBarrier
	w.toldBarrier = true
	w.mu.Unlock()
	if !told {
		t.log.Warn("order-barrier is without effect: the broker places the messages of this exchange itself, "+
			"and does so anew as soon as a shard is bound", "exchange", x.Name, "vhost", t.vhost)
	}
}
