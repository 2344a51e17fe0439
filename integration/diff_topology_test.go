package integration

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// diffTopology: how messages find their way.
var diffTopology = map[string]func(*diff){
	"alternate exchange":             topologyAlternate,
	"exchange to exchange":           topologyChain,
	"dead-lettering":                 topologyDeadLetters,
	"time to live":                   topologyExpiry,
	"priorities":                     topologyPriorities,
	"length limits":                  topologyLength,
	"declared again":                 topologyAgain,
	"deleted in use":                 topologyDelete,
	"auto-delete":                    topologyAutoDelete,
	"headers exchange":               topologyHeaders,
	"rights that are missing":        topologyRights,
	"names that are not for clients": topologyReserved,
}

func topologyAlternate(d *diff) {
	k := d.talk("client")
	main, rest, queue := d.name("main"), d.name("rest"), d.name("caught")
	k.ask1(&frames.ConfirmSelect{}, &frames.ExchangeDeclare{Exchange: rest, Type: "fanout"}, &frames.QueueDeclare{Queue: queue}, &frames.QueueBind{Queue: queue, Exchange: rest},
		&frames.ExchangeDeclare{Exchange: main, Type: "direct", Arguments: frames.AppendString(nil, "alternate-exchange", rest)})
	k.write(mandatory(1, main, "nobody", "caught"))
	k.untilConfirmed(1, 1)
	k.ask1(&frames.BasicGet{Queue: queue, NoAck: true}, &frames.ExchangeDelete{Exchange: rest})
	k.write(mandatory(1, main, "nobody", "returned"))
	k.until(1, frames.BasicReturnID)
	k.untilConfirmed(1, 2)
	k.refused(1, method(1, &frames.ExchangeDeclare{Exchange: main, Type: "direct"}))
	k.refused(1, method(1, &frames.ExchangeDeclare{Exchange: d.name("odd"), Type: "direct", Arguments: frames.AppendInt32(nil, "alternate-exchange", 5)}))
	k.bye()
}

func topologyChain(d *diff) {
	k := d.talk("client")
	one, two, three, queue := d.name("one"), d.name("two"), d.name("three"), d.name("end")
	k.ask1(&frames.ExchangeDeclare{Exchange: one, Type: "topic"}, &frames.ExchangeDeclare{Exchange: two, Type: "direct"}, &frames.ExchangeDeclare{Exchange: three, Type: "fanout"},
		&frames.QueueDeclare{Queue: queue}, &frames.QueueBind{Queue: queue, Exchange: three}, &frames.QueueBind{Queue: queue, Exchange: three, RoutingKey: "twice is once"},
		&frames.ExchangeBind{Source: one, Destination: two, RoutingKey: "a.#"}, &frames.ExchangeBind{Source: two, Destination: three, RoutingKey: "a.b"},
		&frames.ExchangeBind{Source: three, Destination: one, RoutingKey: "a circle"}, &frames.ExchangeBind{Source: two, Destination: three, RoutingKey: "copy"})
	cc := frames.AppendField(nil, "CC", 'A', []byte("\x00\x00\x00\x09S\x00\x00\x00\x04copy"))
	k.write(message(1, one, "a.b", "through"), message(1, one, "a.c", "stopped"), withHeaders(1, one, "a.x", cc, "by its copy"))
	k.sync(1)
	for range 3 {
		k.ask1(&frames.BasicGet{Queue: queue, NoAck: true})
	}
	k.ask1(&frames.ExchangeUnbind{Source: one, Destination: two, RoutingKey: "a.#"}, &frames.ExchangeUnbind{Source: one, Destination: two, RoutingKey: "never bound"})
	k.write(message(1, one, "a.b", "unbound"))
	k.sync(1)
	k.ask1(&frames.BasicGet{Queue: queue, NoAck: true})
	k.refused(1, method(1, &frames.ExchangeBind{Source: "", Destination: two}))
	k.refused(1, method(1, &frames.ExchangeBind{Source: d.name("missing"), Destination: two}))
	k.bye()
}

