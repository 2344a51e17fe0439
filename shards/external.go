package shards

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// countsFunc reads the broker's counts of an exchange's shards, in the order of
// its current Covered set.
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
// consumer counts without those of this proxy. Guarded by the group's lock.
type external struct {
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
	least, most := maps.Clone(g.tally.least), maps.Clone(g.tally.most)
	set := g.x.State().Covered()
	g.mu.Unlock()

	// Deferred, for a counts source that panics must not keep others waiting.
	defer func() {
		g.mu.Lock()
		g.external.reading = nil
		g.mu.Unlock()
		close(done)
	}()
	counts, err := g.seat.counts(ctx)
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
	if set == nil || set != g.x.State().Covered() || len(counts) != set.Len() {
		return // the shards changed under the reading
	}
	leastNow, mostNow := g.tally.least, g.tally.most
	last := make(map[string]uint32, set.Len())
	for i, count := range counts {
		queue := set.At(i).Queue
		low := int(count.Consumers) - max(most[queue], mostNow[queue])
		high := int(count.Consumers) - min(least[queue], leastNow[queue])
		last[queue] = uint32(max(0, min(max(int(g.external.last[queue]), low), high)))
	}
	g.external.last, g.external.known, g.external.at = last, true, time.Now()
}

// tally is, per queue, how many of this proxy's consumers the broker counts at
// least and at most: an attachment asked for or given up may or may not have
// reached it. It is kept up to date, for there may be thousands of members: what
// a member contributes is taken out before a change to it, and put in after.
type tally struct {
	least, most map[string]int
	unsettled   int // attachments that are not what they are to be
}

// all puts a member's contribution in (sign 1) or takes it out (-1).
func (t *tally) all(m *Member, sign int) {
	for queue := range m.attached {
		t.one(m, queue, sign)
	}
	if m.left {
		return
	}
	for _, queue := range m.target.Shards {
		if m.attached[queue] == 0 {
			t.one(m, queue, sign)
		}
	}
}

// one is all for one queue.
func (t *tally) one(m *Member, queue string, sign int) {
	n, wanted := m.attached[queue], false
	if !m.left {
		_, wanted = slices.BinarySearch(m.target.Shards, queue)
	}
	switch {
	case !wanted:
		add(t.most, queue, sign*n)
	case n == 0:
		add(t.most, queue, sign)
	default:
		add(t.most, queue, sign*n)
		add(t.least, queue, sign*n)
	}
	if !m.left && wanted != (n == 1) || n > 1 {
		t.unsettled += sign
	}
}

func add(counts map[string]int, queue string, n int) {
	if counts[queue] += n; counts[queue] == 0 {
		delete(counts, queue)
	}
}

// quiet reports whether every attachment is where it is to be.
func (g *Group) quiet() bool { return g.tally.unsettled == 0 && len(g.leaving) == 0 }

// dropLeft forgets attachments whose end nobody has reported in time.
func (g *Group) dropLeft() {
	for m, left := range g.leaving {
		if time.Since(left) >= leavingMaxAge {
			g.tally.all(m, -1)
			delete(g.leaving, m)
		}
	}
}

// requireUnused returns an error unless no shard has any consumer in the broker, and
// none of another proxy's waits for its turn.
func (g *Group) requireUnused(ctx context.Context) error {
	if g.seat.elsewhere != nil && g.seat.elsewhere() > 0 {
		return g.inExclusiveUse()
	}
	counts, err := g.seat.counts(ctx)
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
