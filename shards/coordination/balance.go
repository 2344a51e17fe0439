package coordination

import (
	"cmp"
	"slices"
)

// candidate is a consumer that a leader has in its table.
type candidate struct {
	consumerKey
	ConsumerReport
	sight   uint64
	applied Stamp // by its proxy
	granted []string
	wanted  []string
}

// balance decides who consumes an exchange's shards: first the goal, then which
// part of it may be granted already.
//
// While every shard has one owner, a shard is granted to a consumer once nobody
// else may hold it. With more consumers than live shards it is enough that a shard is
// never left alone: its last consumer is taken off when another has it for sure.
func (c *Core) balance(exchange string) {
	e := c.known.Exchanges[exchange]
	if e == nil {
		return
	}
	w := c.work(exchange)
	cs := c.candidates(exchange, e, w)
	shards := e.consumed()
	next := c.known.Version + 1
	reclaimed := e.Ordered && c.reclaim(exchange, e, w, cs, next)
	single, exclusive := w.aim(shards, e.leaving(shards), cs, e.Ordered)
	if w.barrier.sealed {
		for _, k := range cs {
			k.wanted = nil // for a moment; the goal stays
		}
	}
	g := granting{w: w, cs: cs, shards: shards, single: single, ordered: e.Ordered, ballot: c.known.Ballot, version: next}
	g.index()
	if g.run() || reclaimed || exclusive != e.Exclusive {
		c.changed()
		e.Exclusive = exclusive
		for _, k := range g.changed {
			e.Grants.set(k.consumerKey, k.granted)
		}
		e.Moves += g.moves
	}
	w.waiting = g.waiting
	c.applyOwn(exchange)
}

// candidates lists all consumers that may hold anything, by first sight, and
// forgets those that are gone.
func (c *Core) candidates(exchange string, e *Entry, w *work) []*candidate {
	var cs []*candidate
	there := make(map[consumerKey]bool)
	for _, m := range c.live() {
		r, ok := m.report[exchange]
		if !ok {
			continue
		}
		for _, consumer := range r.Consumers {
			k := consumerKey{m.id, consumer.ID}
			if there[k] {
				continue
			}
			there[k] = true
			cs = append(cs, &candidate{
				consumerKey: k, ConsumerReport: consumer, sight: m.sight[exchange][consumer.ID],
				applied: m.applied, granted: e.Grants[m.id][consumer.ID],
			})
		}
	}
	slices.SortFunc(cs, func(a, b *candidate) int { return cmp.Compare(a.sight, b.sight) })
	c.forgetGone(e, w, there)
	return cs
}

// forgetGone drops what is remembered of consumers that no proxy reports: what
// they held has been released, or their proxy would report them as left.
func (c *Core) forgetGone(e *Entry, w *work, there map[consumerKey]bool) {
	gone := false
	for proxy, consumers := range e.Grants {
		for id := range consumers {
			if k := (consumerKey{proxy, id}); !there[k] {
				gone = true
				delete(consumers, id)
			}
		}
		if len(consumers) == 0 {
			delete(e.Grants, proxy)
		}
	}
	w.forget(func(k consumerKey) bool { return !there[k] })
	if gone {
		c.changed()
	}
}

// aim finds the goal anew; leaving says of shards which are only drained. It reports
// whether every shard is to have one owner, and the proxy of an exclusive consumer.
func (w *work) aim(shards []Shard, leaving []bool, cs []*candidate, ordered bool) (single bool, proxy string) {
	var in []*candidate
	var exclusive *candidate
	for _, k := range cs {
		if k.Left {
			delete(w.goal, k.consumerKey)
			continue
		}
		in = append(in, k)
		if k.Exclusive && exclusive == nil {
			exclusive = k
		}
	}
	if exclusive != nil {
		for _, k := range in {
			delete(w.goal, k.consumerKey)
		}
		in, proxy = []*candidate{exclusive}, exclusive.proxy
	}
	place := make(map[string]int, len(shards))
	for i, shard := range shards {
		place[shard.Queue] = i
	}
	for i, queues := range AssignLeaving(shards, leaving, w.consumers(in, place), ordered) {
		names := make([]string, len(queues))
		for j, at := range queues {
			names[j] = shards[at].Queue
		}
		in[i].wanted = names
		w.goal[in[i].consumerKey] = names
	}
	live := len(shards)
	for _, is := range leaving {
		if is {
			live--
		}
	}
	return ordered || len(in) <= live, proxy
}

// consumers says of each what it had better keep: its part of the goal, and what
// it holds that is nobody's.
func (w *work) consumers(in []*candidate, place map[string]int) []Consumer {
	taken := make([]bool, len(place))
	for _, k := range in {
		for _, queue := range w.goal[k.consumerKey] {
			if at, ok := place[queue]; ok {
				taken[at] = true
			}
		}
	}
	consumers := make([]Consumer, len(in))
	for i, k := range in {
		consumers[i].Node = k.Node
		for _, queue := range w.goal[k.consumerKey] {
			if at, ok := place[queue]; ok {
				consumers[i].Held = append(consumers[i].Held, at)
			}
		}
		for _, queue := range k.Held {
			if at, ok := place[queue]; ok && !taken[at] {
				consumers[i].Held = append(consumers[i].Held, at)
			}
		}
	}
	return consumers
}
