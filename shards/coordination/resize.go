package coordination

import (
	"slices"
	"time"
)

// judge decides by which spec an exchange goes. The first one that is wanted
// counts. Later a spec is adopted that a proxy changes over to while it runs: it
// was reconfigured. One that a proxy brings along counts unless it was superseded:
// proxies that reload one after the other, or start with a file that is out of
// date, do not undo a change, unless all want it.
//
// While shards are being unbound or deleted nothing is adopted: should one be
// wanted again, no proxy may bind it before that is over, and one that is gone is
// to be made anew.
func (c *Core) judge(exchange string) {
	if w := c.lead.works[exchange]; w != nil && w.effect.id != 0 && (w.effect.kind == RemoveEffect || w.effect.kind == RetireEffect) {
		return
	}
	for _, m := range c.live() {
		r, ok := m.report[exchange]
		if !ok || len(r.Want.Shards) == 0 {
			continue
		}
		key, judged := m.keys[exchange], m.judged[exchange]
		m.judged[exchange] = key
		l := c.layoutOf(exchange)
		switch {
		case l == nil:
			c.relayout(exchange, firstLayout(r.Want))
		case l.Key == key:
		case judged != "" && judged != key, judged == "" && !slices.Contains(l.Superseded, key), c.allWant(exchange, key):
			c.log("the shards of an exchange change", "exchange", exchange, "wanted_by", m.id, "shards", len(r.Want.Shards))
			c.relayout(exchange, l.adopt(r.Want))
		}
	}
}

// allWant reports whether every live proxy with an opinion wants that spec.
func (c *Core) allWant(exchange, key string) bool {
	for _, m := range c.live() {
		if r, ok := m.report[exchange]; ok && len(r.Want.Shards) > 0 && m.keys[exchange] != key {
			return false
		}
	}
	return true
}

// judged notes, at a follower, that the leader has decided on everything that was
// reported so far. Should this proxy lead, what changed later is a change.
func (c *Core) noteJudged() {
	for _, m := range c.live() {
		for exchange, key := range m.keys {
			m.judged[exchange] = key
		}
	}
}

// tickLayouts takes every exchange one step on to the shards it shall have.
func (c *Core) tickLayouts() {
	for _, name := range sortedKeys(c.known.Exchanges) {
		e, w := c.known.Exchanges[name], c.work(name)
		if c.outlived(name, e, w) {
			delete(c.known.Exchanges, name)
			delete(c.lead.works, name)
			c.changed()
			continue
		}
		c.stepDue(name, e, w)
	}
	c.flushStore()
}

// stepDue takes an exchange one step on unless something has to be waited for.
func (c *Core) stepDue(name string, e *Entry, w *work) {
	switch {
	case !c.settled(name), e.Paused && c.impatient(name, e, w):
	case w.effect.id == 0 && c.now >= w.effect.backoff.next:
		c.step(name, e, w)
	}
}

// outlived reports whether an exchange can be forgotten: nobody has reported it
// for long, and no shard waits for anything.
func (c *Core) outlived(name string, e *Entry, w *work) bool {
	for _, m := range c.live() {
		if _, ok := m.report[name]; ok {
			w.unreported = 0
			return false
		}
	}
	if w.unreported == 0 {
		w.unreported = c.now + 1
	}
	return c.now-w.unreported >= c.t.Forget && e.Next == nil && len(e.Old) == 0
}

// step does the next thing that is due for an exchange's shards.
func (c *Core) step(name string, e *Entry, w *work) {
	if strays := c.strays(name, e); len(strays) > 0 {
		c.relayout(name, e.strays(strays))
		return
	}
	if e.Next != nil {
		if w.prepared != e.Generation+1 {
			c.begins(name, w, PrepareEffect, e.Next)
			return
		}
		prepared := c.allPrepared(name, e)
		switch {
		case e.Barrier && (prepared || e.Paused):
			if c.stepBarrier(name, e, w, prepared) {
				return
			}
		case prepared:
			c.log("publishes go by other shards now", "exchange", name, "generation", e.Generation+1)
			c.relayout(name, e.switched())
			return
		}
	}
	c.stepOld(name, e, w)
}

