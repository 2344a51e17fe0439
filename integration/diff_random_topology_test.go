package integration

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/shardmq/shardmq/frames"
)

// declareQueue makes a queue, of the client's name or of the broker's.
func (f *randFamily) declareQueue(ch *randChannel) *randOp {
	m := frames.QueueDeclare{Queue: f.queueName(f.rng.IntN(4)), Durable: f.chance(2), AutoDelete: f.chance(6), Exclusive: f.chance(5), NoWait: f.chance(4)}
	if f.model.queues[m.Queue] != nil || f.model.awaited(m.Queue) {
		return nil // RabbitMQ 3.10 looks for the queues of a transaction's messages at the commit, 4.0 and 4.3 when they are published
	}
	step := randStep{method: &m}
	if f.chance(5) {
		f.fresh++
		step.learn = fmt.Sprintf("{queue %d}", f.fresh)
		m.Queue, m.NoWait = "", false
	}
	q := &randQueue{owner: ch.conn}
	switch f.rng.IntN(8) {
	case 0:
		q.most = 1 + f.rng.IntN(4)
		m.Arguments = frames.AppendInt32(nil, "x-max-length", int32(q.most))
		if q.refuses = f.chance(2); q.refuses {
			m.Arguments = frames.AppendString(m.Arguments, "x-overflow", "reject-publish")
		}
	case 1:
		m.Arguments = frames.AppendInt32(nil, "x-max-priority", 4)
	case 2:
		if q.deadTo = f.queueName(f.rng.IntN(4)); q.deadTo != m.Queue {
			m.Arguments = frames.AppendString(frames.AppendString(nil, "x-dead-letter-exchange", ""), "x-dead-letter-routing-key", q.deadTo)
		} else {
			q.deadTo = ""
		}
	}
	return &randOp{steps: []randStep{step}, alone: step.learn != "" || m.Exclusive, apply: func() {
		q.declared = m
		if step.learn != "" {
			q.declared.Queue = step.learn
		}
		f.model.queues[q.declared.Queue] = q
	}}
}

// declareAgain asks for what is there, and how much is in it. A pseudo-queue has a consumer for each shard.
func (f *randFamily) declareAgain(ch *randChannel) *randOp {
	all := f.all(func(q *randQueue) bool { return ch.may(q) && (q.sharded == unsharded || len(q.consumers) == 0) })
	if len(all) == 0 {
		return nil
	}
	q := pick(f, all)
	m := q.declared
	ours := !strings.HasPrefix(m.Queue, "{") // names like the broker's nobody else may declare
	if m.NoWait, m.Passive = f.chance(4), f.chance(2) || !ours; m.Passive {
		m = frames.QueueDeclare{Queue: m.Queue, Passive: true, NoWait: m.NoWait}
	}
	// shardmq answers for a pseudo-queue without the channel: a message that is returned may come behind the answer.
	return &randOp{steps: one(&m), touches: []*randQueue{q}, how: counting, alone: q.sharded != unsharded}
}

func (f *randFamily) deleteQueue(ch *randChannel) *randOp {
	all := f.all(func(q *randQueue) bool {
		return ch.may(q) && q.sharded == unsharded && !f.model.awaited(q.declared.Queue)
	})
	if len(all) == 0 {
		return nil
	}
	q := pick(f, all)
	m := &frames.QueueDelete{Queue: q.declared.Queue, IfEmpty: q.ready() == 0 && f.chance(2), IfUnused: len(q.consumers) == 0 && f.chance(2), NoWait: f.chance(4)}
	return &randOp{steps: one(m), alone: true, apply: func() { f.model.deleteQueue(q) }}
}

func (f *randFamily) declareExchange(*randChannel) *randOp {
	name := f.exchangeName(f.rng.IntN(5))
	if x := f.model.exchanges[name]; x != nil {
		m := x.declared
		if m.NoWait, m.Passive = f.chance(4), f.chance(2); m.Passive {
			m = frames.ExchangeDeclare{Exchange: name, Passive: true, NoWait: m.NoWait}
		}
		return &randOp{steps: one(&m)}
	}
	x := &randExchange{declared: frames.ExchangeDeclare{Exchange: name, Type: pick(f, []string{"direct", "fanout", "topic", "headers"}),
		Durable: f.chance(2), AutoDelete: f.chance(6), Internal: f.chance(8), NoWait: f.chance(4)}}
	if f.chance(4) {
		x.alternate = f.exchangeName(f.rng.IntN(5))
		x.declared.Arguments = frames.AppendString(nil, "alternate-exchange", x.alternate)
	}
	m := x.declared
	return &randOp{steps: one(&m), apply: func() { f.model.exchanges[name] = x }}
}

func (f *randFamily) deleteExchange(*randChannel) *randOp {
	all := f.exchanges(nil)
	if len(all) == 0 {
		return nil
	}
	name := pick(f, all).declared.Exchange
	m := &frames.ExchangeDelete{Exchange: name, IfUnused: !f.model.bound(name) && f.chance(2), NoWait: f.chance(4)}
	return &randOp{steps: one(m), apply: func() { f.model.deleteExchange(name) }}
}

// key makes up a binding's key and arguments for an exchange.
func (f *randFamily) bindingOf(x *randExchange) (b randBinding, arguments frames.Table) {
	b = randBinding{source: x.declared.Exchange, key: pick(f, randRoutingKeys)}
	switch x.declared.Type {
	case "topic":
		b.key = pick(f, []string{"#", "a.*", "*.b", "a.#", "a"})
	case "headers":
		if !f.chance(4) {
			b.arguments = pick(f, []string{"1", "2"})
			arguments = frames.AppendString(frames.AppendString(nil, "x-match", pick(f, []string{"all", "any"})), "h", b.arguments)
		}
	}
	return b, arguments
}

