package coordination

import (
	"maps"
	"slices"
	"time"
)

// aim gives a consumer a target; its router takes it over in a moment.
func (p *simProxy) aim(c *simConsumer, target []string) {
	if c.left || slices.Equal(c.target, target) {
		return
	}
	c.target = target
	p.later(p.w.some(10), func() { p.take(c) })
}

// take is the router taking over the present target.
func (p *simProxy) take(c *simConsumer) {
	if c.closed {
		return
	}
	c.aimed = c.target
	for _, queue := range sortedKeys(c.has) {
		if !slices.Contains(c.aimed, queue) {
			p.cancel(c, queue)
		}
	}
	for _, queue := range c.aimed {
		if !c.on[queue] {
			p.later(p.w.some(5), func() { p.consume(c, queue) })
		}
	}
	p.changed()
}

// rotate has a consumer with a small window leave one of its shards for another of
// them, for as long as it is there.
func (p *simProxy) rotate(c *simConsumer) {
	p.later(150*time.Millisecond+p.w.some(100), func() {
		if c.closed || c.left {
			return
		}
		if on := sortedKeys(c.on); len(on) < len(c.aimed) {
			if len(on) >= c.window {
				p.end(c, on[p.w.rnd.IntN(len(on))])
			}
			p.consume(c, c.aimed[p.w.rnd.IntN(len(c.aimed))])
		}
		p.rotate(c)
	})
}

// consume attaches at the broker; where order is promised only if nobody is there.
func (p *simProxy) consume(c *simConsumer, queue string) {
	if c.closed || c.on[queue] || !slices.Contains(c.aimed, queue) || c.window > 0 && len(c.on) >= c.window {
		return
	}
	if p.plan.Ordered && len(p.w.attached[queue]) > 0 {
		p.later(200*time.Millisecond, func() { p.consume(c, queue) })
		return
	}
	p.w.checkClaim(p, c, queue)
	c.on[queue], c.has[queue] = true, true
	delete(c.ended, queue)
	p.w.attach(queue, p, c.id)
	p.w.feed(queue, p, c)
}

// cancel ends an attachment; what it was given is settled some time later.
func (p *simProxy) cancel(c *simConsumer, queue string) {
	p.later(p.w.some(5), func() {
		if !c.closed && !slices.Contains(c.aimed, queue) {
			p.end(c, queue)
		}
	})
}

// end is the end of an attachment at the broker.
func (p *simProxy) end(c *simConsumer, queue string) {
	settle := p.w.some(20)
	if p.w.rnd.IntN(3) == 0 {
		settle = p.w.some(800)
	}
	p.w.detach(queue, p, c.id)
	delete(c.on, queue)
	c.ended[queue] = p.w.now
	p.later(settle, func() { p.release(c, queue) })
}

// release gives a shard back once everything is settled.
func (p *simProxy) release(c *simConsumer, queue string) {
	switch {
	case c.closed || c.on[queue] || c.window == 0 && slices.Contains(c.aimed, queue):
		return
	case p.w.owed(queue, p, c) > 0:
		p.later(5*time.Millisecond, func() { p.release(c, queue) })
		return
	}
	delete(c.has, queue)
	if c.left && len(c.has) == 0 {
		c.closed = true
		p.consumers = slices.DeleteFunc(p.consumers, func(o *simConsumer) bool { return o == c })
	}
	p.changed()
}

func (p *simProxy) join(exclusive bool) *simConsumer {
	p.lastID++
	c := &simConsumer{id: p.lastID, exclusive: exclusive, has: make(map[string]bool), on: make(map[string]bool), ended: make(map[string]time.Duration)}
	if p.w.ordered && !p.w.barrier && p.w.windows && p.w.rnd.IntN(2) == 0 {
		c.window = 1 + p.w.rnd.IntN(2)
		p.rotate(c)
	}
	p.w.disturb("%s/%d joins, window %d", p.id, c.id, c.window)
	p.consumers = append(p.consumers, c)
	p.deliver(p.changed)
	return c
}

func (p *simProxy) leave(c *simConsumer) {
	p.w.disturb("%s/%d leaves", p.id, c.id)
	c.left, c.target, c.aimed = true, nil, nil
	if len(c.has) == 0 {
		c.closed = true
		p.consumers = slices.DeleteFunc(p.consumers, func(o *simConsumer) bool { return o == c })
	}
	for _, queue := range sortedKeys(c.has) {
		p.cancel(c, queue)
	}
	p.changed()
}

// clientsGone: the broker has closed every client's connection.
func (p *simProxy) clientsGone() {
	for _, c := range p.consumers {
		c.closed = true
	}
	p.consumers = nil
	p.changed()
}

func (p *simProxy) report() map[string]ExchangeReport {
	r := ExchangeReport{Want: p.want, Prepared: p.prepared, Routing: p.routing, Fenced: p.pub.fenced, Unsettled: make(map[string]int)}
	for _, c := range p.consumers {
		held := maps.Clone(c.has)
		for _, queue := range slices.Concat(c.target, c.aimed) {
			held[queue] = true
		}
		for queue := range c.has {
			r.Unsettled[queue]++
		}
		r.Consumers = append(r.Consumers, ConsumerReport{
			ID: c.id, Exclusive: c.exclusive, Left: c.left, Held: sortedKeys(held),
		})
	}
	return map[string]ExchangeReport{simExchange: r}
}
