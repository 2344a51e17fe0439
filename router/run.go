package router

import (
	"encoding/binary"

	"github.com/shardmq/shardmq/frames"
)

// Most of what passes are whole messages on channels on which nothing is under way, and acknowledgements. ClientRun and BrokerRun decide on as many
// of them as stand at the front of a read, in one loop. They do to each what ClientFrame and BrokerFrame do to its frames, one by
// one, and stop where there is more to it than a look.

// copied is up to how many octets of bodies are copied behind a header that was written anew: a run of their own costs more.
const copied = 1536

// ClientRun decides on the client's frames at the front of b, which stands at offset at of what was read, and adds what goes out to out. It returns
// how many octets it has dealt with: whole frames; 0 when the first needs more. No payload may have more than frameMax octets; 0: no limit.
func (c *Conn) ClientRun(b []byte, frameMax uint32, out *Parts, at int) (n int) {
	if c.state != connOpen {
		return 0
	}
	for n+frames.Overhead+4 <= len(b) {
		f := frames.Frame(b[n:])
		id := f.Method()
		if id != frames.BasicPublishID && id != frames.BasicAckID && id != frames.BasicNackID && id != frames.BasicRejectID {
			break
		}
		ch := c.channel(f.Channel())
		if ch == nil || !ch.plainUp() {
			break
		}
		m := 0
		if id == frames.BasicPublishID {
			m = c.plainPublish(ch, f, frameMax, out, at+n)
		} else {
			m = c.plainSettle(ch, id, f, frameMax, out, at+n)
		}
		if m == 0 {
			break
		}
		n += m
	}
	return n
}

// plainUp reports whether the client's next frame is decided on by itself.
func (ch *channel) plainUp() bool {
	return ch.state == chanOpen && ch.op == nil && len(ch.held) == 0 && !ch.dirty && !ch.up.active()
}

// plainSettle decides on an acknowledgement at the front of b.
func (c *Conn) plainSettle(ch *channel, id frames.MethodID, b []byte, frameMax uint32, out *Parts, at int) int {
	f, err := frames.Next(b, frameMax)
	if err != nil {
		return 0
	}
	if ch.unacked.n > 0 {
		c.settleUnacked(ch, id, f.Args())
	}
	out.Add(FromRead, at, at+len(f))
	out.AddOwn(len(c.up)) // what there is room for in a prefetch now
	return len(f)
}

// plainPublish decides on publishes at the front of b: whole ones whose exchange needs no question.
func (c *Conn) plainPublish(ch *channel, b []byte, frameMax uint32, out *Parts, at int) int {
	m, ok := frames.ScanPublish(b, frameMax)
	if !ok {
		return 0
	}
	exchange, key := frames.Shortstr(b, frames.PublishExchange), ""
	if c.dir != nil {
		if key, ok = c.plainRoute(ch, exchange, frames.Shortstr(b, m.Key)); !ok {
			return 0
		}
	}
	if key == "" {
		count := 1
		if s, ok := m.ShapeOf(b, m.Key+1, frames.PublishExchange); ok && (c.dir == nil || len(exchange) > 0) { // else it depends on the routing key
			count += s.Count(b[m.End:])
		}
		ch.confirms.published(count)
		out.Add(FromRead, at, at+count*m.End)
		return count * m.End
	}
	if !c.appendShard(ch, b, m, key, out, at) {
		return 0 // the broker, or the proxy, refuses it
	}
	s, ok := m.ShapeOf(b, m.Key+1, frames.PublishExchange)
	n, x := m.End, c.lastRoute.Exchange
	for ok && s.Next(b[n:]) {
		next := b[n:]
		if key, ok = ch.plainKey(x, frames.Shortstr(next, m.Key)); !ok || !c.appendShard(ch, next, m, key, out, at+n) {
			break
		}
		n += m.End
	}
	return n
}

// appendShard has the message m at the start of b go out with a shard key; false when that cannot be.
func (c *Conn) appendShard(ch *channel, b []byte, m frames.Message, key string, out *Parts, at int) bool {
	n := copyEnd(m)
	up, changed := frames.AppendMessageBCC(c.up, b, m, n, key)
	if !changed || c.limits.broker > 0 && len(up)-len(c.up)-m.Header-(n-m.Body) > int(c.limits.broker) {
		return false
	}
	c.up = up
	ch.confirms.published(1)
	out.AddOwn(len(c.up))
	out.Add(FromRead, at+n, at+m.End)
	return true
}