// topologyDeadLetters: rejected, expired and too many, with what the broker writes into their headers.
func topologyDeadLetters(d *diff) {
	k := d.talk("client")
	work, dead := d.name("work"), d.name("dead")
	arguments := frames.AppendString(frames.AppendString(nil, "x-dead-letter-exchange", ""), "x-dead-letter-routing-key", dead)
	arguments = frames.AppendInt32(arguments, "x-max-length", 1)
	k.ask1(&frames.QueueDeclare{Queue: dead}, &frames.QueueDeclare{Queue: work, Arguments: arguments}, &frames.BasicConsume{Queue: dead, ConsumerTag: "dead", NoAck: true})
	k.write(withHeaders(1, "", work, everyKind(false), "rejected"))
	k.ask1(&frames.BasicGet{Queue: work})
	k.write(method(1, &frames.BasicReject{DeliveryTag: 1}))
	k.until(1, frames.BasicDeliverID)
	k.write(withProperties(1, "amq.direct", d.name("key"), frames.FlagExpiration, shortString(nil, "0"), "not bound"))
	k.write(withProperties(1, "", work, frames.FlagExpiration, shortString(nil, "1"), "expired"))
	k.until(1, frames.BasicDeliverID)
	k.write(message(1, "", work, "too many"), message(1, "", work, "the last"))
	k.until(1, frames.BasicDeliverID)
	k.ask1(&frames.BasicGet{Queue: work})
	k.write(method(1, &frames.BasicNack{Multiple: true, Requeue: true}))
	k.ask1(&frames.BasicGet{Queue: work})
	k.write(method(1, &frames.BasicNack{Multiple: true}))
	k.until(1, frames.BasicDeliverID)
	k.bye()
}

func topologyExpiry(d *diff) {
	k := d.talk("client")
	short, dead := d.name("short"), d.name("expired")
	arguments := frames.AppendInt32(frames.AppendString(frames.AppendString(nil, "x-dead-letter-exchange", ""), "x-dead-letter-routing-key", dead), "x-message-ttl", 20)
	k.ask1(&frames.QueueDeclare{Queue: dead}, &frames.QueueDeclare{Queue: short, Arguments: arguments}, &frames.BasicConsume{Queue: dead, ConsumerTag: "dead", NoAck: true})
	k.write(message(1, "", short, "by the queue's limit"))
	k.until(1, frames.BasicDeliverID)
	k.write(withProperties(1, "", short, frames.FlagExpiration, shortString(nil, "5"), "by its own"))
	k.until(1, frames.BasicDeliverID)
	k.ask1(&frames.QueueDeclare{Queue: d.name("gone soon"), Arguments: frames.AppendInt32(nil, "x-expires", 1)},
		&frames.QueueDeclare{Queue: d.name("at once"), Arguments: frames.AppendInt32(nil, "x-message-ttl", 0)})
	k.fill("", d.name("at once"), "nobody waits for it")
	k.ask1(&frames.BasicGet{Queue: d.name("at once")})
	for _, odd := range []frames.Table{frames.AppendInt32(nil, "x-message-ttl", -1), frames.AppendInt32(nil, "x-expires", 0), frames.AppendString(nil, "x-max-length", "many"),
		frames.AppendString(nil, "x-overflow", "spill"), frames.AppendString(nil, "x-queue-type", "stack"), frames.AppendInt32(nil, "x-max-priority", 256),
		frames.AppendString(nil, "x-dead-letter-routing-key", "alone")} {
		k.try(1, &frames.QueueDeclare{Queue: d.name("odd"), Durable: true, Arguments: odd})
	}
	k.bye()
}

func topologyPriorities(d *diff) {
	k := d.talk("client")
	queue := d.name("ranked")
	k.ask1(&frames.QueueDeclare{Queue: queue, Arguments: frames.AppendInt32(nil, "x-max-priority", 5)})
	for _, p := range []byte{0, 3, 9, 5, 1, 3} {
		k.write(withProperties(1, "", queue, frames.FlagPriority, []byte{p}, string('0'+p)))
	}
	k.write(message(1, "", queue, "none"))
	k.sync(1)
	for range 8 {
		k.ask1(&frames.BasicGet{Queue: queue, NoAck: true})
	}
	k.bye()
}

func topologyLength(d *diff) {
	k := d.talk("client")
	queue := d.name("narrow")
	k.ask1(&frames.QueueDeclare{Queue: queue, Arguments: frames.AppendInt32(nil, "x-max-length-bytes", 10)}, &frames.ConfirmSelect{})
	for i, b := range []string{"12345", "6789", "more than there is room for", "last"} {
		k.write(message(1, "", queue, b))
		k.untilConfirmed(1, i+1)
	}
	k.ask1(&frames.BasicGet{Queue: queue, NoAck: true}, &frames.BasicGet{Queue: queue, NoAck: true}, &frames.BasicGet{Queue: queue, NoAck: true})
	k.bye()
}