func (f *randFamily) bind(ch *randChannel) *randOp {
	xs, qs := f.exchanges(nil), f.queuesFor(ch)
	if len(xs) == 0 || len(qs) == 0 {
		return nil
	}
	x, q := pick(f, xs), pick(f, qs)
	if x.declared.AutoDelete && (q.declared.AutoDelete || q.declared.Exclusive) {
		return nil // when it goes is the broker's affair
	}
	b, arguments := f.bindingOf(x)
	b.queue = q.declared.Queue
	if !f.fits(b, arguments) {
		return nil
	}
	return &randOp{steps: one(&frames.QueueBind{Queue: b.queue, Exchange: b.source, RoutingKey: b.key, NoWait: f.chance(4), Arguments: arguments}),
		apply: func() { f.model.bind(b) }}
}

// fits reports whether a binding differs from others in more than the word for how to match, which the model does not know of.
func (f *randFamily) fits(b randBinding, arguments frames.Table) bool {
	return len(arguments) == 0 || !bytes.Contains(arguments, []byte("any"))
}

// unbind removes a binding, or one that is not there.
func (f *randFamily) unbind(ch *randChannel) *randOp {
	xs, qs := f.exchanges(nil), f.queuesFor(ch)
	if len(xs) == 0 || len(qs) == 0 {
		return nil
	}
	b, arguments := f.bindingOf(pick(f, xs))
	if !f.fits(b, arguments) {
		return nil
	}
	b.queue = pick(f, qs).declared.Queue
	return &randOp{steps: one(&frames.QueueUnbind{Queue: b.queue, Exchange: b.source, RoutingKey: b.key, Arguments: arguments}),
		apply: func() { f.model.unbind(func(other randBinding) bool { return other == b }) }}
}

// bindExchanges binds an exchange to another one, or takes that back.
func (f *randFamily) bindExchanges(*randChannel) *randOp {
	xs := f.exchanges(nil)
	if len(xs) < 2 {
		return nil
	}
	x, to := pick(f, xs), pick(f, xs)
	if x == to || x.declared.AutoDelete {
		return nil
	}
	b, arguments := f.bindingOf(x)
	b.exchange = to.declared.Exchange
	if !f.fits(b, arguments) {
		return nil
	}
	if f.chance(3) {
		return &randOp{steps: one(&frames.ExchangeUnbind{Source: b.source, Destination: b.exchange, RoutingKey: b.key, NoWait: f.chance(4), Arguments: arguments}),
			apply: func() { f.model.unbind(func(other randBinding) bool { return other == b }) }}
	}
	return &randOp{steps: one(&frames.ExchangeBind{Source: b.source, Destination: b.exchange, RoutingKey: b.key, NoWait: f.chance(4), Arguments: arguments}),
		apply: func() { f.model.bind(b) }}
}

// qos limits each consumer, or the channel as a whole: that counts from when nothing is with the client, and for one consumer. RabbitMQ 4.3 takes
// the one for the other, at the time of the consume; 3.10 and 4.0 lift the channel's limit when they are told the consumers'.
func (f *randFamily) qos(ch *randChannel) *randOp {
	m := &frames.BasicQos{PrefetchCount: uint16(f.rng.IntN(4))}
	if ch.limit > 0 && len(ch.consumers) > 0 {
		return nil
	}
	if f.chance(3) && ch.prefetch == 0 && len(ch.unacked) == 0 && len(ch.settled) == 0 && len(ch.consumers) == 0 {
		m.Global = true
		return &randOp{steps: one(m), alone: true, apply: func() { ch.limit = int(m.PrefetchCount) }}
	}
	return &randOp{steps: one(m), apply: func() { ch.prefetch, ch.limit = int(m.PrefetchCount), 0 }}
}

// selectMode has the channel confirm, or makes it transactional.
func (f *randFamily) selectMode(ch *randChannel) *randOp {
	if ch.tx || !ch.confirm && f.chance(2) {
		return &randOp{steps: one(&frames.TxSelect{}), apply: func() { ch.tx = true }}
	}
	return &randOp{steps: one(&frames.ConfirmSelect{NoWait: f.chance(3)}), apply: func() { ch.confirm = true }}
}

// commit ends a transaction one way or the other.
func (f *randFamily) commit(ch *randChannel) *randOp {
	if !ch.tx {
		return nil
	}
	if f.chance(4) {
		return &randOp{steps: one(&frames.TxRollback{}), alone: true, apply: func() {
			for _, s := range ch.settled {
				ch.unacked = append(ch.unacked, s.deliveries...)
			}
			sortDeliveries(ch.unacked)
			ch.pending, ch.settled = nil, nil
		}}
	}
	return &randOp{steps: one(&frames.TxCommit{}), alone: true, apply: func() {
		for _, queues := range ch.pending {
			f.model.arrive(queues)
		}
		for _, s := range ch.settled {
			f.model.settle(s.deliveries, s.requeue, s.drop)
		}
		ch.pending, ch.settled = nil, nil
	}}
}

// reopen closes the channel and opens it again.
func (f *randFamily) reopen(ch *randChannel) *randOp {
	steps := append(one(&frames.ChannelClose{ReplyCode: 200, ReplyText: "again"}), randStep{method: &frames.ChannelOpen{}})
	return &randOp{steps: steps, alone: true, apply: func() { f.model.closed(ch) }}
}

// flow asks for what is so anyway: RabbitMQ refuses to stop.
func (f *randFamily) flow(*randChannel) *randOp {
	return &randOp{steps: one(&frames.ChannelFlow{Active: true})}
}
