package coordination

import (
	"fmt"
	"slices"
	"time"
)

// barrier is how far a leader has taken an exchange to another set of shards
// without messages of one key overtaking each other:
//
//	prepared ──▶ paused ──all have fenced──▶ looked at until empty ──▶ sealed ──all settled, still empty──▶ switched
//	                │                             ▲                      │
//	                │                             └── one has come back ─┘
//	                └── Patience is over, wherever that is ──▶ not paused, tried again later
//
// Sealed is that no consumer has a target. A message that is on its way to a
// consumer is in no count: the end of every attachment tells that there is none,
// and what was given out is settled when all shards have been released.
type barrier struct {
	since  time.Duration // when this leader saw the pause first; 0 = there is none
	retry  time.Duration // no pause is begun before
	fenced time.Duration // since when all proxies have fenced; 0 = not all have
	look   time.Duration // when to look at the shards again
	sealed bool
	sealer uint64 // version by which targets were taken away
	first  bool   // no look has been made since everything was settled
	clear  bool   // everything was settled when the look under way began
	filled string // a queue that was not empty at the last look
	manned string // one that still had consumers
}

// stepBarrier does what is next for an exchange whose shards are about to be
// replaced, and reports whether the old ones have to wait for it. prepared: all
// proxies can go over.
func (c *Core) stepBarrier(name string, e *Entry, w *work, prepared bool) (busy bool) {
	b := &w.barrier
	settled := b.sealed && c.unsettled(name, b.sealer) == ""
	switch {
	case !e.Paused && c.now < b.retry:
		return false
	case !e.Paused:
		c.log("publishes pause until all shards are empty", "exchange", name, "generation", e.Generation+1)
		c.relayout(name, e.paused(true))
	case !prepared || c.unfenced(name, e, w) != "":
		b.fenced = 0
	case b.fenced == 0:
		b.fenced = c.now
	case c.now-b.fenced < c.t.Settle:
	case c.now < b.look && !(settled && b.first):
	default:
		b.clear = settled
		b.first = b.first && !settled
		c.begins(name, w, LoadsEffect, e.consumed())
	}
	return true
}

// looked goes on from a look at the shards.
func (c *Core) looked(name string, e *Entry, w *work, loads []Load) {
	b := &w.barrier
	if !e.Paused || len(loads) != len(w.effect.shards) {
		return
	}
	b.look = c.now + c.t.Announce/4
	b.filled, b.manned = "", ""
	for i, shard := range w.effect.shards {
		if loads[i].Ready > 0 {
			b.filled = shard.Queue
		}
		if loads[i].Consumers > 0 {
			b.manned = shard.Queue
		}
	}
	switch {
	case b.filled != "" && b.sealed:
		b.sealed = false
		c.balance(name)
	case b.filled != "":
	case !b.sealed:
		b.sealed, b.first = true, true
		c.balance(name)
		b.sealer = c.known.Version
	case b.clear && b.manned == "" && c.mayPass(name, e, w):
		c.log("publishes go by other shards now, and go on", "exchange", name, "generation", e.Generation+1, "paused_for", c.now-b.since)
		c.relayout(name, e.switched())
	}
	c.sendState(false)
}

// mayPass reports whether what was found at a look still holds.
func (c *Core) mayPass(name string, e *Entry, w *work) bool {
	return c.allPrepared(name, e) && c.unfenced(name, e, w) == "" && c.unsettled(name, w.barrier.sealer) == "" &&
		len(without(e.consumed(), w.effect.shards)) == 0
}

// impatient ends a pause that has lasted too long, and reports whether it did.
func (c *Core) impatient(name string, e *Entry, w *work) bool {
	b := &w.barrier
	if b.since == 0 {
		b.since = c.now
	}
	if c.now-b.since < c.t.Patience {
		return false
	}
	c.log("the shards of an exchange cannot be changed in order yet, publishes go on by the present ones",
		"exchange", name, "waits_for", c.waitsFor(name, e, w), "again_in", c.t.Patience)
	*b = barrier{retry: c.now + c.t.Patience}
	c.relayout(name, e.paused(false))
	c.balance(name)
	return true
}

// waitsFor says what keeps an exchange from passing its barrier.
func (c *Core) waitsFor(name string, e *Entry, w *work) string {
	b := &w.barrier
	if proxy := c.unfenced(name, e, w); proxy != "" {
		return "proxy " + proxy + ", which has not said that all it has published is in the shards"
	}
	switch {
	case !c.allPrepared(name, e):
		return "a proxy that has not bound the new shards"
	case b.filled != "":
		return fmt.Sprintf("queue '%s', which has messages", b.filled)
	case b.sealed && c.unsettled(name, b.sealer) != "":
		return c.unsettled(name, b.sealer)
	case b.manned != "":
		return fmt.Sprintf("queue '%s', which is consumed though no proxy does", b.manned)
	}
	return "an answer of the broker"
}

// unfenced returns the first proxy that may still publish, "" if there is none.
// One that does not publish yet must have applied the pause.
func (c *Core) unfenced(name string, e *Entry, w *work) string {
	for _, m := range c.live() {
		r, ok := m.report[name]
		if !ok {
			continue
		}
		if !c.hasApplied(m, w.relaid) || m.publishes(name) && r.Fenced != e.Generation+1 {
			return m.id
		}
	}
	return ""
}

// unsettled says which proxy has not let go of everything since a version, and of
// what; "" if all have.
func (c *Core) unsettled(exchange string, version uint64) string {
	for _, m := range c.live() {
		r, ok := m.report[exchange]
		if !ok {
			continue
		}
		if !c.hasApplied(m, version) {
			return "proxy " + m.id
		}
		for _, queue := range sortedKeys(r.Unsettled) {
			if r.Unsettled[queue] > 0 {
				return fmt.Sprintf("messages of queue '%s' that were delivered through proxy %s and are not acknowledged", queue, m.id)
			}
		}
		if slices.ContainsFunc(r.Consumers, func(k ConsumerReport) bool { return len(k.Held) > 0 }) {
			return "consumers of proxy " + m.id
		}
	}
	return ""
}

// hasApplied reports whether a proxy goes by that version of this leader's.
func (c *Core) hasApplied(m *member, version uint64) bool {
	return m.applied.reached(c.known.Ballot, version)
}

// hurry takes paused exchanges on at once when there is news: publishers wait.
func (c *Core) hurry(exchanges []string) {
	for _, name := range exchanges {
		if e := c.known.Exchanges[name]; e != nil && e.Paused {
			c.stepDue(name, e, c.work(name))
			c.flushStore()
		}
	}
}
