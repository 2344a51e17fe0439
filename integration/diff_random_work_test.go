package integration

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/shardmq/shardmq/frames"
)

var randRoutingKeys = []string{"a", "a.b", "a.c", "b.b", ""}

// publish publishes to an exchange of the family or to a queue, now and then to nobody.
func (f *randFamily) publish(ch *randChannel) *randOp {
	p := &frames.BasicPublish{RoutingKey: pick(f, randRoutingKeys), Mandatory: f.chance(3)}
	if all := f.exchanges(func(x *randExchange) bool { return !x.declared.Internal }); len(all) > 0 && !f.chance(3) {
		p.Exchange = pick(f, all).declared.Exchange
	} else if all := f.queuesFor(ch); len(all) > 0 && !f.chance(10) {
		p.RoutingKey = pick(f, all).declared.Queue
	}
	step, keys, label := f.content(p, true)
	return f.published(ch, step, f.model.route(p.Exchange, keys, label))
}

// published is a publish that reaches these queues.
func (f *randFamily) published(ch *randChannel, step randStep, queues []string) *randOp {
	op := &randOp{steps: []randStep{step}, how: putting}
	for _, name := range queues {
		q := f.model.queues[name]
		if q == nil {
			continue
		}
		if ch.tx && (q.refuses || q.declared.AutoDelete) {
			return nil // RabbitMQ 3.10 never answers the commit when a queue refuses; 4.3 ends the connection (506) when it is gone: see deleteQueue
		}
		op.touches = append(op.touches, q)
	}
	op.apply = func() {
		if ch.confirm {
			ch.published++
		}
		if ch.tx {
			ch.pending = append(ch.pending, queues)
			return
		}
		f.model.arrive(queues)
	}
	if ch.tx {
		op.touches = nil
	}
	return op
}

// content makes up properties and body, and returns the routing keys in all.
func (f *randFamily) content(p *frames.BasicPublish, copies bool) (step randStep, keys []string, label string) {
	step = randStep{method: p, cuts: []int{1 << 20}}
	keys = []string{p.RoutingKey}
	var headers frames.Table
	if f.chance(3) {
		label = pick(f, []string{"1", "2"})
		headers = frames.AppendString(headers, "h", label)
	}
	for _, name := range []string{"CC", "BCC"} {
		if copies && f.chance(12) {
			key := pick(f, append([]string{f.queueName(0), f.queueName(1)}, randRoutingKeys...))
			item := append(binary.BigEndian.AppendUint32([]byte{'S'}, uint32(len(key))), key...)
			headers = frames.AppendField(headers, name, 'A', append(binary.BigEndian.AppendUint32(nil, uint32(len(item))), item...))
			keys = append(keys, key)
		}
	}
	if f.chance(3) {
		step.flags |= frames.FlagContentType
		step.props = shortString(step.props, "text/plain")
	}
	if headers != nil || f.chance(5) {
		step.flags |= frames.FlagHeaders
		step.props = append(step.props, longTable(headers)...)
	}
	if f.chance(4) {
		step.flags |= frames.FlagDeliveryMode
		step.props = append(step.props, byte(1+f.rng.IntN(2)))
	}
	if f.chance(4) {
		step.flags |= frames.FlagPriority
		step.props = append(step.props, byte(f.rng.IntN(10)))
	}
	if f.chance(4) {
		step.flags |= frames.FlagMessageID | frames.FlagTimestamp
		step.props = binary.BigEndian.AppendUint64(shortString(step.props, fmt.Sprint(f.rng.Uint32())), f.rng.Uint64())
	}
	step.body = body(pick(f, []int{0, 0, 1, 5, f.rng.IntN(100), f.rng.IntN(1000), f.rng.IntN(5000), 4096 - frames.Overhead, 4096}))
	if f.chance(40) {
		step.body = body(f.rng.IntN(200_000))
	}
	f.fresh++
	copy(step.body, fmt.Sprint(f.fresh, " ")) // no two are the same
	if f.chance(3) {
		step.cuts = []int{1 + f.rng.IntN(1+len(step.body)/3), 1 + f.rng.IntN(1+len(step.body)/2)}
	}
	return step, keys, label
}

func (f *randFamily) get(ch *randChannel) *randOp {
	all := f.all(func(q *randQueue) bool { return ch.may(q) && q.sharded != spread })
	if len(all) == 0 {
		return nil
	}
	q := pick(f, all)
	// What comes back to a queue that drops the oldest does not show in its count: nothing does.
	noAck := f.chance(4) || q.most > 0 && !q.refuses
	return &randOp{steps: one(&frames.BasicGet{Queue: q.declared.Queue, NoAck: noAck}), touches: []*randQueue{q}, how: getting, apply: func() {
		if q.ready() == 0 {
			return
		}
		ch.tag++
		f.model.dirty[q] = true
		if noAck {
			q.total--
			return
		}
		q.held++
		ch.unacked = append(ch.unacked, randDelivery{tag: ch.tag, q: q})
	}}
}

