package integration

import (
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// What clients do with messages of pseudo-queues.

func pseudoTransactions(d *diff) {
	k := d.talk("client")
	name := d.pseudo(k, "tx")
	get := &frames.BasicGet{Queue: name}
	k.ask1(&frames.TxSelect{})
	k.write(message(1, name, "k", "undone"))
	k.ask1(&frames.TxRollback{}, get)
	k.write(message(1, name, "k", "done"), message(1, "", name, "spread"))
	k.ask1(&frames.TxCommit{})
	k.holds(name, 2)
	k.ask1(&frames.QueuePurge{Queue: name}, &frames.TxCommit{})
	k.write(message(1, name, "k", "acked in a transaction"))
	k.ask1(&frames.TxCommit{}, get)
	k.write(method(1, &frames.BasicAck{DeliveryTag: 1}))
	k.ask1(&frames.TxRollback{})
	k.write(method(1, &frames.BasicAck{DeliveryTag: 1}))
	k.ask1(&frames.TxCommit{}, &frames.ChannelClose{ReplyCode: 200}, &frames.ChannelOpen{}, get)
	k.refused(1, method(1, &frames.TxCommit{}))
	k.bye()
}

func pseudoRedelivery(d *diff) {
	k := d.talk("client")
	name := d.pseudo(k, "again")
	get := &frames.BasicGet{Queue: name}
	k.fill(name, "k", "first", "second", "third")
	k.ask1(get)
	k.write(method(1, &frames.BasicReject{DeliveryTag: 1, Requeue: true}))
	k.ask1(get, get, get)
	k.write(method(1, &frames.BasicNack{DeliveryTag: 3, Multiple: true, Requeue: true}))
	k.ask1(get, &frames.BasicRecover{Requeue: true}, get, get)
	k.write(method(1, &frames.BasicRecoverAsync{Requeue: true}))
	k.ask1(get)
	k.write(method(1, &frames.BasicNack{DeliveryTag: 8, Requeue: true}))
	k.ask1(&frames.BasicConsume{Queue: name, ConsumerTag: "c"})
	for range 3 {
		k.until(1, frames.BasicDeliverID)
	}
	k.ask1(&frames.BasicCancel{ConsumerTag: "c"})
	k.write(method(1, &frames.BasicAck{DeliveryTag: 9}), method(1, &frames.BasicReject{DeliveryTag: 10}))
	k.ask1(&frames.ChannelClose{ReplyCode: 200}, &frames.ChannelOpen{}, get, get)
	k.bye()
}

// pseudoPrefetch: one consumer that takes one at a time gets all, in order.
func pseudoPrefetch(d *diff) {
	k := d.talk("client")
	name := d.pseudo(k, "window")
	k.fill(name, "k", "a", "b", "c", "d")
	k.ask1(&frames.BasicQos{PrefetchCount: 1}, &frames.BasicConsume{Queue: name, ConsumerTag: "c"})
	for tag := range uint64(4) {
		k.until(1, frames.BasicDeliverID)
		k.sync(1) // no second one before the ack
		k.write(method(1, &frames.BasicAck{DeliveryTag: tag + 1}))
	}
	k.holds(name, 0)
	k.bye()
}

func pseudoDefault(d *diff) {
	k := d.talk("client")
	name := d.pseudo(k, "jobs")
	k.ask1(&frames.ConfirmSelect{})
	for i := range 3 {
		k.write(mandatory(1, "", name, "job"))
		k.untilConfirmed(1, i+1)
	}
	k.holds(name, 3)
	k.ask1(&frames.BasicGet{Queue: name}, &frames.BasicGet{Queue: name}, &frames.BasicGet{Queue: name}, &frames.BasicGet{Queue: name})
	k.bye()
}

// pseudoFed: what comes to the exchange by way of others, whether the policy names them or not.
func pseudoFed(d *diff) {
	k := d.talk("client")
	k.ask1(&frames.ConfirmSelect{})
	n := 0
	for _, source := range []string{"feeder-fed", "another"} {
		plain := map[string]string{"feeder-fed": "fed", "another": "unnamed"}[source]
		name := d.pseudo(k, plain)
		k.ask1(&frames.ExchangeDeclare{Exchange: source, Type: "topic"}, &frames.ExchangeBind{Source: source, Destination: name, RoutingKey: "a.*"})
		for _, key := range []string{"a.b", "b.a", "a.b"} {
			n++
			k.write(mandatory(1, source, key, "by "+source))
			k.untilConfirmed(1, n)
		}
		k.ask1(&frames.BasicGet{Queue: name, NoAck: true}, &frames.BasicGet{Queue: name, NoAck: true}, &frames.BasicGet{Queue: name, NoAck: true},
			&frames.ExchangeUnbind{Source: source, Destination: name, RoutingKey: "a.*"}, &frames.ExchangeDelete{Exchange: source, IfUnused: true})
	}
	k.bye()
}

// pseudoBadFrames: contents for a sharded exchange that are none.
func pseudoBadFrames(d *diff) {
	k := d.talk("client")
	name := d.pseudo(k, "bad")
	k.bye()
	d.talks = nil
	publish := method(1, &frames.BasicPublish{Exchange: name, RoutingKey: "k"})
	for what, said := range badFrames(d) {
		said = []byte(strings.ReplaceAll(string(said), string(method(1, &frames.BasicPublish{RoutingKey: "nobody"})), string(publish)))
		if strings.Contains(string(said), string(publish)) {
			d.sayLast(what, said)
		}
	}
	for what, headers := range map[string]frames.Table{
		"CC text":   frames.AppendString(nil, "CC", "text"),
		"BCC text":  frames.AppendString(nil, "BCC", "text"),
		"BCC lies":  frames.AppendField(nil, "BCC", 'A', []byte("\x00\x00\x00\x05S\x00\x00\x00\x63")),
		"BCC array": frames.AppendField(nil, "BCC", 'A', []byte("\x00\x00\x00\x63S")),
	} {
		d.sayLast(what, publish, headerFrame(1, 1, frames.FlagHeaders, longTable(headers)), bodyFrame(1, "x"))
	}
	d.sayLast("close in the content", publish, headerFrame(1, 5, 0, nil), bodyFrame(1, "x"), method(1, &frames.ChannelClose{ReplyCode: 200}))
	d.sayLast("cut off", slices.Concat(publish, headerFrame(1, 5, 0, nil)))
	d.endAll()
}

func pseudoReopened(d *diff) {
	k := d.talk("client")
	name := d.pseudo(k, "reborn")
	for range 3 {
		k.write(message(1, name, "k", "kept"), method(1, &frames.BasicConsume{Queue: name, ConsumerTag: "c"}))
		k.until(1, frames.BasicDeliverID)
		k.ask1(&frames.ChannelClose{ReplyCode: 200})
		k.write(method(1, &frames.ChannelOpen{}), method(1, &frames.QueuePurge{Queue: name}),
			message(1, d.name("missing"), "k", "lost"), message(1, name, "k", "dropped"), method(1, &frames.BasicGet{Queue: name}))
		k.until(1, frames.QueuePurgeOkID)
		k.until(1, frames.ChannelCloseID)
		k.write(method(1, &frames.ChannelCloseOk{}), method(1, &frames.ChannelOpen{}))
		k.until(1, frames.ChannelOpenOkID)
	}
	k.holds(name, 0)
	k.bye()
}

func pseudoBodies(d *diff) {
	k := d.talk("client")
	name := d.pseudo(k, "sized")
	most := int(k.frameMax)
	for what, size := range map[string]int{"0": 0, "1": 1, "frame_max - 8": most - 8, "frame_max - 7": most - 7, "5 MiB": 5 << 20} {
		k.through(name, what, body(size))
	}
	slices.Sort(k.seen[1])
	k.bye()
}

// pseudoClosedHalfway: the broker closes the channel while the client is in the middle of a content for the sharded exchange.
func pseudoClosedHalfway(d *diff) {
	k := d.talk("client")
	name := d.pseudo(k, "half")
	content := [][]byte{method(1, &frames.BasicPublish{Exchange: name, RoutingKey: "k"}), headerFrame(1, 8, 0, nil), bodyFrame(1, "half"), bodyFrame(1, "half")}
	for n := range len(content) + 1 {
		k.ask1(&frames.BasicConsume{Queue: name, ConsumerTag: "c"})
		k.write(message(1, d.name("missing"), "k", "lost"), slices.Concat(content[:n]...))
		k.until(1, frames.ChannelCloseID)
		k.write(slices.Concat(content[n:]...), message(1, name, "k", "dropped"), method(1, &frames.ChannelCloseOk{}), method(1, &frames.ChannelOpen{}))
		k.until(1, frames.ChannelOpenOkID)
	}
	k.holds(name, 0)
	k.bye()
}

// pseudoQuorum: shards of another kind, and what RabbitMQ does not do with it.
func pseudoQuorum(d *diff) {
	k := d.talk("client")
	name := d.name("pseudo-quorum")
	quorum := frames.AppendString(nil, "x-queue-type", "quorum")
	if d.way == direct {
		k.ask1(&frames.ExchangeDeclare{Exchange: name, Type: "fanout", Durable: true}, &frames.QueueDeclare{Queue: name, Durable: true, Arguments: quorum},
			&frames.QueueBind{Queue: name, Exchange: name})
	} else {
		k.ask1(&frames.ExchangeDeclare{Exchange: name, Type: modulusHash, Durable: true}, &frames.QueueDeclare{Queue: name, Durable: true, Arguments: quorum},
			&frames.QueueBind{Queue: name, Exchange: name})
	}
	k.ask1(&frames.ConfirmSelect{})
	k.write(mandatory(1, name, "k", "replicated"))
	k.untilConfirmed(1, 1)
	k.ask1(&frames.BasicConsume{Queue: name, ConsumerTag: "c"})
	k.until(1, frames.BasicDeliverID)
	k.write(method(1, &frames.BasicReject{DeliveryTag: 1, Requeue: true}))
	k.until(1, frames.BasicDeliverID)
	k.write(method(1, &frames.BasicAck{DeliveryTag: 2}))
	k.ask1(&frames.BasicCancel{ConsumerTag: "c"}, &frames.BasicQos{PrefetchCount: 5, Global: true})
	k.write(method(1, &frames.BasicConsume{Queue: name, ConsumerTag: "refused"}))
	if s := k.hear(); s.id == frames.ConnectionCloseID {
		k.write(method(0, &frames.ConnectionCloseOk{}))
	} else {
		k.bye()
	}
	k.plain()
}

// pseudoDeadLetters: what leaves a shard by its dead-letter exchange. Its x-death names the queue it really was in.
func pseudoDeadLetters(d *diff) {
	k := d.talk("client")
	name, dead := d.name("pseudo-dead"), "dead-letters"
	arguments := frames.AppendString(frames.AppendString(nil, "x-dead-letter-exchange", ""), "x-dead-letter-routing-key", dead)
	k.ask1(&frames.QueueDeclare{Queue: dead}, &frames.ExchangeDeclare{Exchange: name, Type: map[bool]string{true: "fanout", false: modulusHash}[d.way == direct], Durable: true},
		&frames.QueueDeclare{Queue: name, Durable: true, Arguments: arguments}, &frames.QueueBind{Queue: name, Exchange: name}, &frames.BasicConsume{Queue: dead, ConsumerTag: "dead", NoAck: true})
	k.write(withHeaders(1, name, "some.key", everyKind(false), "rejected"))
	k.sync(1)
	k.ask1(&frames.BasicGet{Queue: name})
	k.write(method(1, &frames.BasicReject{DeliveryTag: 1}))
	s := k.until(1, frames.BasicDeliverID)
	in := map[bool]string{true: "\x05queueS\x00\x00\x00" + string(rune(len(name))) + name, false: "sharding: " + name}[d.way == direct]
	require.Contains(d.t, string(s.header), in)
	require.Contains(d.t, string(s.header), "some.key")
	require.NotContains(d.t, string(s.header), "shardmq", "the shard key")
	k.forget(s)
	k.note(1, "dead-lettered: %q", s.body)
	k.bye()
}
