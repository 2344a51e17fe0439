package router

import (
	"fmt"
	"strings"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
)

// declareExchange handles exchange.declare of a name that a policy matches: the type may have to be translated for a broker
// without x-modulus-hash, and the shards must be there and bound before the client hears declare-ok.
func (c *Conn) declareExchange(ch *channel, f frames.Frame) Verdict {
	var m frames.ExchangeDeclare
	if c.dir == nil || m.Decode(f.Args()) != nil {
		return Forward
	}
	r := c.dir.Lookup([]byte(m.Exchange))
	if r == nil || r.Exchange == nil {
		if m.Type == shards.ModulusHash && shards.TooLong(m.Exchange) {
			return c.refuse(ch, f, frames.PreconditionFailed, fmt.Sprintf("exchange name of %d bytes leaves no room for the names of its shards", len(m.Exchange)))
		}
		return Forward
	}
	return c.begin(ch, f, func(o *op) {
		d := &declaring{c: c, ch: ch, o: o, x: r.Exchange, m: m}
		d.m.Arguments = append(frames.Table(nil), m.Arguments...)
		d.done = func() {
			if !m.NoWait {
				c.sendDown(ch, &frames.ExchangeDeclareOk{})
			}
			c.finish(ch)
		}
		d.start()
	})
}

// createExchange makes the exchange of a literally named policy because the client declares the pseudo-queue: work-queue code
// never declares an exchange. It goes over the client's channel, so that the broker checks the client's rights; then the
// client's queue.declare is looked at again.
func (c *Conn) createExchange(ch *channel, f frames.Frame, x *shards.Exchange) Verdict {
	if !ch.idle() {
		return hold
	}
	c.start(ch, frames.QueueDeclareID, func(o *op) {
		d := &declaring{c: c, ch: ch, o: o, x: x, m: frames.ExchangeDeclare{Exchange: x.Name, Type: "x-modulus-hash", Durable: true}}
		d.done = func() { c.finish(ch) }
		d.start()
	})
	return hold
}

// declaring is one exchange.declare on its way: plan, declare on the client's channel, make the shards, answer.
type declaring struct {
	c    *Conn
	ch   *channel
	o    *op
	x    *shards.Exchange
	m    frames.ExchangeDeclare // as the client sent it
	done func()
}

func (d *declaring) start() {
	if d.m.Passive {
		d.send(d.m)
		return
	}
	spec := shards.ExchangeSpec{Name: d.m.Exchange, Type: d.m.Type, Durable: d.m.Durable, AutoDelete: d.m.AutoDelete, Internal: d.m.Internal}
	if kind, v, ok := d.m.Arguments.Lookup("alternate-exchange"); ok && kind == 'S' && len(v) >= 4 {
		spec.AlternateExchange = string(v[4:])
	}
	d.o.answer = d.planned
	d.c.ask(d.ch, d.o, Ask{Kind: AskPrepareDeclare, Exchange: d.x, Spec: spec})
}

func (d *declaring) planned(r Answer) {
	m := d.m
	m.Type = r.Plan.Type
	if r.Plan.AddAlternate != "" {
		m.Arguments = frames.AppendString(m.Arguments, "alternate-exchange", r.Plan.AddAlternate)
	}
	d.send(m)
}

func (d *declaring) send(m frames.ExchangeDeclare) {
	m.NoWait = false // the shards can only be made once the exchange is there
	d.o.want = 1
	d.o.reply = d.declared
	d.ch.translated = &d.m
	d.c.sendUp(d.ch, &m)
}

func (d *declaring) declared(frames.Frame) Verdict {
	d.o.want = 0
	d.ch.translated = nil
	d.o.answer = func(Answer) { d.done() }
	d.c.ask(d.ch, d.o, Ask{Kind: AskResolve, Exchange: d.x, Force: true})
	return Drop
}

// ownTerms words the broker's refusal of an exchange.declare in the terms clients use. sharded: the exchange is there, as one of ours.
func ownTerms(text string, m *frames.ExchangeDeclare, sharded bool) string {
	const prefix = "PRECONDITION_FAILED - inequivalent arg "
	_, of, _ := strings.Cut(text, " for exchange ")
	if where, _, ok := strings.Cut(of, ": received "); sharded && ok && m.Type != shards.ModulusHash && strings.HasPrefix(text, prefix+"'alternate-exchange'") {
		return prefix + "'type' for exchange " + where + ": received " + typeText(m.Type) + " but current is " + typeText(shards.ModulusHash)
	}
	if sharded {
		text = strings.Replace(text, "but current is 'direct'", "but current is "+typeText(shards.ModulusHash), 1)
	}
	if m.Type != "direct" {
		text = strings.Replace(text, "received 'direct'", "received "+typeText(m.Type), 1)
	}
	text = strings.Replace(text, "the value '"+shards.Unsharded(m.Exchange)+"' of type 'longstr'", "none", 1)
	return strings.Replace(text, "received '"+shards.Unsharded(m.Exchange)+"'", "received none", 1)
}

// typeText is an exchange type as RabbitMQ prints it: the quotes of an Erlang atom come on top where it has a dash.
func typeText(name string) string {
	if strings.Contains(name, "-") {
		return "''" + name + "''"
	}
	return "'" + name + "'"
}

// deleteExchange lets exchange.delete through and forgets the exchange before the client hears delete-ok.
func (c *Conn) deleteExchange(ch *channel, f frames.Frame) Verdict {
	var m frames.ExchangeDelete
	if c.dir == nil || m.Decode(f.Args()) != nil {
		return Forward
	}
	r := c.dir.Lookup([]byte(m.Exchange))
	if r == nil || r.Exchange == nil {
		return Forward
	}
	return c.begin(ch, f, func(o *op) {
		o.want = 1
		o.reply = func(frames.Frame) Verdict {
			o.want = 0
			o.answer = func(Answer) {
				if !m.NoWait {
					c.sendDown(ch, &frames.ExchangeDeleteOk{})
				}
				c.finish(ch)
			}
			c.ask(ch, o, Ask{Kind: AskForget, Exchange: r.Exchange})
			return Drop
		}
		sent := m
		sent.NoWait = false
		c.sendUp(ch, &sent)
	})
}

// bindExchange lets a binding into a sharded exchange through, and tells the operator when no policy knows of it: such messages carry no shard key.
func (c *Conn) bindExchange(ch *channel, f frames.Frame) Verdict {
	var m frames.ExchangeBind
	if c.dir == nil || m.Decode(f.Args()) != nil {
		return Forward
	}
	r := c.dir.Lookup([]byte(m.Destination))
	if r == nil || r.Exchange == nil {
		return Forward
	}
	for _, name := range r.Exchange.Policy().Definition.FedBy {
		if name == m.Source {
			return Forward
		}
	}
	c.asks = append(c.asks, Ask{Kind: AskLog, Exchange: r.Exchange, Text: "exchange '" + m.Source + "' was bound to sharded exchange '" + m.Destination +
		"' but its policy does not list it in fed-by: messages from there are not partitioned and go to " + shards.Unsharded(m.Destination)})
	return Forward
}
