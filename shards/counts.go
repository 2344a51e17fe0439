package shards

import (
	"context"
	"fmt"
	"time"
)

// Counts reads the shards' message and consumer counts, parallel to the present
// State's Covered; nil when there are no shards. A shard that is missing, or whose
// home node is down, has Exists false: it cannot be consumed. A missing one is set
// up again in the background.
func (t *Topology) Counts(ctx context.Context, x *Exchange) ([]Count, error) {
	state := x.State()
	if state.Set == nil {
		return nil, nil
	}
	counts, missing, err := t.count(ctx, x, state, nil)
	if err == nil && missing {
		t.finishLater(x)
	}
	return counts, err
}

// Census resolves the exchange and counts its shards; when one is missing that
// its node could have, it resolves with force and counts again. The counts are
// parallel to the State's Covered, and nil when there are no shards or when they
// changed under the counting.
func (t *Topology) Census(ctx context.Context, x *Exchange) (*State, []Count, error) {
	for _, force := range []bool{false, true} {
		state, err := t.Resolve(ctx, x, force)
		if err != nil {
			return nil, nil, err
		}
		if state.Set == nil {
			return state, nil, nil
		}
		counts, missing, err := t.count(ctx, x, state, nil)
		if err != nil {
			return nil, nil, err
		}
		if now := x.State(); now.Covered() == state.Covered() && (!missing || force) {
			return now, counts, nil
		}
	}
	return x.State(), nil, nil
}

// counting is one reading of an exchange's counts that any number of callers use.
type counting struct {
	began  time.Time
	done   chan struct{} // closed at the end; then the rest may be read
	set    *Set
	counts []Count
	err    error
}

// RecentCounts is Counts for callers that need no fresh ones: what was read at
// most maxAge ago for the shards that are covered now will do, and so will a
// reading under way. There is one reading at a time per exchange. The counts are
// parallel to the Set returned, which is what was covered when they were read, and
// not to be modified; both are nil when there are no shards.
func (t *Topology) RecentCounts(ctx context.Context, x *Exchange, maxAge time.Duration) (*Set, []Count, error) {
	c := t.recent(x, maxAge)
	select {
	case <-c.done:
		return c.set, c.counts, c.err
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("count shards of exchange '%s': %w", x.Name, context.Cause(ctx))
	}
}

// recent returns the reading to wait for, and begins one if need be.
func (t *Topology) recent(x *Exchange, maxAge time.Duration) *counting {
	w := &x.work
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.counting; c != nil && c.serves(x, maxAge) {
		return c
	}
	c := &counting{began: time.Now(), done: make(chan struct{})}
	if !t.spawn(func() { t.read(x, c) }) {
		c.err = ErrTopologyClosed
		close(c.done)
		return c
	}
	w.counting = c
	return c
}

// serves reports whether a reading will do.
func (c *counting) serves(x *Exchange, maxAge time.Duration) bool {
	select {
	case <-c.done:
		return c.err == nil && c.set == x.State().Covered() && time.Since(c.began) <= maxAge
	default:
		return true
	}
}

// read does the reading. Callers come and go; it has the topology's life and a
// deadline of its own.
func (t *Topology) read(x *Exchange, c *counting) {
	defer close(c.done)
	state := x.State()
	if state.Set == nil {
		return
	}
	ctx, cancel := context.WithTimeout(t.ctx, resolveTimeout)
	defer cancel()
	var missing bool
	if c.counts, missing, c.err = t.count(ctx, x, state, nil); c.err != nil {
		return
	}
	c.set = state.Covered()
	if missing {
		t.finishLater(x)
	}
}

// count reads the counts for the shards that state covers, has the exchange's State
// say which shards are not there, and reports whether the exchange needs setting
// up: a node that answers lacks one of its shards, or has one that was not live.
func (t *Topology) count(ctx context.Context, x *Exchange, state *State, r *round) (counts []Count, missing bool, err error) {
	a := &asking{set: state.Covered(), round: r}
	counts = make([]Count, a.set.Len())
	err = t.eachNode(ctx, a, func(ctx context.Context, b Broker, indexes []int) error {
		names := make([]string, len(indexes))
		for i, at := range indexes {
			names[i] = a.set.At(at).Queue
		}
		found, err := b.QueueCounts(ctx, names)
		for i, count := range found {
			counts[indexes[i]] = count
		}
		return err
	})
	if err != nil {
		return nil, false, err
	}
	x.work.count(a.set, counts)
	for i, count := range counts {
		missing = missing || t.lacks(state, a.set.At(i), count, a.down)
	}
	t.dropDead(x, state, counts)
	return counts, missing, nil
}

// lacks reports whether setting the exchange up would change something about a
// shard: it is to be there and is not, or it is there and was not live.
func (t *Topology) lacks(state *State, shard Shard, count Count, down map[string]bool) bool {
	at, publishes := state.Set.Index(shard.Queue)
	switch {
	case down[shard.Node]:
		return false
	case count.Exists:
		return publishes && !state.IsLive(at)
	case t.foreign(shard):
		return false
	}
	return publishes || state.Next != nil && state.Next.Has(shard.Queue)
}

// dropDead has the exchange's State no longer list as live the shards that were
// not found; counts are parallel to seen's Covered. The reverse is for Resolve: a
// shard that is back may lack bindings.
func (t *Topology) dropDead(x *Exchange, seen *State, counts []Count) {
	dead := make(map[string]bool)
	covered := seen.Covered()
	for i, count := range counts {
		if queue := covered.At(i).Queue; !count.Exists && seen.Set.Has(queue) {
			dead[queue] = true
		}
	}
	if len(dead) == 0 {
		return
	}
	// Whoever has the turn now publishes something newer.
	if !x.work.tryLock() {
		return
	}
	defer x.work.unlock()
	if x.State() != seen {
		return
	}
	live := (&binding{gone: dead}).live(seen)
	if len(live) == seen.LiveLen() {
		return
	}
	next := *seen
	next.Live = live
	t.publish(x, &next)
}