func topologyAgain(d *diff) {
	k := d.talk("client")
	queue, exchange := d.name("same"), d.name("same exchange")
	ttl := frames.AppendInt32(nil, "x-message-ttl", 60000)
	k.ask1(&frames.QueueDeclare{Queue: queue, Durable: true, Arguments: ttl}, &frames.QueueDeclare{Queue: queue, Durable: true, Arguments: ttl},
		&frames.QueueDeclare{Queue: queue, Passive: true, AutoDelete: true}, &frames.ExchangeDeclare{Exchange: exchange, Type: "topic", Durable: true},
		&frames.ExchangeDeclare{Exchange: exchange, Type: "topic", Durable: true}, &frames.ExchangeDeclare{Exchange: exchange, Type: "fanout", Passive: true})
	for _, m := range []frames.Method{
		&frames.QueueDeclare{Queue: queue, Arguments: ttl}, &frames.QueueDeclare{Queue: queue, Durable: true, AutoDelete: true, Arguments: ttl},
		&frames.QueueDeclare{Queue: queue, Durable: true}, &frames.QueueDeclare{Queue: queue, Durable: true, Arguments: frames.AppendInt64(nil, "x-message-ttl", 60001)},
		&frames.QueueDeclare{Queue: queue, Durable: true, Exclusive: true, Arguments: ttl},
		&frames.ExchangeDeclare{Exchange: exchange, Type: "topic"}, &frames.ExchangeDeclare{Exchange: exchange, Type: "direct", Durable: true},
		&frames.ExchangeDeclare{Exchange: exchange, Type: "topic", Durable: true, AutoDelete: true}, &frames.ExchangeDeclare{Exchange: exchange, Type: "topic", Durable: true, Internal: true},
	} {
		k.refused(1, method(1, m))
	}
	k.bye()
}

func topologyDelete(d *diff) {
	k := d.talk("client")
	queue, exchange := d.name("used"), d.name("used exchange")
	k.ask1(&frames.QueueDeclare{Queue: queue}, &frames.ExchangeDeclare{Exchange: exchange, Type: "fanout"}, &frames.QueueBind{Queue: queue, Exchange: exchange})
	k.fill("", queue, "one")
	k.refused(1, method(1, &frames.QueueDelete{Queue: queue, IfEmpty: true}))
	k.refused(1, method(1, &frames.ExchangeDelete{Exchange: exchange, IfUnused: true}))
	k.ask(2, &frames.ChannelOpen{})
	k.ask(2, &frames.BasicConsume{Queue: queue, ConsumerTag: "c", NoAck: true})
	k.until(2, frames.BasicDeliverID)
	k.refused(1, method(1, &frames.QueueDelete{Queue: queue, IfUnused: true}))
	k.ask(2, &frames.BasicCancel{ConsumerTag: "c"})
	k.fill("", queue, "two", "three")
	k.ask1(&frames.QueueDelete{Queue: queue}, &frames.QueueDelete{Queue: queue}, &frames.ExchangeDelete{Exchange: exchange, IfUnused: true},
		&frames.ExchangeDelete{Exchange: exchange}, &frames.QueueDelete{Queue: queue, IfEmpty: true, IfUnused: true})
	k.bye()
}

func topologyAutoDelete(d *diff) {
	k := d.talk("client")
	queue, exchange := d.name("brief"), d.name("brief exchange")
	k.ask1(&frames.QueueDeclare{Queue: queue, AutoDelete: true}, &frames.ExchangeDeclare{Exchange: exchange, Type: "fanout", AutoDelete: true},
		&frames.QueueBind{Queue: queue, Exchange: exchange}, &frames.BasicConsume{Queue: queue, ConsumerTag: "c"}, &frames.BasicCancel{ConsumerTag: "c"})
	k.refused(1, method(1, &frames.QueueDeclare{Queue: queue, Passive: true}))
	k.refused(1, method(1, &frames.ExchangeDeclare{Exchange: exchange, Passive: true}))
	k.bye()
}

