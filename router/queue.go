package router

import (
	"fmt"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
)

// pseudo finds the sharded exchange that a queue name means. A nil exchange: an ordinary queue, the frame passes.
// v is hold when something has to be found out first.
func (c *Conn) pseudo(ch *channel, f frames.Frame, queue string) (x *shards.Exchange, v Verdict) {
	if queue == "" {
		switch {
		case ch.last != nil:
		case ch.declared && ch.outstanding > 0:
			return nil, hold // should that be a declare which fails, the pseudo-queue before it is meant, and the broker has never heard of that
		default:
			return nil, Forward // the broker knows which queue it means
		}
		x = ch.last
	} else {
		if c.dir == nil {
			return nil, Forward
		}
		r := c.dir.Lookup([]byte(queue))
		if r == nil || r.Exchange == nil {
			return nil, Forward
		}
		x = r.Exchange
	}
	if x == ch.unsure {
		return nil, Forward
	}
	switch {
	case x.State().Mode == shards.Unknown:
		return nil, c.resolve(ch, f, x)
	case c.stale(ch, x):
		// The answer would be 404, so what was remembered does not do. But where only a pattern matches it is an ordinary queue's name.
		_, literal := x.Policy().Literal()
		return nil, c.lookUp(ch, f, Ask{Kind: AskResolve, Exchange: x, Force: literal})
	case x.State().Mode != shards.Missing || f.Method() == frames.QueueDeclareID:
		return x, Forward
	case queue != "":
		return nil, Forward // the broker's own 404
	}
	return nil, c.refuse(ch, f, frames.NotFound, fmt.Sprintf("no queue '%s' in vhost '%s'", x.Name, x.Vhost))
}

// declareQueue answers queue.declare, passive or not, with the pseudo-queue's own name and the sums over its shards.
func (c *Conn) declareQueue(ch *channel, f frames.Frame) Verdict {
	var m frames.QueueDeclare
	if m.Decode(f.Args()) != nil {
		return Forward
	}
	if m.Queue == "" {
		ch.last = nil // a server-named queue
		return Forward
	}
	x, v := c.pseudo(ch, f, m.Queue)
	if x == nil {
		if v == Forward {
			ch.last = nil
		}
		return v
	}
	if m.Exclusive && !m.Passive { // a passive one only asks; the Java client always sets both
		return c.refuse(ch, f, frames.ResourceLocked, fmt.Sprintf("cannot obtain exclusive access to locked queue '%s' in vhost '%s'. It could be "+
			"originally declared on another connection or the exclusive property value does not match that of the original declaration.", x.Name, x.Vhost))
	}
	missing := x.State().Mode == shards.Missing
	if _, literal := x.Policy().Literal(); missing && !literal {
		ch.last = nil
		return Forward // only a pattern matches: an ordinary queue until there is such an exchange
	}
	if missing && !m.Passive {
		return c.createExchange(ch, f, x)
	}
	return c.begin(ch, f, func(o *op) {
		o.answer = func(r Answer) {
			c.declaredQueue(ch, x, &m, r.Counts)
			c.finish(ch)
		}
		if missing {
			o.answer(Answer{}) // passive: nothing there, nothing made
			return
		}
		c.ask(ch, o, Ask{Kind: AskCounts, Exchange: x})
	})
}

// declaredQueue answers a pseudo-queue's declare.
func (c *Conn) declaredQueue(ch *channel, x *shards.Exchange, m *frames.QueueDeclare, counts []shards.Count) {
	ch.last, ch.declared = x, true
	if m.NoWait {
		return
	}
	ok := &frames.QueueDeclareOk{Queue: m.Queue}
	for _, n := range counts {
		ok.MessageCount += n.Messages
		ok.ConsumerCount += n.Consumers
	}
	c.sendDown(ch, ok)
}

// purge purges every shard on the client's own channel, so that the broker checks the client's rights, and sums the counts.
func (c *Conn) purge(ch *channel, f frames.Frame) Verdict {
	var m frames.QueuePurge
	if m.Decode(f.Args()) != nil {
		return Forward
	}
	x, v := c.pseudo(ch, f, m.Queue)
	if x == nil {
		return v
	}
	return c.begin(ch, f, func(o *op) {
		var sum uint32
		end := func() {
			if !m.NoWait {
				c.sendDown(ch, &frames.QueuePurgeOk{MessageCount: sum})
			}
			c.finish(ch)
		}
		o.reply = func(f frames.Frame) Verdict {
			var ok frames.QueuePurgeOk
			if ok.Decode(f.Args()) == nil {
				sum += ok.MessageCount
			}
			if o.want--; o.want == 0 {
				end()
			}
			return Drop
		}
		o.answer = func(r Answer) {
			for i, n := range r.Counts {
				if q := r.State.Covered().At(i).Queue; n.Exists && consumable(x, q) {
					c.sendUp(ch, &frames.QueuePurge{Queue: q})
					o.want++
				}
			}
			if o.want == 0 {
				end()
			}
		}
		c.ask(ch, o, Ask{Kind: AskCounts, Exchange: x})
	})
}

// bind answers queue.bind and queue.unbind of a pseudo-queue: its shards are bound to its exchange already, and to no other.
func (c *Conn) bind(ch *channel, f frames.Frame) Verdict {
	id := f.Method()
	var queue, exchange string
	noWait := false
	if id == frames.QueueBindID {
		var m frames.QueueBind
		if m.Decode(f.Args()) != nil {
			return Forward
		}
		queue, exchange, noWait = m.Queue, m.Exchange, m.NoWait
	} else {
		var m frames.QueueUnbind
		if m.Decode(f.Args()) != nil {
			return Forward
		}
		queue, exchange = m.Queue, m.Exchange
	}
	x, v := c.pseudo(ch, f, queue)
	if x == nil {
		return v
	}
	switch exchange {
	case x.Name:
	case "": // no queue may be bound there, in the broker's words
		return c.refuse(ch, f, frames.AccessRefused, "operation not permitted on the default exchange")
	default:
		return c.refuse(ch, f, frames.PreconditionFailed, fmt.Sprintf("cannot bind pseudo-queue '%s' in vhost '%s' to exchange '%s': "+
			"bind exchange '%s' to it with exchange.bind", x.Name, x.Vhost, exchange, x.Name))
	}
	return c.begin(ch, f, func(*op) {
		switch {
		case id == frames.QueueUnbindID:
			c.sendDown(ch, &frames.QueueUnbindOk{})
		case !noWait:
			c.sendDown(ch, &frames.QueueBindOk{})
		}
		c.finish(ch)
	})
}

// deleteQueue refuses queue.delete of a pseudo-queue.
func (c *Conn) deleteQueue(ch *channel, f frames.Frame) Verdict {
	var m frames.QueueDelete
	if m.Decode(f.Args()) != nil {
		return Forward
	}
	x, v := c.pseudo(ch, f, m.Queue)
	if x == nil {
		return v
	}
	return c.refuse(ch, f, frames.PreconditionFailed, fmt.Sprintf("cannot delete pseudo-queue '%s' in vhost '%s': policy '%s' owns its shards; "+
		"remove the policy, then delete them with 'shardmq shards prune'", x.Name, x.Vhost, x.Policy().Name))
}

// refuse answers a request with a channel exception, in its turn.
func (c *Conn) refuse(ch *channel, f frames.Frame, code frames.Code, text string) Verdict {
	id := f.Method()
	return c.begin(ch, f, func(*op) {
		c.raise(ch, &frames.Exception{Code: code, Method: id, Text: text})
	})
}
