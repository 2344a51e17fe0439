package integration

import (
	"maps"
	"slices"

	"github.com/shardmq/shardmq/frames"
)

// fail is something that the broker closes the channel for, with something behind it that it does not look at any more. (Not channel.close:
// RabbitMQ may answer that behind a channel.open that came later.)
func (f *randFamily) fail(ch *randChannel) *randOp {
	faults := f.faults(ch)
	step := pick(f, faults)
	if step.cuts == nil {
		step.cuts = []int{100}
	}
	op := &randOp{steps: []randStep{step}, alone: true, fails: true}
	for _, m := range []frames.Method{
		&frames.QueueDeclare{Queue: f.prefix + "never"}, &frames.BasicGet{Queue: f.queueName(0)}, &frames.BasicPublish{RoutingKey: f.queueName(0)},
		&frames.BasicQos{PrefetchCount: 1}, &frames.BasicAck{DeliveryTag: 1}, &frames.ConfirmSelect{},
	} {
		if f.chance(6) {
			op.steps = append(op.steps, randStep{method: m, body: body(10), cuts: []int{4}})
		}
	}
	return op
}

// faults are mistakes that can be made as things are.
func (f *randFamily) faults(ch *randChannel) []randStep {
	missing, noExchange := f.prefix+"missing", f.prefix+"none"
	ms := []frames.Method{
		&frames.QueueDeclare{Queue: missing, Passive: true}, &frames.ExchangeDeclare{Exchange: noExchange, Passive: true, NoWait: f.chance(3)},
		&frames.BasicPublish{Exchange: noExchange, RoutingKey: "a", Mandatory: f.chance(2)}, &frames.BasicGet{Queue: missing},
		&frames.BasicConsume{Queue: missing, NoWait: f.chance(2)}, &frames.QueueDeclare{Queue: "amq." + missing},
		&frames.ExchangeDelete{Exchange: "amq.direct"}, &frames.BasicAck{DeliveryTag: ch.tag + 1}, &frames.BasicNack{DeliveryTag: ch.tag + 7, Multiple: f.chance(2)},
		&frames.QueueDeclare{Queue: missing, Arguments: frames.AppendString(nil, "x-max-length", "many")}, &frames.QueuePurge{Queue: missing},
		&frames.QueueBind{Queue: missing, Exchange: "amq.direct"}, &frames.ExchangeBind{Source: "amq.direct", Destination: noExchange},
	}
	switch {
	case ch.tx:
		ms = append(ms, &frames.ConfirmSelect{})
	case ch.confirm:
		ms = append(ms, &frames.TxSelect{})
	default:
		ms = append(ms, &frames.TxCommit{}, &frames.TxRollback{})
	}
	for _, name := range slices.Sorted(maps.Keys(f.model.queues)) {
		ms = append(ms, f.faultsOf(ch, f.model.queues[name])...)
	}
	for _, x := range f.exchanges(nil) {
		again := x.declared
		again.Durable = !again.Durable
		ms = append(ms, &again)
		if x.declared.Internal {
			ms = append(ms, &frames.BasicPublish{Exchange: x.declared.Exchange})
		}
		if f.model.bound(x.declared.Exchange) {
			ms = append(ms, &frames.ExchangeDelete{Exchange: x.declared.Exchange, IfUnused: true})
		}
	}
	steps := make([]randStep, len(ms))
	for i, m := range ms {
		steps[i] = randStep{method: m, body: body(f.rng.IntN(300))}
	}
	return steps
}

// faultsOf are mistakes with a queue.
func (f *randFamily) faultsOf(ch *randChannel, q *randQueue) (ms []frames.Method) {
	name := q.declared.Queue
	if q.sharded != unsharded {
		return nil // texts name shards; the differential suite has them
	}
	if q.declared.Exclusive && q.owner != ch.conn {
		return []frames.Method{&frames.QueueDeclare{Queue: name, Passive: true}, &frames.BasicGet{Queue: name}, &frames.QueueDelete{Queue: name},
			&frames.BasicConsume{Queue: name}, &frames.QueuePurge{Queue: name, NoWait: true}}
	}
	again := q.declared
	again.AutoDelete = !again.AutoDelete
	ms = append(ms, &again)
	if q.ready() > 0 {
		ms = append(ms, &frames.QueueDelete{Queue: name, IfEmpty: true})
	}
	if len(q.consumers) > 0 {
		ms = append(ms, &frames.QueueDelete{Queue: name, IfUnused: true}, &frames.BasicConsume{Queue: name, Exclusive: true})
	}
	return ms
}
