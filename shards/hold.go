package shards

import (
	"slices"
	"time"
)

// settleFor bounds, where order is not promised, how long a shard is held for
// messages that a consumer which has ended there has not settled: a client that
// never acknowledges must not keep the shard from the others.
const settleFor = time.Second

// holds is what keeps a member's shards from being granted to others, besides
// what the plan grants it. Guarded by the group's lock.
type holds struct {
	// former are queues of earlier targets that the member may still begin to
	// consume, and the version of the first target without it: until the member
	// goes by that one.
	former map[string]uint64
	claims map[string]*claim
	list   []string // of all that is held, sorted; valid while fresh
	fresh  bool
}

// claim is what a member does on one queue, from before it asks the broker until
// the consumer has ended and all it was given is settled.
type claim struct {
	own, lent int
	ended     int // of own, those whose consumer has ended at the broker
	overdue   int // of ended, those that ended longer than settleFor ago
	timer     *time.Timer
}

// Claim reports that the member is about to consume a shard queue, before the
// broker is asked: until Released the shard is held. Lent says that the shard is
// another's, and the member only helps out.
func (m *Member) Claim(queue string, lent bool) {
	m.change(queue, func(g *Group) {
		c := m.holds.claims[queue]
		if c == nil {
			c = &claim{}
			if m.holds.claims == nil {
				m.holds.claims = make(map[string]*claim)
			}
			m.holds.claims[queue] = c
		}
		if lent {
			c.lent++
		} else {
			c.own++
		}
		add(g.claimed, queue, 1)
		if m.left {
			g.gone[m] = true
		}
	})
}

// Released reports that what Claim announced is over: the consumer has ended, or
// never began, and every message it was given is settled.
func (m *Member) Released(queue string, lent bool) {
	m.change(queue, func(g *Group) {
		c := m.holds.claims[queue]
		switch {
		case c == nil || lent && c.lent == 0 || !lent && c.own == 0:
			return
		case lent:
			c.lent--
		default:
			c.own--
			c.ended = max(c.ended-1, 0)
			c.overdue = max(c.overdue-1, 0)
		}
		add(g.claimed, queue, -1)
		if c.ended == 0 && c.timer != nil {
			c.timer.Stop()
			c.timer = nil
		}
		if c.own+c.lent == 0 {
			delete(m.holds.claims, queue)
		}
		if len(m.holds.claims) == 0 {
			delete(g.gone, m)
		}
	})
}

// Aimed reports that the member goes by the target of that version: it claims
// nothing any more that only earlier targets had.
func (m *Member) Aimed(version uint64) {
	g := m.g
	g.mu.Lock()
	changed := false
	for queue, without := range m.holds.former {
		if without <= version {
			before := g.held(m, queue)
			delete(m.holds.former, queue)
			changed = changed || before != g.held(m, queue)
		}
	}
	if changed {
		g.touch(m)
	}
	g.mu.Unlock()
	if changed && !m.one() {
		g.changed()
	}
}

// Attached reports that the member's consumers on a shard queue, as the broker
// sees them, have become more or fewer by delta: +1 at consume-ok, -1 at
// cancel-ok or when the broker cancels. Reports are welcome after Leave too; what
// a member that left never reports ended is forgotten a little later.
func (m *Member) Attached(queue string, delta int) {
	g := m.g
	g.mu.Lock()
	defer g.mu.Unlock()
	_, leaving := g.leaving[m]
	counts := !m.left || leaving
	if counts {
		g.tally.one(m, queue, -1)
	}
	m.attached[queue] += delta
	if m.attached[queue] <= 0 {
		delete(m.attached, queue)
	}
	if counts {
		g.tally.one(m, queue, 1)
	}
	if m.left && len(m.attached) == 0 {
		delete(g.leaving, m)
	}
	if delta < 0 {
		g.ended(m, queue)
	}
}

// ended has a claim whose consumer has ended hold its shard for a while only.
func (g *Group) ended(m *Member, queue string) {
	c := m.holds.claims[queue]
	if c == nil || c.ended >= c.own || m.one() {
		return
	}
	c.ended++
	if c.timer == nil {
		c.timer = time.AfterFunc(settleFor, func() { g.seat.spawn(func() { m.overdue(queue, c) }) })
	}
}

// overdue gives a shard up whose messages have not been settled in time.
func (m *Member) overdue(queue string, c *claim) {
	m.change(queue, func(*Group) { c.overdue, c.timer = c.ended, nil })
}

// change runs fn, and has the coordination look at it if the member holds the
// queue no more, or anew.
func (m *Member) change(queue string, fn func(*Group)) {
	g := m.g
	g.mu.Lock()
	before := g.held(m, queue)
	fn(g)
	changed := before != g.held(m, queue)
	if changed {
		g.touch(m)
	}
	g.reported.stale = true // the claims are in it too
	g.mu.Unlock()
	if changed && !m.one() {
		g.changed()
	}
}

// held reports whether m keeps a shard from others. Where order is promised that
// goes on until everything is settled.
func (g *Group) held(m *Member, queue string) bool {
	if !m.left {
		if slices.Contains(m.granted, queue) || slices.Contains(m.target.Shards, queue) {
			return true
		}
		if _, former := m.holds.former[queue]; former {
			return true
		}
	}
	c := m.holds.claims[queue]
	return c != nil && c.holds(g.ordered())
}

func (c *claim) holds(ordered bool) bool {
	if ordered {
		return c.own > 0
	}
	return c.own > c.overdue
}

// helping returns, per queue, how many consumers members have there only to help
// out, those included that the broker does not know of yet.
func (g *Group) helping() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	helping := make(map[string]int)
	count := func(m *Member) {
		for queue, c := range m.holds.claims {
			if c.lent > 0 {
				helping[queue] += c.lent
			}
		}
	}
	for _, m := range g.members {
		count(m)
	}
	for m := range g.gone {
		count(m)
	}
	return helping
}

// ordered reports whether a shard may have one consumer at most.
func (g *Group) ordered() bool { return g.plan != nil && g.plan.Ordered }

// touch has what m holds computed anew. g.mu is held.
func (g *Group) touch(m *Member) {
	m.holds.fresh = false
	g.reported.stale = true
}

// heldBy returns all that m holds, sorted; not to be modified.
func (g *Group) heldBy(m *Member) []string {
	if m.holds.fresh {
		return m.holds.list
	}
	var list []string
	if !m.left {
		list = append(list, m.granted...)
		list = append(list, m.target.Shards...)
		for queue := range m.holds.former {
			list = append(list, queue)
		}
	}
	for queue, c := range m.holds.claims {
		if c.holds(g.ordered()) {
			list = append(list, queue)
		}
	}
	slices.Sort(list)
	m.holds.list, m.holds.fresh = slices.Compact(list), true
	return m.holds.list
}
