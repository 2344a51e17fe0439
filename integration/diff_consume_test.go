package integration

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// diffConsuming: consumers, gets, acknowledgements.
var diffConsuming = map[string]func(*diff){
	"consumer priorities":           consumePriorities,
	"prefetch of two consumers":     consumePrefetch,
	"consumers without acks":        consumeNoAck,
	"cancel":                        consumeCancel,
	"cancelled by the broker":       consumeCancelled,
	"redelivery":                    consumeRedelivery,
	"acks of several":               consumeMultiple,
	"acks of nothing":               consumeUnknownTags,
	"a tag in use":                  consumeTagInUse,
	"the last declared queue":       consumeLastDeclared,
	"exclusive consumers":           consumeExclusive,
	"single active consumer":        consumeSingleActive,
	"direct reply-to":               consumeReplyTo,
	"arguments the broker refuses":  consumeBadArguments,
	"no-wait on all that has it":    consumeNoWait,
	"a queue with its last message": consumeUnackedReturn,
}

// fill publishes bodies to a queue, or an exchange with key "k", and waits until they are there.
func (k *talk) fill(exchange, key string, bodies ...string) {
	k.t.Helper()
	for _, b := range bodies {
		k.write(message(1, exchange, key, b))
	}
	k.sync(1)
}

func consumePriorities(d *diff) {
	k := d.talk("client")
	queue := d.name("ranked")
	k.ask1(&frames.QueueDeclare{Queue: queue}, &frames.BasicQos{PrefetchCount: 1})
	for _, rank := range []int32{1, 10, -5} {
		k.ask1(&frames.BasicConsume{Queue: queue, ConsumerTag: fmt.Sprint("rank ", rank), Arguments: frames.AppendInt32(nil, "x-priority", rank)})
	}
	k.write(message(1, "", queue, "to the first"), message(1, "", queue, "to the second"), message(1, "", queue, "to the last"), message(1, "", queue, "waits"))
	for range 3 {
		k.until(1, frames.BasicDeliverID)
	}
	k.write(method(1, &frames.BasicAck{DeliveryTag: 2}))
	k.until(1, frames.BasicDeliverID)
	k.bye()
}

// consumePrefetch: per consumer, as it stood when the consumer came.
func consumePrefetch(d *diff) {
	k := d.talk("client")
	queue := d.name("window")
	k.ask1(&frames.QueueDeclare{Queue: queue}, &frames.BasicQos{PrefetchCount: 2}, &frames.BasicConsume{Queue: queue, ConsumerTag: "two"},
		&frames.BasicQos{PrefetchCount: 1}, &frames.BasicConsume{Queue: queue, ConsumerTag: "one"})
	for range 5 {
		k.write(message(1, "", queue, "one of five"))
	}
	for range 3 {
		k.until(1, frames.BasicDeliverID)
	}
	k.holds(queue, 2)
	k.write(method(1, &frames.BasicAck{DeliveryTag: 3, Multiple: true}))
	k.until(1, frames.BasicDeliverID)
	k.until(1, frames.BasicDeliverID)
	k.holds(queue, 0)
	k.bye()
}

func consumeNoAck(d *diff) {
	k := d.talk("client")
	queue := d.name("fired")
	k.ask1(&frames.QueueDeclare{Queue: queue}, &frames.BasicQos{PrefetchCount: 1}, &frames.BasicConsume{Queue: queue, NoAck: true, NoLocal: true})
	k.write(message(1, "", queue, "a"), message(1, "", queue, "b"), message(1, "", queue, "c"))
	for range 3 {
		k.until(1, frames.BasicDeliverID)
	}
	k.refused(1, method(1, &frames.BasicAck{DeliveryTag: 1}))
	k.holds(queue, 0)
	k.bye()
}

// consumeCancel: what was delivered stays the client's to acknowledge; a tag that nobody has is no error.
func consumeCancel(d *diff) {
	k := d.talk("client")
	queue := d.name("quitting")
	k.ask1(&frames.QueueDeclare{Queue: queue}, &frames.BasicCancel{ConsumerTag: "nobody"}, &frames.BasicConsume{Queue: queue, ConsumerTag: "c"})
	k.write(message(1, "", queue, "delivered"))
	k.until(1, frames.BasicDeliverID)
	k.ask1(&frames.BasicCancel{ConsumerTag: "c"}, &frames.BasicCancel{ConsumerTag: "c"})
	k.fill("", queue, "not delivered")
	k.write(method(1, &frames.BasicAck{DeliveryTag: 1}), method(1, &frames.BasicCancel{ConsumerTag: "nobody", NoWait: true}))
	k.holds(queue, 1)
	k.ask1(&frames.BasicConsume{Queue: queue, ConsumerTag: "c"})
	k.until(1, frames.BasicDeliverID)
	k.bye()
}

