package shards

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// countsFunc reads the broker's counts of an exchange's shards, in the order of
// its current Set.
type countsFunc func(ctx context.Context) ([]Count, error)

const (
	// externalMaxAge is how long known counts are good enough while attachments
	// are in flight.
	externalMaxAge = time.Second
	// leavingMaxAge bounds how long attachments of a member that left count as
	// this proxy's when nobody reports their end.
	leavingMaxAge = 10 * time.Second
)

// external is what a group knows of consumers that are not its own: the broker's
// consumer counts without those of this proxy. Guarded by the group's lock, save
// counts.
type external struct {
	counts countsFunc

	last    map[string]uint32 // per queue
	known   bool
	at      time.Time     // when last was read
	reading chan struct{} // closed when the read under way has ended, nil = none
}

// refreshExternal reads the external counts if they can be told from this
// proxy's own ones: while none of those is in flight, else only when nothing, or
// nothing fresh, is known. So a burst of joins reads once and then goes by what
// the group itself has handed out. Joins that come during a read share it. When
// the read fails, what was known stays.
func (g *Group) refreshExternal(ctx context.Context) {
	g.mu.Lock()
	if reading := g.external.reading; reading != nil {
		g.mu.Unlock()
		select {
		case <-reading:
		case <-ctx.Done():
		}
		return
	}
	g.dropLeft()
	if e := &g.external; e.known && !g.quiet() && time.Since(e.at) < externalMaxAge {
		g.mu.Unlock()
		return
	}
	done := make(chan struct{})
	g.external.reading = done
	least, most := g.attachedRange()
	set := g.x.State().Set
	g.mu.Unlock()

	// Deferred, for a counts source that panics must not keep others waiting.
	defer func() {
		g.mu.Lock()
		g.external.reading = nil
		g.mu.Unlock()
		close(done)
	}()
	counts, err := g.external.counts(ctx)
	if err == nil {
		g.learn(set, counts, least, most)
	}
}

// learn takes over counts read for set while this proxy's own part was between
// least and most per queue when the reading began. Where that leaves a range, the
// value in it nearest to the last known one is taken.
func (g *Group) learn(set *Set, counts []Count, least, most map[string]int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if set == nil || set != g.x.State().Set || len(counts) != set.Len() {
		return // the shards changed under the reading
	}
	leastNow, mostNow := g.attachedRange()
	last := make(map[string]uint32, set.Len())
	for i, count := range counts {
		queue := set.At(i).Queue
		low := int(count.Consumers) - max(most[queue], mostNow[queue])
		high := int(count.Consumers) - min(least[queue], leastNow[queue])
		last[queue] = uint32(max(0, min(max(int(g.external.last[queue]), low), high)))
	}
	g.external.last, g.external.known, g.external.at = last, true, time.Now()
}

// attachedRange returns, per queue, how many of this proxy's consumers the broker
// counts at least and at most: an attachment asked for or given up may or may not
// have reached it.
func (g *Group) attachedRange() (least, most map[string]int) {
	least, most = make(map[string]int), make(map[string]int)
	for _, m := range g.members {
		for queue, n := range m.attached {
			most[queue] += n
			if slices.Contains(m.target.Shards, queue) {
				least[queue] += n
			}
		}
		for _, queue := range m.target.Shards {
			if m.attached[queue] == 0 {
				most[queue]++
			}
		}
	}
	for m := range g.leaving {
		for queue, n := range m.attached {
			most[queue] += n
		}
	}
	return least, most
}

// quiet reports whether every attachment is where it is to be.
func (g *Group) quiet() bool {
	for _, m := range g.members {
		if len(m.attached) != len(m.target.Shards) {
			return false
		}
		for _, queue := range m.target.Shards {
			if m.attached[queue] != 1 {
				return false
			}
		}
	}
	return len(g.leaving) == 0
}

// dropLeft forgets attachments whose end nobody has reported in time.
func (g *Group) dropLeft() {
	maps.DeleteFunc(g.leaving, func(_ *Member, left time.Time) bool {
		return time.Since(left) >= leavingMaxAge
	})
}

// requireUnused returns an error unless no shard has any consumer in the broker.
func (g *Group) requireUnused(ctx context.Context) error {
	counts, err := g.external.counts(ctx)
	if err != nil {
		return fmt.Errorf("consume '%s' exclusively: read consumer counts: %w", g.x.Name, err)
	}
	for _, count := range counts {
		if count.Consumers > 0 {
			return g.inExclusiveUse()
		}
	}
	return nil
}
