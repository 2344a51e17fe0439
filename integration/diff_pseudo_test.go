package integration

import (
	"fmt"
	"regexp"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// diffPseudo: directly with a fanout exchange and the queue of the same name, through the proxy with a sharded exchange and its
// pseudo-queue. Routing keys are all the same: order is a shard's.
var diffPseudo = map[string]func(*diff){
	"work":                    pseudoWork,
	"declares":                pseudoDeclares,
	"errors":                  pseudoErrors,
	"errors of acks":          pseudoAcks,
	"missing":                 pseudoMissing,
	"exclusive":               pseudoExclusive,
	"tag in use":              pseudoTagInUse,
	"rights":                  pseudoRights,
	"no-wait":                 pseudoNoWait,
	"transactions":            pseudoTransactions,
	"redelivery":              pseudoRedelivery,
	"prefetch":                pseudoPrefetch,
	"limits of a channel":     pseudoWindows,
	"a burst with an error":   pseudoBurst,
	"default exchange":        pseudoDefault,
	"fed by another exchange": pseudoFed,
	"bad frames":              pseudoBadFrames,
	"closed and open again":   pseudoReopened,
	"bodies":                  pseudoBodies,
	"closed in a content":     pseudoClosedHalfway,
	"quorum shards":           pseudoQuorum,
	"dead-lettering":          pseudoDeadLetters,
}

// pseudo declares the exchange and the queue of that name.
func (d *diff) pseudo(k *talk, plain string) string {
	d.t.Helper()
	name, kind := d.name("pseudo-"+plain), "fanout"
	if d.way != direct {
		kind = modulusHash
	}
	k.ask1(&frames.ExchangeDeclare{Exchange: name, Type: kind, Durable: true}, &frames.QueueDeclare{Queue: name, Durable: true},
		&frames.QueueBind{Queue: name, Exchange: name})
	return name
}

// aboutShards is what a text about a shard has more than one about a plain queue.
var aboutShards = regexp.MustCompile(`sharding: (\S+)(?: - \S+@\S+)? - \d+'(.*) \(pseudo-queue '(\S+)'\)`)

// plain takes the shard's name out of texts: the pseudo-queue's must be there too.
func (k *talk) plain() {
	for _, lines := range k.seen {
		for i, line := range lines {
			if m := aboutShards.FindStringSubmatch(line); m != nil {
				require.Equal(k.t, m[1], m[3], "%s", line)
				lines[i] = aboutShards.ReplaceAllString(line, "$1'$2")
			}
		}
	}
}

func pseudoWork(d *diff) {
	k := d.talk("client")
	name := d.pseudo(k, "work")
	k.ask1(&frames.ConfirmSelect{}, &frames.BasicGet{Queue: name})
	for i, header := range [][]byte{nil, everyProperty(everyKind(false))} {
		flags := []uint16{0, 0xfffc}[i]
		k.write(method(1, &frames.BasicPublish{Exchange: name, RoutingKey: "k", Mandatory: true}), headerFrame(1, 4, flags, header), bodyFrame(1, "bo"), bodyFrame(1, ""), bodyFrame(1, "dy"))
		k.untilConfirmed(1, i+1)
	}
	k.holds(name, 2)
	k.ask1(&frames.BasicGet{Queue: name}, &frames.BasicConsume{Queue: name, ConsumerTag: "c"})
	s := k.until(1, frames.BasicDeliverID)
	k.write(method(1, &frames.BasicAck{DeliveryTag: s.method.(*frames.BasicDeliver).DeliveryTag}))
	k.ask1(&frames.BasicCancel{ConsumerTag: "c"}, &frames.BasicCancel{ConsumerTag: "c"})
	k.write(method(1, &frames.BasicAck{DeliveryTag: 1}), mandatory(1, name, "k", "purged"), mandatory(1, name, "k", "purged too"))
	k.untilConfirmed(1, 4)
	k.ask1(&frames.QueuePurge{Queue: name}, &frames.QueuePurge{Queue: name}, &frames.QueueUnbind{Queue: name, Exchange: name}, &frames.BasicGet{Queue: name})
	k.bye()
}

// pseudoDeclares: what a declare of a pseudo-queue takes. RabbitMQ compares a plain queue's properties and arguments; those of
// shards are the policy's, and clients that declare the name as they always have must go on.
func pseudoDeclares(d *diff) {
	k := d.talk("client")
	name := d.pseudo(k, "declared")
	k.ask1(&frames.QueueDeclare{Queue: name, Durable: true}, &frames.QueueDeclare{Queue: name, Passive: true}, &frames.QueueDeclare{Queue: name, Passive: true, AutoDelete: true},
		&frames.ExchangeDeclare{Exchange: name, Passive: true})
	for _, m := range []frames.Method{&frames.QueueDeclare{Queue: name}, &frames.QueueDeclare{Queue: name, Durable: true, AutoDelete: true},
		&frames.QueueDeclare{Queue: name, Durable: true, Arguments: frames.AppendInt32(nil, "x-max-length", 5)}} {
		k.write(method(1, m))
		s := k.until(1, frames.QueueDeclareOkID, frames.ChannelCloseID)
		require.Equal(d.t, d.way != direct, s.id == frames.QueueDeclareOkID)
		k.seen[1] = k.seen[1][:len(k.seen[1])-1]
		if s.id == frames.ChannelCloseID {
			k.write(method(1, &frames.ChannelCloseOk{}))
			k.ask1(&frames.ChannelOpen{}, &frames.QueueDeclare{Queue: name, Durable: true})
			k.seen[1] = k.seen[1][:len(k.seen[1])-2]
		}
	}
	k.ask1(&frames.BasicGet{}, &frames.QueuePurge{}, &frames.BasicConsume{ConsumerTag: "of the last declared"})
	k.write(method(1, &frames.ExchangeDeclare{Exchange: name, Type: "nonsense"}))
	k.end()
}

func pseudoErrors(d *diff) {
	k := d.talk("client")
	name := d.pseudo(k, "errors")
	for _, m := range []frames.Method{
		&frames.BasicConsume{Queue: name, Arguments: frames.AppendString(nil, "x-priority", "high")},
		&frames.QueueDeclare{Queue: name, Durable: true, Exclusive: true},
		&frames.ExchangeDeclare{Exchange: name, Type: "direct"},
		&frames.ExchangeBind{Source: d.name("missing"), Destination: name},
		&frames.ExchangeBind{Source: name, Destination: d.name("missing")},
		&frames.BasicReject{DeliveryTag: 1},
		&frames.QueueBind{Queue: name},
		&frames.QueueUnbind{Queue: name, RoutingKey: "k"},
	} {
		end := k.refused(1, method(1, m))
		if m.ID() == frames.ExchangeDeclareID { // the types differ
			require.Equal(d.t, uint16(frames.PreconditionFailed), end.ReplyCode)
			k.seen[1] = k.seen[1][:len(k.seen[1])-2]
		}
	}
	// These are shardmq's own: the policy owns the shards, and other exchanges are bound by exchange.bind.
	for _, m := range []frames.Method{&frames.QueueDelete{Queue: name}, &frames.QueueDelete{Queue: name, IfEmpty: true}, &frames.QueueBind{Queue: name, Exchange: "amq.direct"},
		&frames.QueueUnbind{Queue: name, Exchange: "amq.direct"}, &frames.QueueBind{Queue: name, Exchange: d.name("missing")}} {
		if d.way == direct {
			continue
		}
		end := k.refused(1, method(1, m))
		require.Equal(d.t, uint16(frames.PreconditionFailed), end.ReplyCode)
		require.Equal(d.t, m.ID(), frames.MethodID(end.ClassID)<<16|frames.MethodID(end.MethodID))
		require.Contains(d.t, end.ReplyText, "PRECONDITION_FAILED - cannot ")
		require.Contains(d.t, end.ReplyText, fmt.Sprintf("pseudo-queue '%s' in vhost '%s'", name, d.vhost))
		k.seen[1] = k.seen[1][:len(k.seen[1])-2]
	}
	k.plain()
	k.bye()
}

func pseudoAcks(d *diff) {
	k := d.talk("client")
	name := d.pseudo(k, "acked")
	k.fill(name, "k", "a", "b", "c")
	k.ask1(&frames.BasicGet{Queue: name})
	ack := method(1, &frames.BasicAck{DeliveryTag: 1})
	k.refused(1, ack, ack)
	k.ask1(&frames.BasicConsume{Queue: name, ConsumerTag: "c"})
	k.until(1, frames.BasicDeliverID)
	k.until(1, frames.BasicDeliverID)
	k.refused(1, method(1, &frames.BasicNack{DeliveryTag: 1, Multiple: true}), method(1, &frames.BasicAck{DeliveryTag: 1}))
	k.refused(1, method(1, &frames.BasicAck{DeliveryTag: 99, Multiple: true}))
	k.holds(name, 1)
	k.bye()
}

// pseudoMissing: the name when there is no exchange, and no queue.
func pseudoMissing(d *diff) {
	k := d.talk("client")
	name := d.name("pseudo-missing")
	for _, m := range []frames.Method{&frames.BasicConsume{Queue: name}, &frames.BasicGet{Queue: name}, &frames.QueuePurge{Queue: name}, &frames.QueueDeclare{Queue: name, Passive: true},
		&frames.ExchangeDeclare{Exchange: name, Passive: true}, &frames.QueueBind{Queue: name, Exchange: name}} {
		k.refused(1, method(1, m))
	}
	k.refused(1, message(1, name, "k", "lost"))
	k.write(mandatory(1, "", name, "back"))
	k.until(1, frames.BasicReturnID)
	k.ask1(&frames.QueueUnbind{Queue: name, Exchange: "amq.direct"}, &frames.QueueDelete{Queue: name}, &frames.ExchangeDelete{Exchange: name})
	d.pseudo(k, "missing")
	k.fill(name, "k", "there now")
	k.ask1(&frames.BasicGet{Queue: name, NoAck: true})
	k.bye()
}

func pseudoExclusive(d *diff) {
	k, other := d.talk("owner"), d.talk("other")
	name := d.pseudo(k, "exclusive")
	k.ask1(&frames.BasicConsume{Queue: name, ConsumerTag: "only", Exclusive: true})
	other.refused(1, method(1, &frames.BasicConsume{Queue: name, ConsumerTag: "second"}))
	other.refused(1, method(1, &frames.BasicConsume{Queue: name, ConsumerTag: "second", Exclusive: true}))
	k.ask1(&frames.BasicCancel{ConsumerTag: "only"})
	other.ask1(&frames.BasicConsume{Queue: name, ConsumerTag: "shared"})
	k.refused(1, method(1, &frames.BasicConsume{Queue: name, ConsumerTag: "only", Exclusive: true}))
	k.plain()
	other.plain()
	k.bye()
	other.bye()
}

func pseudoTagInUse(d *diff) {
	k := d.talk("client")
	name := d.pseudo(k, "tagged")
	k.ask1(&frames.BasicConsume{Queue: name, ConsumerTag: "c"})
	k.ask(2, &frames.ChannelOpen{})
	k.ask(2, &frames.BasicConsume{Queue: name, ConsumerTag: "c"})
	k.write(method(1, &frames.BasicConsume{Queue: name, ConsumerTag: "c"}))
	k.end()
}

// pseudoRights: a user who may do nothing here.
func pseudoRights(d *diff) {
	owner := d.talk("owner")
	name := d.pseudo(owner, "rights")
	k := d.noting("limited", rawOpen(d.t, withUser(d.t, d.at, limited, "secret")))
	for _, m := range []frames.Method{&frames.BasicConsume{Queue: name}, &frames.BasicGet{Queue: name}, &frames.QueuePurge{Queue: name}, &frames.ExchangeDelete{Exchange: name}} {
		k.refused(1, method(1, m))
	}
	k.refused(1, message(1, name, "k", "not allowed"))
	k.refused(1, message(1, "", name, "not allowed"))
	k.plain()
	k.bye()
	owner.bye()
}

func pseudoNoWait(d *diff) {
	k := d.talk("client")
	name, kind := d.name("pseudo-nowait"), "fanout"
	if d.way != direct {
		kind = modulusHash
	}
	k.write(method(1, &frames.ExchangeDeclare{Exchange: name, Type: kind, Durable: true, NoWait: true}), method(1, &frames.QueueDeclare{Queue: name, Durable: true, NoWait: true}),
		method(1, &frames.QueueBind{Queue: name, Exchange: name, NoWait: true}), method(1, &frames.ConfirmSelect{NoWait: true}), message(1, name, "k", "one"), message(1, name, "k", "two"))
	k.untilConfirmed(1, 2)
	k.ask1(&frames.BasicGet{NoAck: true})
	k.write(method(1, &frames.QueuePurge{Queue: name, NoWait: true}), method(1, &frames.BasicConsume{ConsumerTag: "c", NoWait: true, NoAck: true}), message(1, name, "k", "three"))
	k.until(1, frames.BasicDeliverID)
	k.write(method(1, &frames.BasicCancel{ConsumerTag: "c", NoWait: true}), message(1, name, "k", "four"))
	k.untilConfirmed(1, 4)
	k.ask1(&frames.BasicGet{Queue: name, NoAck: true})
	k.refused(1, method(1, &frames.ExchangeDeclare{Exchange: name, Type: "topic", NoWait: true, Passive: false, Internal: true}))
	k.seen[1] = k.seen[1][:len(k.seen[1])-2] // the types differ
	k.write(method(1, &frames.ExchangeDelete{Exchange: name, NoWait: true}))
	k.refused(1, method(1, &frames.ExchangeDeclare{Exchange: name, Passive: true}))
	k.bye()
}

// pseudoBurst: what comes behind a request for which the channel is closed is not looked at any more, queues without a name included.
func pseudoBurst(d *diff) {
	k := d.talk("client")
	name := d.pseudo(k, "burst")
	k.refused(1, method(1, &frames.QueueDeclare{Passive: true}), method(1, &frames.BasicGet{}), method(1, &frames.QueuePurge{}), method(1, &frames.BasicConsume{ConsumerTag: "c"}),
		method(1, &frames.BasicCancel{ConsumerTag: "c"}), method(1, &frames.QueueBind{Exchange: name}), method(1, &frames.QueueUnbind{Exchange: name}), message(1, name, "k", "lost"),
		method(1, &frames.BasicGet{}))
	k.ask1(&frames.QueueDeclare{Queue: name, Durable: true}, &frames.BasicGet{})
	k.bye()
}