// consumeCancelled: when its queue goes, the client hears so, if it has said that it understands.
func consumeCancelled(d *diff) {
	keeper := d.talk("keeper")
	for _, announced := range []bool{true, false} {
		queue := d.name(fmt.Sprint("going-", announced))
		keeper.ask1(&frames.QueueDeclare{Queue: queue})
		r := rawTCP(d.t, d.at)
		r.loginAs(d.at, announced)
		k := d.noting(fmt.Sprint("announced=", announced), r)
		k.ask1(&frames.ChannelOpen{}, &frames.BasicConsume{Queue: queue, ConsumerTag: "watcher"})
		keeper.ask1(&frames.QueueDelete{Queue: queue})
		if announced {
			k.until(1, frames.BasicCancelID)
		}
		k.ask1(&frames.BasicQos{}, &frames.BasicCancel{ConsumerTag: "watcher"})
		k.sync(1)
		k.bye()
	}
	keeper.bye()
}

func consumeRedelivery(d *diff) {
	k := d.talk("client")
	queue := d.name("again")
	get := &frames.BasicGet{Queue: queue}
	k.ask1(&frames.QueueDeclare{Queue: queue})
	k.fill("", queue, "first", "second")
	k.ask1(get)
	k.write(method(1, &frames.BasicReject{DeliveryTag: 1, Requeue: true}))
	k.ask1(get, get, get)
	k.write(method(1, &frames.BasicNack{DeliveryTag: 2, Requeue: true}), method(1, &frames.BasicNack{DeliveryTag: 3, Requeue: true}))
	k.ask1(get, get, &frames.BasicRecover{Requeue: true}, get, get)
	k.write(method(1, &frames.BasicRecoverAsync{Requeue: true}))
	k.ask1(get, &frames.BasicConsume{Queue: queue, ConsumerTag: "c"})
	k.until(1, frames.BasicDeliverID)
	k.write(method(1, &frames.BasicReject{DeliveryTag: 9}))
	k.ask1(&frames.ChannelClose{ReplyCode: 200}, &frames.ChannelOpen{}, get, get)
	k.write(method(1, &frames.BasicRecover{Requeue: false}))
	k.end() // not implemented
}

func consumeMultiple(d *diff) {
	k := d.talk("client")
	queue := d.name("several")
	k.ask1(&frames.QueueDeclare{Queue: queue})
	k.fill("", queue, slices.Repeat([]string{"a", "b", "c"}, 4)...)
	for range 10 {
		k.ask1(&frames.BasicGet{Queue: queue})
	}
	k.write(method(1, &frames.BasicAck{DeliveryTag: 2}), method(1, &frames.BasicAck{DeliveryTag: 4, Multiple: true}),
		method(1, &frames.BasicNack{DeliveryTag: 6, Multiple: true, Requeue: true}), method(1, &frames.BasicNack{DeliveryTag: 7, Multiple: true}))
	k.holds(queue, 4)
	k.write(method(1, &frames.BasicNack{Multiple: true, Requeue: true}))
	k.holds(queue, 7)
	k.ask1(&frames.BasicGet{Queue: queue})
	k.write(method(1, &frames.BasicAck{Multiple: true}), method(1, &frames.BasicAck{Multiple: true}))
	k.ask1(&frames.ChannelClose{ReplyCode: 200}, &frames.ChannelOpen{})
	k.holds(queue, 6)
	k.bye()
}

func consumeUnknownTags(d *diff) {
	k := d.talk("client")
	queue := d.name("acked")
	k.ask1(&frames.QueueDeclare{Queue: queue})
	k.fill("", queue, "a", "b")
	k.ask1(&frames.BasicGet{Queue: queue})
	ack := method(1, &frames.BasicAck{DeliveryTag: 1})
	k.refused(1, ack, ack)
	for _, m := range []frames.Method{&frames.BasicAck{DeliveryTag: 1}, &frames.BasicAck{}, &frames.BasicNack{DeliveryTag: 7}, &frames.BasicNack{DeliveryTag: 7, Multiple: true},
		&frames.BasicReject{DeliveryTag: 1 << 63}, &frames.BasicReject{}} {
		k.refused(1, method(1, m))
	}
	k.ask(2, &frames.ChannelOpen{})
	k.ask(2, &frames.BasicGet{Queue: queue})
	k.refused(1, ack) // another channel's
	k.write(method(2, &frames.BasicAck{DeliveryTag: 1}))
	k.sync(2)
	k.bye()
}

