package router

import (
	"slices"

	"github.com/shardmq/shardmq/shards"
)

// Retarget gives a consumer the shards it shall cover from now on. Targets of an older version are ignored.
func (c *Conn) Retarget(channel uint16, consumer uint64, t shards.Target) {
	ch := c.channel(channel)
	if ch == nil {
		return
	}
	for _, k := range ch.consumers {
		if k.id == consumer && c.aim(k, t) {
			ch.dirty = true
		}
	}
	c.kick(ch)
}

// aim has a consumer go by a target unless it knows a newer one, and reports whether that changes anything. The group hears at once: from
// now on nothing is claimed that the target does not name, and what it does not name is given back attachment by attachment.
func (c *Conn) aim(k *consumer, t shards.Target) (changed bool) {
	if k.left {
		return false
	}
	if changed = t.Version > k.target.Version; changed {
		k.target = t
		for _, a := range k.atts {
			if a.lent && k.covers(a.queue) {
				c.adopt(a)
			}
		}
	}
	if k.member == nil {
		return changed // told before Join was answered
	}
	if k.target.Version > k.aimed {
		k.aimed = k.target.Version
		c.asks = append(c.asks, Ask{Kind: AskAimed, Member: k.member, Version: k.aimed})
	}
	c.setLender(k, k.mayLend(k.x.State().Covered()))
	return changed
}

// covers reports whether the consumer's target names the shard.
func (k *consumer) covers(queue string) bool {
	_, ok := slices.BinarySearch(k.target.Shards, queue)
	return ok
}

// on returns the consumer's attachment on a shard, nil for none.
func (k *consumer) on(queue string) *attachment {
	for _, a := range k.atts {
		if a.queue == queue {
			return a
		}
	}
	return nil
}

// kick starts the move of attachments that the channel's consumers are owed, if the channel is quiet.
func (c *Conn) kick(ch *channel) {
	if !ch.dirty || !ch.quiet() || c.blocked || c.state != connOpen {
		return // tried again when that changes
	}
	if c.fence(ch) {
		return // and then again
	}
	ch.dirty = false
	var drop []*attachment
	var next *consumer
	for _, tag := range sortedTags(ch) {
		k := ch.consumers[tag]
		drop = append(drop, k.surplus()...)
		if k.missing() && next == nil {
			next = k
		}
		c.setRotating(k, k.turns())
	}
	if len(drop) == 0 && next == nil {
		return
	}
	c.start(ch, 0, func(o *op) {
		c.detach(ch, o, drop, func() { c.attachNext(ch, o) })
	})
}

func sortedTags(ch *channel) []string {
	tags := make([]string, 0, len(ch.consumers))
	for t := range ch.consumers {
		tags = append(tags, t)
	}
	slices.Sort(tags)
	return tags
}

// wanted is how many attachments the consumer would hold with room for all but those that rest.
func (k *consumer) wanted() int {
	n := len(k.target.Shards) - k.rests() + len(k.wish)
	for _, a := range k.atts {
		if a.lent && !a.yield {
			n++
		}
	}
	return n
}

// surplus lists the attachments to end: outside the target unless lent, giving way to another shard, or holding so much of the
// prefetch that shards of the target get none.
func (k *consumer) surplus() []*attachment {
	var out []*attachment
	want := k.wanted()
	if k.prefetch > 0 {
		want = min(want, k.prefetch)
	}
	keep, freed := 0, 0
	for _, a := range k.atts {
		if a.yield || !k.covers(a.queue) && (!a.lent || k.target.Ordered) {
			out = append(out, a)
			freed += a.limit - a.unacked
		} else {
			keep++
		}
	}
	if k.prefetch == 0 || want == 0 {
		return out
	}
	share := k.prefetch / want
	need := want - keep                      // new attachments, each wants at least 1
	spare := k.room() + freed - max(need, 0) // for larger shares
	for _, a := range k.atts {
		idle := a.limit - a.unacked
		grow := k.cramped(a) && spare+idle >= 2*a.limit // else it would be as small again, and that at each acknowledgement
		if slices.Contains(out, a) || !(grow || (k.room()+freed < need && a.limit > share)) {
			continue
		}
		if grow {
			spare -= 2*a.limit - idle
		}
		out = append(out, a)
		freed += idle
		need++
	}
	return out
}

// cramped reports whether the attachment is due at least twice its part of the prefetch: others of the consumer's have gone.
func (k *consumer) cramped(a *attachment) bool {
	return k.prefetch > 0 && 2*a.limit <= k.prefetch/min(max(k.wanted(), 1), k.prefetch)
}

// turns reports whether the consumer is to be looked at in turns: it has shards without attachment, or too little prefetch for one.
func (k *consumer) turns() bool {
	return !k.left && (k.scattered() || k.full(0))
}

// scattered reports whether that is so whatever the client does.
func (k *consumer) scattered() bool {
	return k.starved || slices.ContainsFunc(k.atts, k.cramped)
}

// missing reports whether a shard that the consumer should be on, and that does not rest, has no attachment though the prefetch has room.
func (k *consumer) missing() bool {
	n := 0
	for _, a := range k.atts {
		if k.covers(a.queue) {
			n++
		}
	}
	k.starved = n < len(k.target.Shards) && !k.leaving
	return (k.starved && n < len(k.target.Shards)-k.rests() || len(k.wish) > 0) && (k.prefetch == 0 || k.room() > 0)
}

// attachNext attaches, consumer by consumer, what is missing; the running op ends with the last.
func (c *Conn) attachNext(ch *channel, o *op) {
	for _, tag := range sortedTags(ch) {
		k := ch.consumers[tag]
		if k.missing() && !k.tried && !c.blocked { // a blocked broker would not answer
			k.tried = true
			o.answer = func(r Answer) {
				if c.blocked {
					c.moved(ch)
					return
				}
				c.attachTo(ch, o, k, r, func() { c.attachNext(ch, o) })
			}
			c.ask(ch, o, Ask{Kind: AskCounts, Exchange: k.x})
			return
		}
	}
	c.moved(ch)
}

// moved ends a move. Consumers that still lack shards, for want of room or because their shards are not there now or still consumed by
// others, are looked at in turns.
func (c *Conn) moved(ch *channel) {
	for _, k := range ch.consumers {
		k.tried = false
		k.wish = nil
		k.missing()
		c.setRotating(k, k.turns())
	}
	ch.dirty = ch.dirty || c.blocked
	c.finish(ch)
}
