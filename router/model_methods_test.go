package router_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
)

// method handles one method on an open channel.
func (b *modelBroker) method(id uint16, ch *modelChannel, m frames.Method) {
	switch m := m.(type) {
	case *frames.BasicPublish:
		ch.publish = m
	case *frames.BasicAck:
		b.ack(ch, frames.Ack{DeliveryTag: m.DeliveryTag, Multiple: m.Multiple})
	case *frames.BasicNack:
		b.ack(ch, frames.Ack{DeliveryTag: m.DeliveryTag, Multiple: m.Multiple, Requeue: m.Requeue})
	case *frames.BasicReject:
		b.ack(ch, frames.Ack{DeliveryTag: m.DeliveryTag, Requeue: m.Requeue})
	case *frames.BasicConsume:
		b.consume(id, ch, m)
	case *frames.BasicCancel:
		i := slices.IndexFunc(ch.consumers, func(k *modelConsumer) bool { return k.tag == m.ConsumerTag })
		if i >= 0 {
			queue := ch.consumers[i].queue
			ch.consumers = slices.Delete(ch.consumers, i, i+1)
			b.count(queue)
		}
		if !m.NoWait {
			b.send(id, &frames.BasicCancelOk{ConsumerTag: m.ConsumerTag})
		}
	case *frames.BasicGet:
		b.get(id, ch, m)
	case *frames.BasicQos:
		b.qos(id, ch, m)
	case *frames.ChannelFlow:
		b.send(id, &frames.ChannelFlowOk{Active: m.Active})
	case *frames.BasicRecover:
		b.settle(ch, frames.Ack{Multiple: true, Requeue: true})
		b.send(id, &frames.BasicRecoverOk{})
	case *frames.BasicRecoverAsync:
		b.settle(ch, frames.Ack{Multiple: true, Requeue: true})
	case *frames.ChannelClose:
		b.settle(ch, frames.Ack{Multiple: true, Requeue: true})
		delete(b.chans, id)
		for _, k := range ch.consumers {
			b.count(k.queue)
		}
		b.send(id, &frames.ChannelCloseOk{})
	case *frames.ConfirmSelect:
		ch.confirm = true
		if !m.NoWait {
			b.send(id, &frames.ConfirmSelectOk{})
		}
	default:
		b.topology(id, ch, m)
	}
}

func (b *modelBroker) ack(ch *modelChannel, a frames.Ack) {
	if ch.tx {
		ch.txAcks = append(ch.txAcks, a)
		return
	}
	b.settle(ch, a)
}

func (b *modelBroker) topology(id uint16, ch *modelChannel, m frames.Method) {
	switch m := m.(type) {
	case *frames.TxSelect:
		ch.tx = true
		b.send(id, &frames.TxSelectOk{})
	case *frames.TxCommit:
		for _, a := range ch.txAcks {
			b.settle(ch, a)
		}
		ch.txAcks = nil
		b.send(id, &frames.TxCommitOk{})
	case *frames.TxRollback:
		ch.txAcks = nil
		b.send(id, &frames.TxRollbackOk{})
	case *frames.QueueDeclare:
		if m.Queue == "images" {
			b.fail("broker: declare of the pseudo-queue")
		}
		ch.last = m.Queue
		b.count(m.Queue)
		if !m.NoWait {
			b.send(id, &frames.QueueDeclareOk{Queue: m.Queue})
		}
	case *frames.QueuePurge:
		m.Queue = cmp.Or(m.Queue, ch.last)
		if !b.exists(m.Queue) {
			b.fail("broker: purge of %q", m.Queue)
		}
		n := b.stored[m.Queue]
		b.stored[m.Queue] = 0
		b.count(m.Queue)
		if !m.NoWait {
			b.send(id, &frames.QueuePurgeOk{MessageCount: uint32(n)})
		}
	case *frames.ExchangeDeclare:
		if m.Type == shards.ModulusHash && !m.Passive { // a passive declare does not look at it
			b.fail("broker: exchange type %s has leaked through", m.Type)
		}
		if !m.Passive {
			alternate, _ := m.Arguments.LookupString("alternate-exchange")
			b.cluster.addExchange(shards.ExchangeSpec{Name: m.Exchange, Type: m.Type, Durable: m.Durable, AlternateExchange: string(alternate)})
		}
		if !m.NoWait {
			b.send(id, &frames.ExchangeDeclareOk{})
		}
	default:
		b.fail("broker: unexpected %s", m.ID())
	}
}