// consume: a channel consumes from one queue at a time, since what two queues deliver at once comes in any order.
func (f *randFamily) consume(ch *randChannel) *randOp {
	if ch.holdsGenerated() || ch.limit > 0 && len(ch.all()) > 0 {
		return nil // what a former consumer was given counts in the channel's limit, and blocks even consumers that do not acknowledge
	}
	all := f.all(func(q *randQueue) bool {
		if !ch.may(q) || !q.consumable(ch) || len(ch.consumers) > 0 && (ch.consumers[0].q != q || ch.limit > 0) || q.most > 0 || len(q.consumers) > 3 {
			return false
		}
		return !slices.ContainsFunc(q.consumers, func(c *randConsumer) bool { return c.only || (ch.limit > 0 || c.ch.limit > 0) && c.ch != ch })
	})
	if len(all) == 0 {
		return nil
	}
	q := pick(f, all)
	m := &frames.BasicConsume{Queue: q.declared.Queue, NoAck: f.chance(5), Exclusive: len(q.consumers) == 0 && f.chance(8), NoLocal: f.chance(5)}
	f.fresh++
	tag := fmt.Sprintf("{tag %d}", f.fresh)
	step := randStep{method: m, learn: tag}
	if ch.consumes() || !f.chance(3) {
		tag = fmt.Sprintf("tag %d", f.fresh)
		step.learn, m.ConsumerTag, m.NoWait = "", tag, f.chance(3)
	}
	if f.chance(6) {
		m.Arguments = frames.AppendInt32(nil, "x-priority", int32(f.rng.IntN(3)))
	}
	return &randOp{steps: []randStep{step}, alone: true, apply: func() {
		c := &randConsumer{tag: tag, ch: ch, q: q, limit: ch.prefetch, noAck: m.NoAck, only: m.Exclusive}
		q.consumers, ch.consumers = append(q.consumers, c), append(ch.consumers, c)
		f.model.dirty[q] = true
		if step.learn == "" {
			f.tags[tag] = c
		}
	}}
}

func (f *randFamily) cancel(ch *randChannel) *randOp {
	if len(ch.consumers) == 0 {
		if f.chance(4) {
			return &randOp{steps: one(&frames.BasicCancel{ConsumerTag: "nobody"})}
		}
		return nil
	}
	c := pick(f, ch.consumers)
	return &randOp{steps: one(&frames.BasicCancel{ConsumerTag: c.tag, NoWait: f.chance(4)}), alone: true, apply: func() { f.model.leave(c) }}
}

// acknowledge settles one delivery or several, one way or another.
func (f *randFamily) acknowledge(ch *randChannel) *randOp {
	if len(ch.unacked) == 0 {
		return nil
	}
	tag, multiple := pick(f, ch.unacked).tag, f.chance(3)
	if multiple && f.chance(4) {
		tag = 0
	}
	trial := *ch
	trial.unacked = slices.Clone(ch.unacked)
	of := trial.take(tag, multiple)
	how := f.rng.IntN(6) // acknowledge, acknowledge, nack, requeue, reject, requeue
	var m frames.Method
	requeue := how == 3 || how == 5
	op, dead, full := f.settling(of)
	if tag == 0 { // RabbitMQ settles what it has delivered when it comes to that: what was published just before may be among it or not
		for _, c := range ch.consumers {
			op.touches = append(op.touches, c.q)
		}
	}
	switch {
	case dead > 1, ch.tx && dead > 0, full:
		how, requeue = 0, false // in what order those of several queues come is chance
	case requeue && ch.limit > 0:
		how, requeue = 0, false // so is whether the queue takes a message back first, or gives the next one
	}
	switch {
	case how < 2:
		m = &frames.BasicAck{DeliveryTag: tag, Multiple: multiple}
	case how < 4 || multiple:
		m = &frames.BasicNack{DeliveryTag: tag, Multiple: multiple, Requeue: requeue}
	default:
		m = &frames.BasicReject{DeliveryTag: tag, Requeue: requeue}
	}
	op.steps = one(m)
	op.apply = func() { f.model.finish(ch, ch.take(tag, multiple), requeue, how >= 2) }
	return op
}

// settling begins a step that settles these deliveries. It returns how many queues have another one for what is rejected, and whether that may be full.
func (f *randFamily) settling(of []randDelivery) (op *randOp, dead int, full bool) {
	op = &randOp{how: settling}
	from := map[*randQueue]bool{}
	for _, d := range of {
		if !d.q.gone {
			op.touches = append(op.touches, d.q)
		}
		if d.q.deadTo == "" {
			continue
		}
		op.alone = true // it comes some time, to a queue that was declared just behind as well
		if to := f.model.queues[d.q.deadTo]; to != nil {
			from[d.q] = true
			full = full || to.most > 0 // and when does not show in the count
		}
	}
	return op, len(from), full
}

func (f *randFamily) recover(ch *randChannel) *randOp {
	if ch.limit > 0 && len(ch.unacked) > 0 {
		return nil // see acknowledge
	}
	var m frames.Method = &frames.BasicRecover{Requeue: true}
	if f.chance(3) {
		m = &frames.BasicRecoverAsync{Requeue: true}
	}
	return &randOp{steps: one(m), alone: true, apply: func() {
		all := ch.unacked
		ch.unacked = nil
		f.model.settle(all, true, false)
	}}
}

func (f *randFamily) purge(ch *randChannel) *randOp {
	all := f.queuesFor(ch)
	if f.chance(2) {
		all = f.all(func(q *randQueue) bool { return q.sharded != unsharded })
	}
	if len(all) == 0 {
		return nil
	}
	q := pick(f, all)
	return &randOp{steps: one(&frames.QueuePurge{Queue: q.declared.Queue, NoWait: f.chance(3)}), touches: []*randQueue{q}, how: getting, apply: func() {
		q.total = q.held
		f.model.dirty[q] = true
	}}
}