func consumeTagInUse(d *diff) {
	k := d.talk("client")
	queue := d.name("tagged")
	k.ask1(&frames.QueueDeclare{Queue: queue}, &frames.BasicConsume{Queue: queue, ConsumerTag: "c"})
	k.ask(2, &frames.ChannelOpen{})
	k.ask(2, &frames.BasicConsume{Queue: queue, ConsumerTag: "c"}) // tags are the channel's
	k.write(method(1, &frames.BasicConsume{Queue: queue, ConsumerTag: "c"}))
	k.end()
	require.Contains(d.t, k.seen[0][0], "reply-code=530")
}

func consumeLastDeclared(d *diff) {
	k := d.talk("client")
	for _, m := range []frames.Method{&frames.BasicConsume{}, &frames.BasicGet{}, &frames.QueueBind{Exchange: "amq.direct"}, &frames.QueueUnbind{Exchange: "amq.direct"},
		&frames.QueuePurge{}, &frames.QueueDelete{}} {
		k.refused(1, method(1, m))
	}
	k.ask1(&frames.QueueDeclare{Exclusive: true}, &frames.QueueBind{Exchange: "amq.direct", RoutingKey: d.name("k")}, &frames.QueueBind{Exchange: "amq.direct"},
		&frames.QueueUnbind{Exchange: "amq.direct"})
	k.fill("amq.direct", d.name("k"), "a", "b")
	k.ask1(&frames.BasicGet{NoAck: true}, &frames.QueuePurge{}, &frames.BasicConsume{ConsumerTag: "c", NoAck: true})
	k.ask(2, &frames.ChannelOpen{})
	k.refused(2, method(2, &frames.BasicGet{})) // the channel's, not the connection's
	k.ask1(&frames.QueueDelete{})
	k.until(1, frames.BasicCancelID)
	k.refused(1, method(1, &frames.QueuePurge{}))
	k.bye()
}

func consumeExclusive(d *diff) {
	k, other := d.talk("owner"), d.talk("other")
	mine, shared := d.name("mine"), d.name("shared")
	k.ask1(&frames.QueueDeclare{Queue: mine, Exclusive: true}, &frames.QueueDeclare{Queue: shared}, &frames.BasicConsume{Queue: shared, ConsumerTag: "only", Exclusive: true})
	for _, m := range []frames.Method{
		&frames.QueueDeclare{Queue: mine, Exclusive: true}, &frames.QueueDeclare{Queue: mine, Passive: true}, &frames.QueueBind{Queue: mine, Exchange: "amq.direct"},
		&frames.QueuePurge{Queue: mine}, &frames.QueueDelete{Queue: mine}, &frames.BasicConsume{Queue: mine}, &frames.BasicGet{Queue: mine},
		&frames.BasicConsume{Queue: shared}, &frames.BasicConsume{Queue: shared, Exclusive: true}, &frames.QueueDeclare{Queue: shared, Exclusive: true},
	} {
		other.refused(1, method(1, m))
	}
	k.ask1(&frames.BasicCancel{ConsumerTag: "only"})
	other.ask1(&frames.BasicConsume{Queue: shared, ConsumerTag: "shared"})
	k.refused(1, method(1, &frames.BasicConsume{Queue: shared, Exclusive: true}))
	k.bye()
	eventually(d.t, "the exclusive queue's end", func() string {
		other.write(method(1, &frames.QueueDeclare{Queue: mine, Passive: true}))
		f, err := other.next()
		require.NoError(d.t, err)
		if f.Method() == frames.QueueDeclareOkID {
			return "it is there"
		}
		other.write(method(1, &frames.ChannelCloseOk{}))
		if text := newSaid(f).String(); !slices.Contains(other.seen[0], text) {
			other.note(0, "%s", text)
		}
		other.ask1(&frames.ChannelOpen{})
		return map[bool]string{true: "locked"}[newSaid(f).method.(*frames.ChannelClose).ReplyCode == uint16(frames.ResourceLocked)]
	})
	delete(other.seen, 0) // how often it was asked is chance
	other.seen[1] = slices.Compact(other.seen[1])
	other.bye()
}

func consumeSingleActive(d *diff) {
	k := d.talk("client")
	queue := d.name("active")
	k.ask1(&frames.QueueDeclare{Queue: queue, Arguments: frames.AppendBool(nil, "x-single-active-consumer", true)},
		&frames.BasicConsume{Queue: queue, ConsumerTag: "active", NoAck: true}, &frames.BasicConsume{Queue: queue, ConsumerTag: "waiting", NoAck: true})
	k.write(message(1, "", queue, "a"), message(1, "", queue, "b"))
	k.until(1, frames.BasicDeliverID)
	k.until(1, frames.BasicDeliverID)
	k.ask1(&frames.BasicCancel{ConsumerTag: "active"})
	k.write(message(1, "", queue, "c"))
	k.until(1, frames.BasicDeliverID)
	k.refused(1, method(1, &frames.BasicConsume{Queue: queue, Exclusive: true}))
	k.bye()
}