func (b *modelBroker) consume(id uint16, ch *modelChannel, m *frames.BasicConsume) {
	m.Queue = cmp.Or(m.Queue, ch.last)
	if !b.exists(m.Queue) {
		b.fail("broker: consume from %q", m.Queue)
	}
	if m.ConsumerTag == "" {
		b.tags++
		m.ConsumerTag = fmt.Sprintf("amq.ctag-%d", b.tags)
	}
	if slices.ContainsFunc(ch.consumers, func(k *modelConsumer) bool { return k.tag == m.ConsumerTag }) {
		b.fail("broker: consumer tag %q is used twice", m.ConsumerTag)
	}
	k := &modelConsumer{tag: m.ConsumerTag, queue: m.Queue, noAck: m.NoAck, id: tableInt(m.Arguments, "id"), most: tableInt(m.Arguments, "prefetch")}
	if !m.NoAck {
		k.limit = ch.prefetch
		b.mayLift(ch, k)
	}
	if b.ordered && strings.HasPrefix(m.Queue, "sharding: ") {
		b.alone(k)
	}
	ch.consumers = append(ch.consumers, k)
	b.count(m.Queue)
	if !m.NoWait {
		b.send(id, &frames.BasicConsumeOk{ConsumerTag: m.ConsumerTag})
	}
}

// alone checks that nobody else has anything of the shard that a consumer is about to get.
func (b *modelBroker) alone(k *modelConsumer) {
	if b.ghosts[k.queue] {
		b.fail("broker: %s still has another consumer", k.queue)
	}
	for _, ch := range b.chans {
		for _, o := range ch.consumers {
			if o.queue == k.queue {
				b.fail("broker: two consumers on %s", k.queue)
			}
		}
		for _, d := range ch.unacked {
			if d.queue == k.queue && d.of != nil && d.of.id != k.id {
				b.fail("broker: consumer %d comes to %s while delivery %d is with consumer %d", k.id, k.queue, d.tag, d.of.id)
			}
		}
	}
}

func tableInt(t frames.Table, name string) int {
	kind, v, ok := t.Lookup(name)
	if !ok || kind != 'I' {
		return 0
	}
	return int(v[2])<<8 | int(v[3])
}

func (b *modelBroker) get(id uint16, ch *modelChannel, m *frames.BasicGet) {
	m.Queue = cmp.Or(m.Queue, ch.last)
	if !b.exists(m.Queue) {
		b.fail("broker: get from %q", m.Queue)
	}
	if b.stored[m.Queue] == 0 {
		b.send(id, &frames.BasicGetEmpty{})
		return
	}
	b.stored[m.Queue]--
	b.count(m.Queue)
	ch.tag++
	if !m.NoAck {
		ch.unacked = append(ch.unacked, modelDelivery{ch.tag, m.Queue, nil})
	}
	b.send(id, &frames.BasicGetOk{DeliveryTag: ch.tag, Exchange: "images", RoutingKey: "k", MessageCount: uint32(b.stored[m.Queue])})
	b.sendContent(id, ch.tag)
}

// attached reports whether a client's consumer has any consumer here.
func (b *modelBroker) attached(id uint16, consumer int) bool {
	ch := b.chans[id]
	return ch != nil && slices.ContainsFunc(ch.consumers, func(k *modelConsumer) bool { return k.id == consumer })
}

// closeChannel is a channel exception of the broker's.
func (b *modelBroker) closeChannel(id uint16) {
	ch := b.chans[id]
	if ch == nil || ch.closed {
		return
	}
	ch.closed = true
	b.settle(ch, frames.Ack{Multiple: true, Requeue: true})
	gone := ch.consumers
	ch.consumers = nil
	for _, k := range gone {
		b.count(k.queue)
	}
	b.send(id, &frames.ChannelClose{ReplyCode: 406, ReplyText: "PRECONDITION_FAILED - test", ClassID: 60, MethodID: 40})
}
