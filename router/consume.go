package router

import (
	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
)

// consumer is one basic.consume of the client's on a pseudo-queue. Its group says which shards it covers (target); it holds
// an attachment, a consumer of the broker's, on each, as far as its prefetch allows. Besides it may help out on others' (lend.go).
type consumer struct {
	id       uint64
	x        *shards.Exchange
	member   *shards.Member
	consume  frames.BasicConsume // the client's request; arguments owned
	tag      string
	own      int // the client's prefetch for it; 0: unlimited
	prefetch int // what of that is shared out over attachments, 0: they are not limited; see windows
	target   shards.Target
	aimed    uint64 // version of the target that the group knows it goes by
	atts     []*attachment
	wish     []string          // shards of others to help out on, from the next move on
	served   map[string]uint64 // when each shard last got an attachment, in turns
	unacked  int               // all its unacknowledged deliveries, of ended attachments too
	starved  bool              // shards without attachment: no room in the prefetch, not there, or still another's
	seq      uint64
	resting  map[string]bool // shards without attachment while their part of the prefetch is of use elsewhere (pack.go)
	calm     int             // looks in a row that have found nothing to do while some rest
	still    int             // rotation turns since any of its deliveries was settled
	leaving  bool            // basic.cancel seen
	left     bool            // has left its group
	confirm  bool            // consume-ok is owed to the client
	tried    bool            // within one op: its missing shards have been looked at
	rotating bool            // counted in Conn.rotating
	helps    bool            // its kind may help out on others' shards
	lender   bool            // counted in Conn.lenders
}

// room is how much of the prefetch no attachment has been promised: unacknowledged deliveries of ended ones count.
func (k *consumer) room() int {
	used := k.unacked
	for _, a := range k.atts {
		used += a.limit - a.unacked
	}
	return k.prefetch - used
}

// consume starts a consumer on a pseudo-queue.
func (c *Conn) consume(ch *channel, f frames.Frame) Verdict {
	var m frames.BasicConsume
	if m.Decode(f.Args()) != nil {
		return Forward
	}
	x, v := c.pseudo(ch, f, m.Queue)
	if v == hold {
		return v
	}
	if _, used := ch.consumers[m.ConsumerTag]; used {
		return c.refuse(ch, f, frames.NotAllowed, "attempt to reuse consumer tag '"+m.ConsumerTag+"'")
	}
	if x == nil {
		if m.NoWait && m.ConsumerTag != "" {
			ch.ownTag(m.ConsumerTag)
		}
		return v
	}
	if _, used := ch.tags[m.ConsumerTag]; used {
		return c.refuse(ch, f, frames.NotAllowed, "attempt to reuse consumer tag '"+m.ConsumerTag+"'")
	}
	return c.begin(ch, f, func(o *op) {
		k := c.newConsumer(ch, x, m)
		ch.addConsumer(k) // already now: its group may change its target before the answer is here
		o.undo = func() { c.forgetConsumer(ch, k) }
		o.answer = func(r Answer) {
			k.member = r.Member
			c.aim(k, r.Target)
			c.attachFirst(ch, o, k, r)
		}
		c.ask(ch, o, Ask{Kind: AskJoin, Exchange: x, Consumer: k.id, Tag: k.tag, Exclude: m.Exclusive})
	})
}

func (c *Conn) newConsumer(ch *channel, x *shards.Exchange, m frames.BasicConsume) *consumer {
	m.Arguments = append(frames.Table(nil), m.Arguments...)
	c.opSeq++
	k := &consumer{id: c.opSeq, x: x, consume: m, tag: m.ConsumerTag, served: map[string]uint64{}}
	k.helps = !m.NoAck && !m.Exclusive && x.Policy().Definition.Consumers == shards.Balanced
	if k.tag == "" {
		k.tag = "amq.ctag-" + c.o.ServerTag()
	}
	if !m.NoAck { // the broker does not limit consumers that do not acknowledge
		k.own = int(ch.windows.each)
		k.prefetch = ch.windows.share(k.own)
	}
	return k
}

func (ch *channel) addConsumer(k *consumer) {
	if ch.consumers == nil {
		ch.consumers = map[string]*consumer{}
	}
	ch.consumers[k.tag] = k
}

func (ch *channel) ownTag(tag string) {
	if ch.tags == nil {
		ch.tags = map[string]struct{}{}
	}
	ch.tags[tag] = struct{}{}
}

// cancel ends every attachment of the client's consumer; one cancel-ok.
func (c *Conn) cancel(ch *channel, f frames.Frame) Verdict {
	var m frames.BasicCancel
	if m.Decode(f.Args()) != nil {
		return Forward
	}
	k := ch.consumers[m.ConsumerTag]
	if k == nil {
		if m.NoWait {
			delete(ch.tags, m.ConsumerTag)
		}
		return Forward
	}
	return c.begin(ch, f, func(o *op) {
		k.leaving = true
		end := func() {
			c.forgetConsumer(ch, k)
			if !m.NoWait {
				c.sendDown(ch, &frames.BasicCancelOk{ConsumerTag: k.tag})
			}
			c.finish(ch)
		}
		c.detach(ch, o, k.atts, end)
	})
}

// detach cancels attachments upstream and goes on with then once all are confirmed.
func (c *Conn) detach(ch *channel, o *op, atts []*attachment, then func()) {
	if len(atts) == 0 {
		then()
		return
	}
	for _, a := range atts {
		c.sendUp(ch, &frames.BasicCancel{ConsumerTag: a.tag})
		o.want++
	}
	o.reply = func(f frames.Frame) Verdict {
		var ok frames.BasicCancelOk
		if ok.Decode(f.Args()) == nil {
			if a := c.attachmentOf(ch, []byte(ok.ConsumerTag)); a != nil {
				c.endAttachment(ch, a)
			}
		}
		if o.want--; o.want == 0 {
			then()
		}
		return Drop
	}
}

// forgetConsumer removes a client's consumer; its group gives its shards to others.
func (c *Conn) forgetConsumer(ch *channel, k *consumer) {
	for len(k.atts) > 0 {
		c.endAttachment(ch, k.atts[0])
	}
	c.leaveGroup(k)
	delete(ch.consumers, k.tag)
}

// forgetConsumers removes all of a channel's, in an order that does not depend on chance. Whatever they were given, the broker has taken
// back: the channel has ended there.
func (c *Conn) forgetConsumers(ch *channel) {
	c.voidUnacked(ch)
	for _, tag := range sortedTags(ch) {
		c.forgetConsumer(ch, ch.consumers[tag])
	}
}

// leaveChannel gives the shards of all the channel's consumers to others.
func (c *Conn) leaveChannel(ch *channel) {
	for _, tag := range sortedTags(ch) {
		c.leaveGroup(ch.consumers[tag])
	}
}

// leaveGroup gives the consumer's shards to others. Its attachments live on until the broker ends them: deliveries under way still
// need the client's tag.
func (c *Conn) leaveGroup(k *consumer) {
	if k.member != nil && !k.left {
		k.left = true // but the ends of its attachments are reported still
		c.asks = append(c.asks, Ask{Kind: AskLeave, Member: k.member})
	}
	c.setRotating(k, false)
	c.setLender(k, false)
}