// plainRoute is route for a publish that needs one shard key at the most; ok is false when it needs more.
func (c *Conn) plainRoute(ch *channel, exchange, routingKey []byte) (key string, ok bool) {
	if len(exchange) == 0 {
		r := c.dir.Lookup(routingKey)
		return "", r == nil || r.Exchange == nil
	}
	r := c.routeOf(exchange)
	if r == nil {
		return "", true
	}
	if r.Exchange == nil || len(r.Feeds) > 0 {
		return "", false
	}
	return ch.plainKey(r.Exchange, routingKey)
}

// BrokerRun is ClientRun for the broker's frames.
func (c *Conn) BrokerRun(b []byte, out *Parts, at int) (n int) {
	if c.state != connOpen {
		return 0
	}
	for n+frames.Overhead+4 <= len(b) {
		f := frames.Frame(b[n:])
		id := f.Method()
		if id != frames.BasicDeliverID && id != frames.BasicAckID && id != frames.BasicNackID {
			break
		}
		ch := c.channel(f.Channel())
		if ch == nil || !ch.plainDown() {
			break
		}
		m := 0
		if id == frames.BasicDeliverID {
			m = c.plainDeliver(ch, f, out, at+n)
		} else {
			m = c.plainConfirm(ch, id, f, out, at+n)
		}
		if m == 0 {
			break
		}
		n += m
	}
	return n
}

// plainDown reports whether the broker's next frame is decided on by itself.
func (ch *channel) plainDown() bool {
	return ch.state == chanOpen && !ch.down.active() && len(ch.deferred) == 0
}

// plainConfirm decides on the confirm at the front of b.
func (c *Conn) plainConfirm(ch *channel, id frames.MethodID, b []byte, out *Parts, at int) int {
	f, err := frames.Next(b, 0)
	if err != nil {
		return 0
	}
	c.answers++
	c.confirm(ch, id, f)
	out.Add(FromRead, at, at+len(f))
	out.AddOwn(len(c.down))
	return len(f)
}

// plainDeliver decides on deliveries at the front of b: whole ones, in frames that the client takes.
func (c *Conn) plainDeliver(ch *channel, b []byte, out *Parts, at int) int {
	most := c.limits.client
	if most > 0 {
		most -= frames.Overhead // as in startBody of the proxy: larger ones are cut
	}
	m, ok := frames.ScanDelivery(b, most)
	if !ok {
		return 0
	}
	var a *attachment
	if len(ch.slots) > 0 {
		a = c.attachmentOf(ch, frames.Shortstr(b, frames.DeliverTag))
	}
	table := c.dir != nil && frames.Frame(b[m.Header:m.Body:m.Body]).HasTable()
	if a != nil || table {
		c.rewriteDelivery(ch, a, table, b, m, out, at)
	}
	n := m.End
	s, alike := m.ShapeOf(b, frames.DeliverNumber(b), frames.DeliverExchange(b))
	switch {
	case a == nil && !table:
		if alike {
			n += s.Count(b[n:]) * m.End
		}
		out.Add(FromRead, at, at+n)
	case a != nil && !table: // others of the attachment
		for alike && !a.ended && ch.plainDown() && s.Next(b[n:]) {
			c.rewriteDelivery(ch, a, table, b[n:], m, out, at+n)
			n += m.End
		}
	}
	return n
}

// rewriteDelivery has the delivery m at the start of b go out under the client's consumer tag, if it is of an attachment (nil: it is not), and with the
// header that its publisher sent, if it has a table that tells of one.
func (c *Conn) rewriteDelivery(ch *channel, a *attachment, table bool, b []byte, m frames.Message, out *Parts, at int) {
	exchange, key := frames.Shortstr(b, frames.DeliverExchange(b)), frames.Shortstr(b, m.Key)
	n, before := copyEnd(m), len(c.down)
	front := n // the rest is copied in one piece
	if table {
		front = m.Header
	}
	if a != nil {
		number := frames.DeliverNumber(b)
		c.delivered(ch, a, binary.BigEndian.Uint64(b[number:]), b[number+8]&1 != 0 || len(exchange) == 0, key)
		c.down = frames.AppendDeliveryWithTag(c.down, b[:front], a.of.tag)
	} else {
		c.down = append(c.down, b[:front]...)
	}
	if table {
		down, restored := frames.AppendHeaderRestored(c.down, frames.Frame(b[m.Header:m.Body:m.Body]), c.restores(exchange, key))
		switch {
		case restored:
			c.down = append(down, b[m.Body:n]...)
		case a != nil:
			c.down = append(c.down, b[m.Header:n]...)
		default: // as it came after all
			c.down, n = c.down[:before], 0
		}
	}
	out.AddOwn(len(c.down))
	out.Add(FromRead, at+n, at+m.End)
}

// copyEnd is up to where a message that is written anew is copied; the rest goes out from where it was read.
func copyEnd(m frames.Message) int {
	if m.End-m.Body > copied {
		return m.Body
	}
	return m.End
}