func topologyHeaders(d *diff) {
	k := d.talk("client")
	exchange := d.name("by headers")
	k.ask1(&frames.ExchangeDeclare{Exchange: exchange, Type: "headers"})
	for _, name := range []string{"all", "any"} {
		arguments := frames.AppendInt32(frames.AppendString(frames.AppendString(nil, "x-match", name), "kind", "a"), "size", 1)
		k.ask1(&frames.QueueDeclare{Queue: d.name(name)})
		k.write(method(1, &frames.QueueBind{Queue: d.name(name), Exchange: exchange, Arguments: arguments}))
		k.until(1, frames.QueueBindOkID)
	}
	k.write(withHeaders(1, exchange, "", frames.AppendInt32(frames.AppendString(nil, "kind", "a"), "size", 1), "both"),
		withHeaders(1, exchange, "", frames.AppendString(nil, "kind", "a"), "one"), message(1, exchange, "", "none"))
	k.sync(1)
	for _, queue := range []string{"all", "any"} {
		k.ask1(&frames.BasicGet{Queue: d.name(queue), NoAck: true}, &frames.BasicGet{Queue: d.name(queue), NoAck: true}, &frames.BasicGet{Queue: d.name(queue), NoAck: true})
	}
	k.refused(1, method(1, &frames.QueueBind{Queue: d.name("all"), Exchange: exchange, Arguments: frames.AppendString(nil, "x-match", "some")}))
	k.bye()
}

// topologyRights: a user who may do nothing here.
func topologyRights(d *diff) {
	owner := d.talk("owner")
	queue, exchange := d.name("theirs"), d.name("their exchange")
	owner.ask1(&frames.QueueDeclare{Queue: queue}, &frames.ExchangeDeclare{Exchange: exchange, Type: "topic"}, &frames.QueueDeclare{Queue: d.name("free")})
	r := rawOpen(d.t, withUser(d.t, d.at, limited, "secret"))
	k := d.noting("limited", r)
	for _, m := range []frames.Method{
		&frames.QueueDeclare{Queue: queue}, &frames.QueueDeclare{Queue: d.name("new")}, &frames.QueueDelete{Queue: queue}, &frames.QueuePurge{Queue: queue},
		&frames.QueueBind{Queue: queue, Exchange: exchange}, &frames.QueueBind{Queue: d.name("free"), Exchange: exchange}, &frames.QueueUnbind{Queue: queue, Exchange: exchange},
		&frames.ExchangeDeclare{Exchange: exchange, Type: "topic"}, &frames.ExchangeDelete{Exchange: exchange}, &frames.ExchangeBind{Source: exchange, Destination: "amq.fanout"},
		&frames.BasicConsume{Queue: queue}, &frames.BasicGet{Queue: queue},
	} {
		k.refused(1, method(1, m))
	}
	k.try(1, &frames.QueueDeclare{Queue: queue, Passive: true}) // 4.3 wants a right for that too
	k.refused(1, message(1, exchange, "k", "not allowed"))
	k.refused(1, message(1, "", queue, "not allowed")) // the default exchange is the broker's own
	k.bye()
	owner.bye()
}

func topologyReserved(d *diff) {
	k := d.talk("client")
	internal := d.name("internal")
	k.ask1(&frames.ExchangeDeclare{Exchange: internal, Type: "fanout", Internal: true}, &frames.QueueDeclare{Queue: d.name("plain")})
	k.refused(1, message(1, internal, "", "not by clients"))
	for _, m := range []frames.Method{
		&frames.QueueDeclare{Queue: "amq.mine"}, &frames.ExchangeDeclare{Exchange: "amq.mine", Type: "direct"}, &frames.ExchangeDelete{Exchange: "amq.direct"},
		&frames.ExchangeDelete{Exchange: ""}, &frames.QueueBind{Queue: d.name("plain"), Exchange: ""}, &frames.QueueUnbind{Queue: d.name("plain"), Exchange: ""},
		&frames.ExchangeDeclare{Exchange: "", Type: "direct"}, &frames.QueueDeclare{Queue: "amq.gen-mine", Exclusive: true},
	} {
		k.refused(1, method(1, m))
	}
	k.ask1(&frames.QueueDeclare{Queue: string(slices.Repeat([]byte("n"), 255-len(d.suffix))) + d.suffix})
	k.ask1(&frames.QueueDeclare{Queue: d.name("line\nbreak \x00 and more")}, &frames.ExchangeDeclare{Exchange: d.name("naïve ☃"), Type: "fanout"})
	k.write(message(1, "", "", "to nobody"))
	require.NotEmpty(d.t, d.suffix)
	k.bye()
}
