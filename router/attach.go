package router

import (
	"slices"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
)

// kick starts the move of attachments that the channel's consumers are owed, if the channel is quiet.
func (c *Conn) kick(ch *channel) {
	if !ch.dirty || !ch.quiet() || c.blocked || c.state != connOpen {
		return // tried again when that changes
	}
	ch.dirty = false
	var drop []*attachment
	var next *consumer
	for _, tag := range sortedTags(ch) {
		k := ch.consumers[tag]
		drop = append(drop, k.surplus()...)
		if k.missing() && (next == nil) {
			next = k
		}
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

// surplus lists the attachments to end: outside the target, giving way to another shard, or holding so much of the
// prefetch that shards of the target get none.
func (k *consumer) surplus() []*attachment {
	var out []*attachment
	want := len(k.target.Shards)
	if k.prefetch > 0 {
		want = min(want, k.prefetch)
	}
	keep, freed := 0, 0
	for _, a := range k.atts {
		if a.yield || !slices.Contains(k.target.Shards, a.queue) {
			out = append(out, a)
			freed += a.limit - a.unacked
		} else {
			keep++
		}
	}
	if k.prefetch == 0 || want == 0 {
		return out
	}
	share := (k.prefetch + want - 1) / want
	need := want - keep // new attachments, each wants at least 1
	for _, a := range k.atts {
		idle := a.limit - a.unacked
		grow := a.limit*2 <= k.prefetch/want // a partner has left: a larger share is due
		if slices.Contains(out, a) || !(grow || (k.room()+freed < need && a.limit > share)) {
			continue
		}
		out = append(out, a)
		freed += idle
		need++
	}
	return out
}

// missing reports whether a shard of the target has no attachment though the prefetch has room.
func (k *consumer) missing() bool {
	n := 0
	for _, a := range k.atts {
		if slices.Contains(k.target.Shards, a.queue) {
			n++
		}
	}
	lacks := n < len(k.target.Shards) && !k.leaving
	k.starved = lacks
	return lacks && (k.prefetch == 0 || k.room() > 0)
}

// attachNext attaches, consumer by consumer, what is missing; the running op ends with the last.
func (c *Conn) attachNext(ch *channel, o *op) {
	for _, tag := range sortedTags(ch) {
		k := ch.consumers[tag]
		if k.missing() && !k.tried {
			k.tried = true
			o.answer = func(r Answer) { c.attachTo(ch, o, k, r, func() { c.attachNext(ch, o) }) }
			c.ask(ch, o, Ask{Kind: AskCounts, Exchange: k.x})
			return
		}
	}
	c.moved(ch)
}

// moved ends a move. Consumers that still lack shards, for want of room or because their shards are not there now, are looked at in turns.
func (c *Conn) moved(ch *channel) {
	for _, k := range ch.consumers {
		k.tried = false
		c.setRotating(k, k.starved)
	}
	c.finish(ch)
}

// postpone ends a move for which the topology could not be asked. No client waits for it: it is made when the topology answers again.
func (c *Conn) postpone(ch *channel) {
	for _, k := range ch.consumers {
		k.missing()
	}
	c.moved(ch)
}

// attachFirst makes the first attachments of a consumer that has just joined its group.
func (c *Conn) attachFirst(ch *channel, o *op, k *consumer, r Answer) {
	k.confirm = true
	c.attachTo(ch, o, k, r, func() {
		c.confirmConsume(ch, k) // also when there was no room for any attachment
		k.missing()
		c.setRotating(k, k.starved)
		c.finish(ch)
	})
}

// confirmConsume sends the client's consume-ok, once.
func (c *Conn) confirmConsume(ch *channel, k *consumer) {
	if k.confirm && !k.consume.NoWait {
		c.sendDown(ch, &frames.BasicConsumeOk{ConsumerTag: k.tag})
	}
	k.confirm = false
}

// attachTo attaches the consumer to the missing shards of its target, as many as its prefetch has room for, and goes on with then.
// r tells which shards exist and which hold messages. basic.qos binds at consume time, so each attachment's share is set
// before it and the client's own prefetch restored behind the last.
func (c *Conn) attachTo(ch *channel, o *op, k *consumer, r Answer, then func()) {
	queues := k.candidates(r)
	room := k.room()
	if k.prefetch > 0 && len(queues) > room {
		queues = queues[:max(room, 0)]
	}
	o.want = 0
	qos := int(ch.prefetch) // what the broker goes by
	for i, q := range queues {
		limit := 0
		if k.prefetch > 0 {
			limit = min(room/(len(queues)-i), max(1, k.prefetch/min(len(k.target.Shards), k.prefetch)+1))
			room -= limit
		}
		if !k.consume.NoAck && limit != qos {
			c.sendUp(ch, &frames.BasicQos{PrefetchCount: uint16(limit)})
			o.want++
			qos = limit
		}
		a := c.newAttachment(ch, k, q, limit)
		m := k.consume
		m.Queue, m.ConsumerTag, m.NoWait = q, a.tag, false
		c.sendUp(ch, &m)
		o.want++
	}
	if qos != int(ch.prefetch) {
		c.sendUp(ch, &frames.BasicQos{PrefetchCount: ch.prefetch})
		o.want++
	}
	if o.want == 0 {
		then()
		return
	}
	o.reply = func(f frames.Frame) Verdict {
		var ok frames.BasicConsumeOk
		if f.Method() == frames.BasicConsumeOkID && ok.Decode(f.Args()) == nil {
			if a := c.attachmentOf(ch, []byte(ok.ConsumerTag)); a != nil {
				a.active = true
				c.attached(k, a.queue, 1)
			}
			c.confirmConsume(ch, k) // before any delivery
		}
		if o.want--; o.want == 0 {
			then()
		}
		return Drop
	}
}

// candidates lists the target's shards without attachment that exist: those with messages first, then those that have waited longest.
func (k *consumer) candidates(r Answer) []string {
	ready := map[string]uint32{}
	var out []string
	for _, q := range k.target.Shards {
		if slices.ContainsFunc(k.atts, func(a *attachment) bool { return a.queue == q }) {
			continue
		}
		if r.State == nil || r.State.Set == nil {
			continue
		}
		if i, ok := r.State.Set.Index(q); ok && i < len(r.Counts) && r.Counts[i].Exists {
			ready[q] = r.Counts[i].Messages
			out = append(out, q)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int {
		if (ready[a] > 0) != (ready[b] > 0) {
			if ready[a] > 0 {
				return -1
			}
			return 1
		}
		return int(k.served[a]) - int(k.served[b])
	})
	return out
}

// HasRotating reports whether Rotating lists any.
func (c *Conn) HasRotating() bool { return c.rotating > 0 }

// Rotating lists the sharded exchanges on which this connection has consumers with fewer attachments than shards. While there
// are any, the owner calls Rotate a few times a second.
func (c *Conn) Rotating() []*shards.Exchange {
	if c.rotating == 0 {
		return nil
	}
	var out []*shards.Exchange
	for _, ch := range c.chans {
		if ch == nil {
			continue
		}
		for _, tag := range sortedTags(ch) {
			if k := ch.consumers[tag]; k.rotating && !slices.Contains(out, k.x) {
				out = append(out, k.x)
			}
		}
	}
	return out
}

// Rotate moves attachments of consumers that cannot cover all their shards at once: from idle shards, and after a while from busy
// ones too, to shards with messages that wait.
func (c *Conn) Rotate(x *shards.Exchange, set *shards.Set, counts []shards.Count) {
	for _, ch := range c.chans {
		if ch == nil || ch.state != chanOpen {
			continue
		}
		for _, tag := range sortedTags(ch) {
			if k := ch.consumers[tag]; k.rotating && k.x == x && k.rotate(set, counts) {
				ch.dirty = true
			}
		}
		c.kick(ch)
	}
}

// rotate chooses which attachments give way, and reports whether there is anything to move.
func (k *consumer) rotate(set *shards.Set, counts []shards.Count) bool {
	count := func(q string) (n shards.Count) {
		if i, ok := set.Index(q); ok && i < len(counts) {
			n = counts[i]
		}
		return n
	}
	waiting, move := 0, false
	for _, q := range k.target.Shards {
		if slices.ContainsFunc(k.atts, func(a *attachment) bool { return a.queue == q }) {
			continue
		}
		n := count(q)
		move = move || n.Exists && (k.prefetch == 0 || k.room() > 0)
		if n.Messages > 0 {
			waiting++
		}
	}
	if k.prefetch == 0 {
		return move // nothing has to give way
	}
	for _, idleOnly := range []bool{true, false} {
		for _, a := range k.atts {
			idle := a.unacked == 0 && count(a.queue).Messages == 0
			if waiting > 0 && !a.yield && a.active && (idle || !idleOnly && a.age > 0) {
				a.yield, move = true, true
				waiting--
			}
		}
	}
	for _, a := range k.atts {
		a.age++
	}
	return move
}