// allPrepared reports whether every proxy that publishes can go over to Next.
func (c *Core) allPrepared(name string, e *Entry) bool {
	for _, m := range c.live() {
		if r, ok := m.report[name]; ok && m.publishes(name) && r.Prepared <= e.Generation {
			return false
		}
	}
	return true
}

// publishes reports whether a proxy publishes to an exchange.
func (m *member) publishes(exchange string) bool {
	return m.report[exchange].Routing > 0 || len(m.own[exchange]) > 0
}

// strays lists shards that proxies have come to publish to on their own, or have
// found at the broker.
func (c *Core) strays(exchange string, e *Entry) []Shard {
	var strays []Shard
	for _, m := range c.live() {
		strays = append(strays, m.own[exchange]...)
		strays = append(strays, m.report[exchange].Found...)
	}
	var bound []Shard
	for _, old := range e.Old {
		if old.Phase != Closing {
			bound = append(bound, old.Shard)
		}
	}
	return without(union(strays), e.Set, e.Next, bound)
}

// begins has the topologist do something.
func (c *Core) begins(name string, w *work, kind EffectKind, shards []Shard) {
	e := c.known.Exchanges[name]
	w.effect.id, w.effect.kind, w.effect.shards, w.effect.generation = c.nextID(), kind, shards, e.Generation
	c.emit(Output{Kind: EffectOutput, ID: w.effect.id, Exchange: name, Effect: kind, Shards: shards})
}

// Awaits reports whether an EffectOutput is still to be carried out. Some have to wait
// for their turn; who leads no more by then, or was stopped, must not unbind or delete
// what others decide on.
func (c *Core) Awaits(now time.Duration, id uint64, exchange string) bool {
	if s := c.local.sweeps[exchange]; s != nil && s.id == id {
		return true
	}
	return c.leading() && !c.stopped(now) && c.lead.works[exchange] != nil && c.lead.works[exchange].effect.id == id
}

// Done says what came of an EffectOutput.
func (c *Core) Done(now time.Duration, id uint64, exchange string, o Outcome) {
	c.at(now)
	if c.local.swept(c, id, exchange, o) || c.lead == nil {
		return
	}
	e, w := c.known.Exchanges[exchange], c.lead.works[exchange]
	if e == nil || w == nil || w.effect.id != id {
		return
	}
	w.effect.id = 0
	if o.Err != nil {
		if w.effect.backoff.pause == 0 {
			c.log("shards cannot be changed yet", "exchange", exchange, "error", o.Err)
		}
		w.effect.backoff.failed(now, c.t)
	} else {
		w.effect.backoff.worked()
		// What is not taken note of, while reports are collected, is done again.
		if c.leading() && w.effect.generation == e.Generation && c.settled(exchange) {
			c.finished(exchange, e, w, o)
		}
	}
	if c.leading() {
		c.decide([]string{exchange}) // what waited for this
		c.tickLayouts()
	}
}

// finished goes on from an effect that worked. The layout is still the one it was
// begun for, but for shards that were wanted again.
func (c *Core) finished(name string, e *Entry, w *work, o Outcome) {
	shards := w.effect.shards
	switch w.effect.kind {
	case PrepareEffect:
		w.prepared = e.Generation + 1
	case RetireEffect:
		c.relayout(name, e.moved(shards, Unbound))
	case IdleEffect:
		if !o.OK {
			w.due[shards[0].Queue] = c.now + c.t.RetryMost
			return
		}
		c.relayout(name, e.moved(shards, Closing))
	case RemoveEffect:
		if o.OK {
			c.log("a shard is gone", "exchange", name, "queue", shards[0].Queue)
			c.relayout(name, e.removed(shards[0].Queue))
			return
		}
		// Somebody has been quicker, or uses it past the proxies. Its consumers get it
		// back, and are not to lose it every minute for nothing.
		w.pauses[shards[0].Queue] = min(max(2*w.pauses[shards[0].Queue], c.t.Drain), c.t.Forget)
		c.relayout(name, e.moved(shards, Unbound))
	case LoadsEffect:
		c.looked(name, e, w, o.Loads)
	case UncoveredEffect:
	}
}
