package integration

import (
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// alarmed is a scenario in three steps: before a memory alarm, while it lasts, and after it.
type alarmed struct {
	*diff
	told, untold, consumer *talk
}

func (a *alarmed) before() {
	queue := a.name("alarm")
	a.consumer = a.diff.talk("consumer")
	a.consumer.ask1(&frames.QueueDeclare{Queue: queue}, &frames.BasicConsume{Queue: queue, ConsumerTag: "c"})
	a.told = a.diff.talk("publisher")
	r := rawTCP(a.t, a.at)
	r.loginAs(a.at, false)
	a.untold = a.noting("publisher that does not want to know", r)
	a.untold.ask1(&frames.ChannelOpen{})
	for _, k := range []*talk{a.told, a.untold} {
		k.ask1(&frames.ConfirmSelect{})
		k.write(message(1, "", queue, "before"))
		k.untilConfirmed(1, 1)
		a.consumer.until(1, frames.BasicDeliverID)
	}
}

// during: a connection is blocked, and told so, when it publishes; who only consumes goes on.
func (a *alarmed) during() {
	late := a.diff.talk("publisher that comes late")
	for _, k := range []*talk{a.told, a.untold, late} {
		k.write(message(1, "", a.name("alarm"), "during"))
	}
	a.told.until(0, frames.ConnectionBlockedID)
	late.until(0, frames.ConnectionBlockedID)
	a.consumer.write(method(1, &frames.BasicAck{DeliveryTag: 1}))
	a.consumer.sync(1)
}

func (a *alarmed) after() {
	late := a.talks[len(a.talks)-1]
	a.told.until(0, frames.ConnectionUnblockedID)
	late.until(0, frames.ConnectionUnblockedID)
	a.told.untilConfirmed(1, 2)
	a.untold.untilConfirmed(1, 2)
	for range 3 {
		a.consumer.until(1, frames.BasicDeliverID)
	}
	require.Empty(a.t, a.untold.seen[0])
	for _, k := range a.talks {
		k.bye()
	}
}
