package shards

import (
	"context"
	"time"
)

// Counts reads the shards' message and consumer counts, parallel to the present
// State's Covered; nil when there are no shards. The reading begins after the call;
// callers that come together share one, so the counts are not to be modified. A
// shard that is missing, or whose home node is down, has Exists false: it cannot be
// consumed. A missing one is set up again in the background.
func (t *Topology) Counts(ctx context.Context, x *Exchange) ([]Count, error) {
	if x.State().Set == nil {
		return nil, nil
	}
	c := t.fresh(x)
	if err := c.wait(ctx, x); err != nil {
		return nil, err
	}
	if c.missing {
		t.finishLater(x)
	}
	if c.set != x.State().Covered() { // they changed under the counting
		return nil, nil
	}
	return c.counts, nil
}

// Census resolves the exchange and counts its shards; when one is missing that
// its node could have, it resolves with force and counts again. The counts are
// parallel to the State's Covered, and nil when there are no shards or when they
// changed under the counting. They are read after the call, and shared as those of
// Counts are.
func (t *Topology) Census(ctx context.Context, x *Exchange) (*State, []Count, error) {
	return t.census(ctx, x, func(bool) *counting { return t.fresh(x) })
}

// RecentCensus is Census for callers that need no fresh counts: what was read at
// most maxAge ago will do.
func (t *Topology) RecentCensus(ctx context.Context, x *Exchange, maxAge time.Duration) (*State, []Count, error) {
	return t.census(ctx, x, func(again bool) *counting {
		if again {
			return t.fresh(x)
		}
		return t.recent(x, maxAge)
	})
}

func (t *Topology) census(ctx context.Context, x *Exchange, count func(again bool) *counting) (*State, []Count, error) {
	for _, force := range []bool{false, true} {
		state, err := t.Resolve(ctx, x, force)
		if err != nil {
			return nil, nil, err
		}
		if state.Set == nil {
			return state, nil, nil
		}
		c := count(force)
		if err := c.wait(ctx, x); err != nil {
			return nil, nil, err
		}
		if now := x.State(); now.Covered() == c.set && c.set != nil && (!c.missing || force) {
			return now, c.counts, nil
		}
	}
	return x.State(), nil, nil
}

// count reads the counts for the shards that state covers, has the exchange's State
// say which shards are not there, and reports whether the exchange needs setting
// up: a node that answers lacks one of its shards, or has one that was not live.
func (t *Topology) count(ctx context.Context, x *Exchange, state *State, r *round) (counts []Count, missing bool, err error) {
	a := &asking{set: state.Covered(), round: r}
	if counts, err = t.countEach(ctx, a); err != nil {
		return nil, false, err
	}
	x.work.count(a.set, counts)
	for i, count := range counts {
		missing = missing || t.lacks(state, a.set.At(i), count, a.down)
	}
	t.dropDead(x, state, counts)
	return counts, missing, nil
}

// countEach counts the shards of a.set, each over its own node.
func (t *Topology) countEach(ctx context.Context, a *asking) ([]Count, error) {
	counts := make([]Count, a.set.Len())
	err := t.eachNode(ctx, a, func(ctx context.Context, b Broker, indexes []int) error {
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
	return counts, err
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
