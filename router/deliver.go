package router

import "github.com/shardmq/shardmq/frames"

// beginContent notes that a content for the client begins.
func (c *Conn) beginContent(ch *channel, exchange, key []byte) {
	ch.down.wantHeader = true
	ch.emptied = c.restores(exchange, key)
}

// deliver gives a delivery of an attachment the client's own consumer tag.
func (c *Conn) deliver(ch *channel, f frames.Frame) Verdict {
	d, ok := frames.ParseDeliver(f.Args())
	if !ok {
		return Forward
	}
	c.beginContent(ch, d.Exchange, d.RoutingKey)
	if len(ch.slots) == 0 {
		return Forward
	}
	a := c.attachmentOf(ch, d.ConsumerTag)
	if a == nil {
		return Forward
	}
	c.delivered(ch, a, d.DeliveryTag, d.Redelivered || len(d.Exchange) == 0, d.RoutingKey)
	c.down = frames.AppendDeliverWithTag(c.down, f, a.of.tag)
	return Drop
}

// delivered counts a delivery of an attachment. anywhere says that its routing key did not decide on its shard, or not now: it comes again, or came
// through the default exchange, where shards come in turns.
func (c *Conn) delivered(ch *channel, a *attachment, tag uint64, anywhere bool, key []byte) {
	if !anywhere {
		a.of.x.Delivered(a.queue, key)
	}
	if a.of.consume.NoAck {
		return
	}
	ch.given(tag, a)
	if a.unacked == a.limit {
		c.filled(a)
	}
}

// gotContent begins the content behind a get-ok.
func (c *Conn) gotContent(ch *channel, f frames.Frame) {
	var m frames.BasicGetOk
	if m.Decode(f.Args()) == nil {
		c.beginContent(ch, []byte(m.Exchange), []byte(m.RoutingKey))
	}
}
