package router

import "github.com/shardmq/shardmq/frames"

// Most of what passes are whole messages on channels on which nothing is under way, and acknowledgements. ClientRun and BrokerRun decide on as many
// of them as stand at the front of a read, in one loop. They do to each what ClientFrame and BrokerFrame do to its frames, one by
// one, and stop where there is more to it than a look.

// copied is up to how many octets of bodies are copied behind a header that was written anew: a run of their own costs more.
const copied = 1536

// ClientRun decides on the client's frames at the front of b, which stands at offset at of what was read, and adds what goes out to out. It returns
// how many octets it has dealt with: whole frames; 0 when the first needs more. frameMax is as for frames.Next.
func (c *Conn) ClientRun(b []byte, frameMax uint32, out *Parts, at int) (n int) {
	if c.state != connOpen {
		return 0
	}
	for {
		m := c.clientMessage(b[n:], frameMax, out, at+n)
		if m == 0 {
			return n
		}
		n += m
	}
}

// clientMessage is one step of ClientRun.
func (c *Conn) clientMessage(b []byte, frameMax uint32, out *Parts, at int) int {
	f, err := frames.Next(b, frameMax)
	if err != nil {
		return 0
	}
	switch id := f.Method(); id {
	case frames.BasicPublishID:
		if ch := c.channel(f.Channel()); ch != nil && ch.plainUp() {
			return c.plainPublish(ch, f, b, frameMax, out, at)
		}
	case frames.BasicAckID, frames.BasicNackID, frames.BasicRejectID:
		if ch := c.channel(f.Channel()); ch != nil && ch.plainUp() {
			if ch.unacked.n > 0 {
				c.settleUnacked(ch, id, f.Args())
			}
			out.Add(FromRead, at, at+len(f))
			out.AddOwn(len(c.up)) // what now has room in a prefetch
			return len(f)
		}
	}
	return 0
}

// plainUp reports whether the client's next frame is decided on by itself.
func (ch *channel) plainUp() bool {
	return ch.state == chanOpen && ch.op == nil && len(ch.held) == 0 && !ch.dirty && !ch.up.active()
}

// plainPublish decides on a publish whose content is all there, and whose exchange needs no question.
func (c *Conn) plainPublish(ch *channel, f frames.Frame, b []byte, frameMax uint32, out *Parts, at int) int {
	p, ok := frames.ParsePublish(f.Args())
	if !ok {
		return 0
	}
	header, n, ok := frames.ScanContent(b[len(f):], ch.id, frameMax)
	if !ok {
		return 0
	}
	n += len(f)
	key := ""
	if c.dir != nil {
		if key, ok = c.plainRoute(ch, p); !ok {
			return 0
		}
	}
	if key == "" {
		ch.confirms.published()
		out.Add(FromRead, at, at+n)
		return n
	}
	before := len(c.up)
	up := append(c.up, f...)
	up, changed := frames.AppendHeaderBCC(up, header, key)
	if !changed || c.limits.broker > 0 && len(up)-before-len(f) > int(c.limits.broker) {
		return 0 // the broker, or the proxy, refuses it
	}
	body := len(f) + len(header)
	if n-body <= copied {
		up, body = append(up, b[body:n]...), n
	}
	c.up = up
	ch.confirms.published()
	out.AddOwn(len(c.up))
	out.Add(FromRead, at+body, at+n)
	return n
}

// plainRoute is route for a publish that needs one shard key at the most; ok is false when it needs more.
func (c *Conn) plainRoute(ch *channel, p frames.Publish) (key string, ok bool) {
	if len(p.Exchange) == 0 {
		r := c.dir.Lookup(p.RoutingKey)
		return "", r == nil || r.Exchange == nil
	}
	r := c.routeOf(p.Exchange)
	if r == nil {
		return "", true
	}
	if r.Exchange == nil || len(r.Feeds) > 0 {
		return "", false
	}
	return ch.plainKey(r.Exchange, p.RoutingKey)
}

// BrokerRun is ClientRun for the broker's frames.
func (c *Conn) BrokerRun(b []byte, out *Parts, at int) (n int) {
	if c.state != connOpen {
		return 0
	}
	for {
		m := c.brokerMessage(b[n:], out, at+n)
		if m == 0 {
			return n
		}
		n += m
	}
}

// brokerMessage is one step of BrokerRun.
func (c *Conn) brokerMessage(b []byte, out *Parts, at int) int {
	f, err := frames.Next(b, 0)
	if err != nil {
		return 0
	}
	switch id := f.Method(); id {
	case frames.BasicDeliverID:
		if ch := c.channel(f.Channel()); ch != nil && ch.plainDown() {
			return c.plainDeliver(ch, f, b, out, at)
		}
	case frames.BasicAckID, frames.BasicNackID:
		if ch := c.channel(f.Channel()); ch != nil && ch.plainDown() {
			c.answers++
			c.confirm(ch, id, f)
			out.Add(FromRead, at, at+len(f))
			out.AddOwn(len(c.down))
			return len(f)
		}
	}
	return 0
}

// plainDown reports whether the broker's next frame is decided on by itself.
func (ch *channel) plainDown() bool {
	return ch.state == chanOpen && !ch.down.active() && len(ch.deferred) == 0
}

// plainDeliver decides on a delivery whose content is all there, in frames that the client takes.
func (c *Conn) plainDeliver(ch *channel, f frames.Frame, b []byte, out *Parts, at int) int {
	d, ok := frames.ParseDeliver(f.Args())
	if !ok {
		return 0
	}
	most := c.limits.client
	if most > 0 {
		most -= frames.Overhead
	}
	header, n, ok := frames.ScanContent(b[len(f):], ch.id, most)
	if !ok {
		return 0
	}
	n += len(f)
	var a *attachment
	if len(ch.slots) > 0 {
		a = c.attachmentOf(ch, d.ConsumerTag)
	}
	method, body := len(f), len(f)+len(header)
	if a != nil {
		c.delivered(ch, a, d)
		c.down = frames.AppendDeliverWithTag(c.down, f, a.of.tag)
		method = 0
	}
	restored := false
	if c.dir != nil {
		c.down, restored = frames.AppendHeaderRestored(c.down, header, c.restores(d.Exchange, d.RoutingKey))
	}
	if a == nil && !restored {
		out.Add(FromRead, at, at+n)
		return n
	}
	if !restored {
		c.down = append(c.down, header...)
	}
	if n-body <= copied {
		c.down, body = append(c.down, b[body:n]...), n
	}
	out.Add(FromRead, at, at+method)
	out.AddOwn(len(c.down))
	out.Add(FromRead, at+body, at+n)
	return n
}
