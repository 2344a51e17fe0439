package coordination

import "slices"

// stepOld does the next thing that is due for shards on their way out.
func (c *Core) stepOld(name string, e *Entry, w *work) {
	if bound := e.in(Bound); len(bound) > 0 && c.allRouted(name, e, w) {
		c.begins(name, w, RetireEffect, bound)
		return
	}
	for _, old := range e.Old {
		if old.Phase == Closing && c.released(name, old.Queue, w) {
			c.begins(name, w, RemoveEffect, []Shard{old.Shard})
			return
		}
	}
	if old := c.dueOld(e, w); old != nil {
		c.begins(name, w, IdleEffect, []Shard{old.Shard})
	}
}

// dueOld returns the unbound shard that is to be looked at first, nil if none is
// yet. Some may stay as they are for ever, and must not keep others from their turn.
func (c *Core) dueOld(e *Entry, w *work) (first *OldShard) {
	for i := range e.Old {
		old := &e.Old[i]
		if old.Phase != Unbound {
			continue
		}
		due, known := w.due[old.Queue]
		if !known {
			w.due[old.Queue] = c.now + max(c.t.Drain, w.pauses[old.Queue])
			continue
		}
		if c.now >= due && (first == nil || due < w.due[first.Queue]) {
			first = old
		}
	}
	return first
}

// allRouted reports whether every proxy has long enough been publishing by the
// present generation. One that does not publish yet must have applied it, lest it
// begin by a former one.
func (c *Core) allRouted(name string, e *Entry, w *work) bool {
	for _, m := range c.live() {
		r, ok := m.report[name]
		if !ok {
			continue
		}
		over := r.Routing >= e.Generation
		if !m.publishes(name) {
			over = c.hasApplied(m, w.relaid)
		}
		if !over {
			w.routed = 0
			return false
		}
	}
	if w.routed == 0 {
		w.routed = c.now
	}
	return c.now-w.routed >= c.t.Grace
}

// released reports whether all proxies have let go of a closing shard.
func (c *Core) released(exchange, queue string, w *work) bool {
	version, known := w.closing[queue]
	if !known {
		w.closing[queue] = c.known.Version
		return false
	}
	for _, m := range c.live() {
		r, ok := m.report[exchange]
		if !ok {
			continue
		}
		if !c.hasApplied(m, version) || r.Unsettled[queue] > 0 {
			return false
		}
		for _, consumer := range r.Consumers {
			if slices.Contains(consumer.Held, queue) {
				return false
			}
		}
	}
	return true
}
