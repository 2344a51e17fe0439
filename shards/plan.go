package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards/coordination"
)

// accord is what the coordination of an exchange has come to on this proxy.
// Guarded by work.mu.
type accord struct {
	want   coordination.Spec  // what the configuration asks for
	wanted bool               // the exchange is there, as far as is known, and ours
	plan   *coordination.Plan // the last one
	// starting is the plan that the first State is being made by; followed the one
	// that the present State was made by, nil while there is none with shards;
	// chased the last one for which another State was set going.
	starting, followed, chased *coordination.Plan
	ready                      bool // all shards of followed.Next are bound

	pause pause

	unsettled map[string]int // per queue, basic.get deliveries not acknowledged
}

// progress returns the highest generation this proxy could go over to, and the
// one that its publishes go by, or will in a moment; 0 while they go by none. Next
// is prepared when it is the Next of the present plan that has been bound.
func (a *accord) progress() (prepared, routing uint64) {
	f := a.followed
	if f == nil {
		f = a.starting
	}
	if f == nil || !a.wanted {
		return 0, 0
	}
	if a.ready && a.plan != nil && a.plan.Generation == f.Generation && slices.Equal(a.plan.Next, f.Next) {
		return f.Generation + 1, f.Generation
	}
	return f.Generation, f.Generation
}

// behind reports whether there is a State that is not as the plan has it, and
// nothing has been done about it.
func (a *accord) behind() bool {
	return a.wanted && a.followed != nil && a.plan != nil && !sameSets(a.followed, a.plan) &&
		(a.chased == nil || !sameSets(a.chased, a.plan))
}

// sameSets reports whether two plans concern the same shards in the same way.
func sameSets(p, q *coordination.Plan) bool {
	return p == q || p.Generation == q.Generation && slices.Equal(p.Set, q.Set) &&
		slices.Equal(p.Next, q.Next) && slices.Equal(p.Old, q.Old)
}

// agreement is a plan as far as this proxy has brought it about.
type agreement struct {
	plan  *coordination.Plan
	ready bool // all shards of plan.Next are bound
}

// covers reports whether all shards of a set have been bound.
func (p *binding) covers(set *Set) bool {
	if set == nil {
		return false
	}
	for i := range set.Len() {
		if shard := set.At(i); p.down[shard.Node] || p.gone[shard.Queue] {
			return false
		}
	}
	return true
}

// agree states what this proxy's configuration asks for, and returns the plan on
// the exchange's shards. The turn is held.
func (t *Topology) agree(ctx context.Context, x *Exchange, mode Mode) (*agreement, error) {
	if err := t.inquire(ctx, x); err != nil {
		return nil, err
	}
	want, err := t.wanted(ctx, x, mode)
	if err != nil {
		return nil, err
	}
	if x.work.wish(want) {
		t.restate(x)
	}
	p, err := t.node.Plan(ctx, x.Name)
	if err != nil {
		return nil, fmt.Errorf("agree on the shards of exchange '%s': %w", x.Name, err)
	}
	first := x.work.heard(p)
	t.obey(x)
	if first {
		t.restate(x) // before publishes go by it, for the shards must not be unbound then
	}
	return &agreement{plan: p}, nil
}

// inquireFor bounds how long a proxy waits to hear where others have placed
// shards of a fixed total.
const inquireFor = time.Second

// inquire waits for the plan that other proxies may have made already. The shards
// of a fixed total are where they were placed once, on the nodes that there were
// then; a proxy that wanted them elsewhere would ask for a change that is none.
func (t *Topology) inquire(ctx context.Context, x *Exchange) error {
	def := &x.Policy().Definition
	if t.alone || def.Shards == 0 || def.Replicated() || x.work.planned() != nil {
		return nil
	}
	if x.work.wish(coordination.Spec{Ordered: def.Ordered}) {
		t.restate(x)
	}
	ctx, cancel := context.WithTimeout(ctx, inquireFor)
	defer cancel()
	p, err := t.node.Plan(ctx, x.Name)
	if err == nil {
		x.work.heard(p)
	}
	if errors.Is(err, coordination.ErrClosed) {
		return fmt.Errorf("ask for the shards of exchange '%s': %w", x.Name, err)
	}
	return nil // nobody has decided on them yet
}

