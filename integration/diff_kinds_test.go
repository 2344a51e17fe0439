package integration

import (
	"strconv"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// diffKinds: the kinds of queues, what they add to messages, and what they do not do.
var diffKinds = map[string]func(*diff){
	"quorum queue": kindQuorum,
	"stream":       kindStream,
	"classic":      kindClassic,
}

// kindQuorum: deliveries are counted, and end somewhere.
func kindQuorum(d *diff) {
	k := d.talk("client")
	queue, dead := d.name("replicated"), d.name("given up")
	arguments := frames.AppendInt32(frames.AppendString(nil, "x-queue-type", "quorum"), "x-delivery-limit", 2)
	arguments = frames.AppendString(frames.AppendString(arguments, "x-dead-letter-exchange", ""), "x-dead-letter-routing-key", dead)
	k.refused(1, method(1, &frames.QueueDeclare{Queue: queue, Arguments: arguments})) // not durable
	k.refused(1, method(1, &frames.QueueDeclare{Queue: queue, Durable: true, Exclusive: true, Arguments: arguments}))
	k.ask1(&frames.QueueDeclare{Queue: dead}, &frames.QueueDeclare{Queue: queue, Durable: true, Arguments: arguments}, &frames.ConfirmSelect{},
		&frames.BasicConsume{Queue: dead, ConsumerTag: "dead", NoAck: true})
	k.write(withProperties(1, "", queue, frames.FlagDeliveryMode, []byte{2}, "try me"))
	k.untilConfirmed(1, 1)
	k.ask1(&frames.BasicQos{PrefetchCount: 5}, &frames.BasicConsume{Queue: queue, ConsumerTag: "c"})
	for tag := range uint64(3) {
		s := k.until(1, frames.BasicDeliverID)
		require.Equal(d.t, tag > 0, s.method.(*frames.BasicDeliver).Redelivered)
		k.write(method(1, &frames.BasicReject{DeliveryTag: s.method.(*frames.BasicDeliver).DeliveryTag, Requeue: true}))
	}
	k.until(1, frames.BasicDeliverID) // where given up messages go
	k.write(message(1, "", queue, "settled"))
	s := k.until(1, frames.BasicDeliverID)
	k.write(method(1, &frames.BasicAck{DeliveryTag: s.method.(*frames.BasicDeliver).DeliveryTag}))
	k.untilConfirmed(1, 2)
	k.ask1(&frames.BasicCancel{ConsumerTag: "c"}, &frames.BasicGet{Queue: queue})
	k.ask1(&frames.QueueDelete{Queue: queue})
	k.bye()
}

// kindStream: read from where the client says, by its acknowledgements.
func kindStream(d *diff) {
	k := d.talk("client")
	queue := d.name("log")
	transient := d.talk("not durable")
	transient.write(method(1, &frames.QueueDeclare{Queue: queue, Arguments: frames.AppendString(nil, "x-queue-type", "stream")}))
	transient.end()
	k.ask1(&frames.QueueDeclare{Queue: queue, Durable: true, Arguments: frames.AppendString(nil, "x-queue-type", "stream")}, &frames.ConfirmSelect{})
	for i := range 5 {
		k.write(withHeaders(1, "", queue, frames.AppendInt32(nil, "n", int32(i)), strconv.Itoa(i)))
		k.untilConfirmed(1, i+1)
	}
	k.refused(1, method(1, &frames.BasicConsume{Queue: queue, ConsumerTag: "no prefetch"}))
	k.ask1(&frames.BasicQos{PrefetchCount: 10})
	lost := d.talk("from nowhere")
	lost.ask1(&frames.BasicQos{PrefetchCount: 10})
	lost.write(method(1, &frames.BasicConsume{Queue: queue, Arguments: frames.AppendString(nil, "x-stream-offset", "somewhere")}))
	lost.end()
	for tag, offset := range map[string]frames.Table{"first": frames.AppendString(nil, "x-stream-offset", "first"), "third": frames.AppendInt64(nil, "x-stream-offset", 2)} {
		ch := map[string]uint16{"first": 2, "third": 3}[tag]
		k.ask(ch, &frames.ChannelOpen{})
		k.ask(ch, &frames.BasicQos{PrefetchCount: 10})
		k.ask(ch, &frames.BasicConsume{Queue: queue, ConsumerTag: tag, Arguments: offset})
		for range map[string]int{"first": 5, "third": 3}[tag] {
			s := k.until(ch, frames.BasicDeliverID)
			k.write(method(ch, &frames.BasicAck{DeliveryTag: s.method.(*frames.BasicDeliver).DeliveryTag}))
		}
		k.ask(ch, &frames.BasicCancel{ConsumerTag: tag})
	}
	k.ask1(&frames.QueueDelete{Queue: queue})
	k.bye()
}

// kindClassic: the ways to keep a classic queue are the broker's affair.
func kindClassic(d *diff) {
	k := d.talk("client")
	for i, arguments := range []frames.Table{
		frames.AppendString(nil, "x-queue-type", "classic"),
		frames.AppendString(nil, "x-queue-mode", "lazy"),
		frames.AppendInt32(nil, "x-queue-version", 2),
		frames.AppendInt32(nil, "x-queue-version", 3),
	} {
		queue := d.name("kept" + strconv.Itoa(i))
		if k.try(1, &frames.QueueDeclare{Queue: queue, Durable: true, Arguments: arguments}).id == frames.ChannelCloseID {
			continue
		}
		k.write(withProperties(1, "", queue, frames.FlagDeliveryMode, []byte{2}, "kept"))
		k.sync(1)
		k.ask1(&frames.BasicGet{Queue: queue, NoAck: true})
	}
	k.bye()
}
