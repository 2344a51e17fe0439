package integration

import (
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

const replyTo = "amq.rabbitmq.reply-to"

func consumeReplyTo(d *diff) {
	server, k := d.talk("server"), d.talk("client")
	queue := d.name("questions")
	server.ask1(&frames.QueueDeclare{Queue: queue}, &frames.BasicConsume{Queue: queue, ConsumerTag: "server", NoAck: true})
	question := withProperties(1, "", queue, frames.FlagReplyTo|frames.FlagCorrelationID, shortString(shortString(nil, "7"), replyTo), "?")
	k.refused(1, question) // nobody listens for the answer
	k.refused(1, method(1, &frames.BasicConsume{Queue: replyTo}))
	k.refused(1, method(1, &frames.BasicConsume{Queue: replyTo, ConsumerTag: "one", NoAck: true, NoWait: true}),
		method(1, &frames.BasicConsume{Queue: replyTo, ConsumerTag: "two", NoAck: true}))
	k.ask1(&frames.BasicConsume{Queue: replyTo, ConsumerTag: "answers", NoAck: true}, &frames.QueueDeclare{Queue: replyTo, Passive: true})
	k.write(question)
	asked := server.until(1, frames.BasicDeliverID)
	header := asked.header[14+2:] // behind the fixed part: correlation-id "7", then reply-to
	to := string(header[1 : 1+int(header[0])])
	require.Contains(d.t, to, replyTo+".")
	server.ask1(&frames.QueueDeclare{Queue: to, Passive: true})
	server.write(withProperties(1, "", to, frames.FlagCorrelationID, shortString(nil, "7"), "!"))
	k.until(1, frames.BasicDeliverID)
	k.ask1(&frames.BasicCancel{ConsumerTag: "answers"})
	server.ask1(&frames.ConfirmSelect{})
	server.write(mandatory(1, "", to, "too late"))
	server.untilConfirmed(1, 1)
	k.bye()
	server.write(method(1, &frames.QueueDeclare{Queue: replyTo + ".nobody", Passive: true}), method(1, &frames.BasicConsume{Queue: "no such queue either"}))
	server.end()
}

func consumeBadArguments(d *diff) {
	k := d.talk("client")
	queue := d.name("consumed")
	k.ask1(&frames.QueueDeclare{Queue: queue})
	for _, arguments := range []frames.Table{
		frames.AppendString(nil, "x-priority", "high"),
		frames.AppendString(nil, "x-cancel-on-ha-failover", "maybe"),
		frames.AppendString(nil, "x-stream-offset", "first"),
		frames.AppendString(nil, "x-unknown", "whatever"),
	} {
		k.try(1, &frames.BasicConsume{Queue: queue, Arguments: arguments})
	}
	k.bye()
}

// consumeNoWait: nothing is answered, everything is done.
func consumeNoWait(d *diff) {
	k := d.talk("client")
	from, to, queue := d.name("from"), d.name("to"), d.name("queue")
	k.write(
		method(1, &frames.ConfirmSelect{NoWait: true}),
		method(1, &frames.ExchangeDeclare{Exchange: from, Type: "direct", NoWait: true}),
		method(1, &frames.ExchangeDeclare{Exchange: to, Type: "fanout", AutoDelete: true, NoWait: true}),
		method(1, &frames.QueueDeclare{Queue: queue, NoWait: true}),
		method(1, &frames.ExchangeBind{Source: from, Destination: to, RoutingKey: "k", NoWait: true}),
		method(1, &frames.QueueBind{Queue: queue, Exchange: to, NoWait: true}),
		message(1, from, "k", "by both exchanges"), message(1, from, "k", "purged"))
	k.untilConfirmed(1, 2)
	k.ask1(&frames.BasicGet{Queue: queue, NoAck: true})
	k.write(method(1, &frames.QueuePurge{Queue: queue, NoWait: true}), method(1, &frames.BasicConsume{Queue: queue, ConsumerTag: "c", NoWait: true, NoAck: true}),
		message(1, from, "k", "delivered"))
	k.until(1, frames.BasicDeliverID)
	k.write(method(1, &frames.BasicCancel{ConsumerTag: "c", NoWait: true}), method(1, &frames.ExchangeUnbind{Source: from, Destination: to, RoutingKey: "k", NoWait: true}),
		message(1, from, "k", "nowhere"))
	k.untilConfirmed(1, 4)
	k.ask1(&frames.BasicGet{Queue: queue, NoAck: true})
	k.write(method(1, &frames.QueueDelete{Queue: queue, NoWait: true}), method(1, &frames.ExchangeDelete{Exchange: from, NoWait: true}),
		method(1, &frames.QueueDeclare{NoWait: true, Exclusive: true}), method(1, &frames.QueueBind{Exchange: "amq.direct", RoutingKey: d.name("anonymous"), NoWait: true}),
		message(1, "amq.direct", d.name("anonymous"), "to a queue without a name"))
	k.ask1(&frames.BasicGet{NoAck: true})
	k.write(method(1, &frames.BasicConsume{NoWait: true, NoAck: true}), message(1, "amq.direct", d.name("anonymous"), "to a consumer without a tag"))
	k.until(1, frames.BasicDeliverID)
	k.untilConfirmed(1, 6)
	for _, m := range []frames.Method{ // errors come all the same
		&frames.QueueDeclare{Queue: queue, Passive: true, NoWait: true}, &frames.ExchangeDeclare{Exchange: from, Passive: true, NoWait: true},
		&frames.ExchangeDeclare{Exchange: to, Passive: true, NoWait: true}, &frames.QueueBind{Queue: queue, Exchange: from, NoWait: true},
		&frames.ExchangeBind{Source: from, Destination: to, NoWait: true}, &frames.ExchangeUnbind{Source: "", Destination: to, NoWait: true},
		&frames.BasicConsume{Queue: queue, ConsumerTag: "c", NoWait: true}, &frames.QueuePurge{Queue: queue, NoWait: true},
		&frames.ExchangeDeclare{Exchange: "amq.mine", Type: "direct", NoWait: true}, &frames.ExchangeDelete{Exchange: "amq.direct", NoWait: true},
	} {
		k.refused(1, method(1, m))
	}
	k.bye()
}

// consumeUnackedReturn: what a channel leaves unacknowledged is in its queue at once, for others, as redelivered.
func consumeUnackedReturn(d *diff) {
	k, other := d.talk("first"), d.talk("second")
	queue := d.name("handed-on")
	k.ask1(&frames.QueueDeclare{Queue: queue}, &frames.BasicConsume{Queue: queue, ConsumerTag: "c"})
	k.write(message(1, "", queue, "a"), message(1, "", queue, "b"))
	k.until(1, frames.BasicDeliverID)
	k.until(1, frames.BasicDeliverID)
	other.ask1(&frames.BasicGet{Queue: queue})
	k.ask1(&frames.ChannelClose{ReplyCode: 200, ReplyText: "enough"})
	other.ask1(&frames.BasicConsume{Queue: queue, ConsumerTag: "o"})
	other.until(1, frames.BasicDeliverID)
	other.until(1, frames.BasicDeliverID)
	require.NoError(d.t, other.conn.Close()) // in the middle of everything
	k.ask1(&frames.ChannelOpen{}, &frames.BasicConsume{Queue: queue, ConsumerTag: "again"})
	k.until(1, frames.BasicDeliverID)
	k.until(1, frames.BasicDeliverID)
	k.bye()
}