// wanted returns what this proxy's configuration comes to on the nodes it knows.
func (t *Topology) wanted(ctx context.Context, x *Exchange, mode Mode) (coordination.Spec, error) {
	nodes, err := t.nodeNames(ctx)
	if err != nil {
		return coordination.Spec{}, err
	}
	var present []Shard
	if p := x.work.planned(); p != nil {
		present = p.All()
	}
	def := x.Policy().Definition
	want := coordination.Spec{
		Shards: ShardsFor(x.Name, &def, nodes, present), Ordered: def.Ordered, Barrier: def.Barrier && mode == Sharded,
		Placement: def.placement(mode),
	}
	if def.Barrier && mode == Native {
		t.tellBarrier(x)
	}
	if err := SetOf(x.Name, 1, want.Shards).Validate(); err != nil {
		return want, &BrokerError{Code: uint16(frames.PreconditionFailed), Text: "PRECONDITION_FAILED - " + err.Error()}
	}
	return want, nil
}

// planned returns the last plan, nil when there is none.
func (w *work) planned() *coordination.Plan {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.accord.plan
}

// heard notes a plan, unless one has been applied, and reports whether a first
// State is to be made by it.
func (w *work) heard(p *coordination.Plan) (first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := &w.accord
	if a.plan == nil {
		a.take(p)
	}
	if a.followed == nil && a.wanted {
		a.starting = p
		return true
	}
	return false
}

// failed notes that there is no first State after all.
func (w *work) failed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accord.starting = nil
}

// disown notes that no policy is for the exchange any more.
func (w *work) disown() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accord.want, w.accord.wanted, w.accord.starting = coordination.Spec{}, false, nil
	w.accord.pause.over()
}

// wish notes what is wanted, and reports whether that is news.
func (w *work) wish(want coordination.Spec) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := &w.accord
	news := !a.wanted || a.want.Ordered != want.Ordered || a.want.Barrier != want.Barrier ||
		a.want.Placement != want.Placement || !slices.Equal(a.want.Shards, want.Shards)
	if !a.wanted && a.plan != nil && a.plan.Pause && !a.pause.on {
		a.pause.begin() // it was none of ours when that plan came
	}
	a.want, a.wanted = want, true
	return news
}

// takeSets puts the plan's shards into state. Sets that have not changed stay the
// same values: what was read for them stays good.
func (w *work) takeSets(x *Exchange, state *State, p *coordination.Plan) {
	was := x.State()
	state.Set = reuse(w.set, x.Name, p.Generation, p.Set)
	state.All, state.Next = nil, nil
	if len(p.Next) > 0 {
		state.Next = reuse(was.Next, x.Name, p.Generation+1, p.Next)
	}
	if all := p.All(); !slices.Equal(all, p.Set) {
		state.All = reuse(was.All, x.Name, p.Generation, all)
	}
}

// reuse returns the set of these shards, in name order: old if that is it.
func reuse(old *Set, exchange string, generation uint64, shards []Shard) *Set {
	switch {
	case old == nil || !slices.Equal(old.shards, shards):
		return SetOf(exchange, generation, shards)
	case old.generation != generation:
		return old.WithGeneration(generation)
	}
	return old
}

// follows notes what the present State was made by; nil when it has no shards.
func (w *work) follows(agreed *agreement) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := &w.accord
	a.starting, a.followed, a.chased, a.ready = nil, nil, nil, false
	if agreed != nil {
		a.followed, a.ready = agreed.plan, agreed.ready
	}
	a.wanted = agreed != nil
}

// follow has the exchange set up again if its State is not as the plan has it.
// Only then the State goes over to the plan's shards: everything is bound.
func (t *Topology) follow(x *Exchange) {
	w := &x.work
	w.mu.Lock()
	behind := w.accord.behind()
	if behind {
		w.accord.chased = w.accord.plan
	}
	w.mu.Unlock()
	if behind {
		t.spawn(func() { t.finish(t.ctx, x) })
	}
}
