package router

import (
	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
)

// brokerCancel: the broker has ended a consumer, its queue is gone. The proxy makes the shard again and attaches anew; the client
// hears of it only when nothing is left.
func (c *Conn) brokerCancel(ch *channel, f frames.Frame) Verdict {
	var m frames.BasicCancel
	if m.Decode(f.Args()) != nil {
		return Forward
	}
	a := c.attachmentOf(ch, []byte(m.ConsumerTag))
	if a == nil {
		delete(ch.tags, m.ConsumerTag)
		if !c.clientCN {
			return Drop // the capability is announced for every client, but this one did not ask for it
		}
		return Forward
	}
	c.endAttachment(ch, a)
	c.release(a, false) // with its queue, all that it was given is gone or back there
	c.asks = append(c.asks, Ask{Kind: AskResolve, Channel: ch.id, Exchange: a.of.x, Force: true})
	return Drop
}

// healed goes on after a lost attachment, with what the exchange is now.
func (c *Conn) healed(ch *channel, x *shards.Exchange, r Answer) {
	if ch.state != chanOpen || c.state != connOpen {
		return
	}
	gone := r.Err == nil && r.State != nil && r.State.Set == nil
	for _, tag := range sortedTags(ch) {
		k := ch.consumers[tag]
		if k.x != x || k.leaving || k.member == nil || k.confirm { // those just joining see for themselves
			continue
		}
		if gone && len(k.atts) == 0 && c.clientCN {
			c.sendDown(ch, &frames.BasicCancel{ConsumerTag: k.tag, NoWait: true})
			c.forgetConsumer(ch, k)
			continue
		}
		if gone || r.Err != nil { // it is looked at in turns until its shards are back
			k.missing()
			c.setRotating(k, k.turns())
			continue
		}
		ch.dirty = true
	}
	c.kick(ch)
}
