package router

import (
	"slices"

	"github.com/shardmq/shardmq/frames"
)

// attachFirst makes the first attachments of a consumer that has just joined its group.
func (c *Conn) attachFirst(ch *channel, o *op, k *consumer, r Answer) {
	k.confirm = true
	c.attachTo(ch, o, k, r, func() {
		c.confirmConsume(ch, k) // also when there was no room for any attachment
		k.missing()
		c.setRotating(k, k.turns())
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

// attachTo attaches the consumer to the shards it misses, as many as its prefetch has room for, and goes on with then.
// r tells which shards exist and which hold messages. basic.qos binds at consume time, so each attachment's share is set
// before it and the client's own limits restored behind the last.
func (c *Conn) attachTo(ch *channel, o *op, k *consumer, r Answer, then func()) {
	queues, want := k.candidates(r), max(k.wanted(), 1)
	k.wish = nil // those that nobody waits on any more have gone
	room := k.room()
	most := k.most(want, room, len(queues))
	if k.prefetch > 0 && len(queues) > room {
		queues = queues[:max(room, 0)]
	}
	o.want = 0
	limits := &limiting{c: c, ch: ch, o: o, now: int(ch.windows.each)}
	shared := !k.consume.NoAck && (k.prefetch > 0 || ch.windows.all == 0)
	for i, q := range queues {
		limit := 0
		if k.prefetch > 0 {
			limit = min(room/(len(queues)-i), most)
			room -= limit
		}
		if shared {
			limits.set(limit)
		}
		a := c.newAttachment(ch, k, q, limit)
		m := k.consume
		m.Queue, m.ConsumerTag, m.NoWait = q, a.tag, false
		// Where order is promised shards have a single active consumer, on which RabbitMQ refuses exclusive ones. The group keeps others out.
		m.Exclusive = m.Exclusive && !k.target.Ordered
		c.sendUp(ch, &m)
		o.want++
	}
	limits.restoreEach()
	if o.want == 0 {
		then()
		return
	}
	o.reply = func(f frames.Frame) Verdict {
		var ok frames.BasicConsumeOk
		if f.Method() == frames.BasicConsumeOkID && ok.Decode(f.Args()) == nil {
			if a := c.attachmentOf(ch, []byte(ok.ConsumerTag)); a != nil && !a.active {
				a.active = true
				c.attached(a, 1)
			}
			c.confirmConsume(ch, k) // before any delivery
		}
		if o.want--; o.want == 0 && !limits.restoreAll() {
			then()
		}
		return Drop
	}
}

// most is the largest share a new attachment gets, so that there is something left for the shards that are no candidates now. Those that rest
// need nothing.
func (k *consumer) most(want, room, candidates int) int {
	most := 1
	if k.prefetch > 0 {
		most = max(1, k.prefetch/min(want, k.prefetch)+1)
	}
	if len(k.resting) > 0 {
		most = max(most, room-max(0, want-len(k.atts)-candidates))
	}
	return most
}

// candidates lists the shards to attach to: those of the target without attachment, and those to help out on. Ones with messages come first,
// of these the consumer's own, then those that have waited longest. In ordered mode a shard is no candidate while
// anybody is on it: what the former owner was given comes back to the queue before the broker counts it out.
func (k *consumer) candidates(r Answer) []string {
	if r.State == nil || r.State.Covered() == nil {
		return nil
	}
	ready := map[string]bool{}
	var out []string
	for i, q := range slices.Concat(k.target.Shards, k.wish) {
		at, ok := r.State.Covered().Index(q)
		if !ok || at >= len(r.Counts) || !r.Counts[at].Exists || k.on(q) != nil || !consumable(k.x, q) {
			continue
		}
		n := r.Counts[at]
		switch own := i < len(k.target.Shards); {
		case k.target.Ordered && (n.Consumers > 0 || !own), !own && (n.Messages == 0 || k.covers(q)), own && n.Messages == 0 && k.resting[q]:
			continue
		}
		ready[q] = n.Messages > 0
		out = append(out, q)
	}
	slices.SortStableFunc(out, func(a, b string) int {
		switch {
		case ready[a] != ready[b]:
			return before(ready[a])
		case k.covers(a) != k.covers(b):
			return before(k.covers(a))
		}
		return int(k.served[a]) - int(k.served[b])
	})
	return out
}

func before(first bool) int {
	if first {
		return -1
	}
	return 1
}
