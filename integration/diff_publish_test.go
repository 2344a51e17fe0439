package integration

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// diffPublishing: confirms, returns, transactions, and what publishers get wrong.
var diffPublishing = map[string]func(*diff){
	"confirms":                      publishConfirms,
	"confirms, some refused":        publishRefused,
	"returns before confirms":       publishReturns,
	"transactions":                  publishTransactions,
	"transactions and confirms":     publishModes,
	"properties the broker refuses": publishBadProperties,
	"no channel to publish on":      publishClosed,
	"closed in a content":           publishClosedHalfway,
	"closed before a half content":  publishHalfAfterClose,
}

// mandatory is a whole publish that asks to be returned if nobody gets it.
func mandatory(channel uint16, exchange, key, body string) []byte {
	return slices.Concat(method(channel, &frames.BasicPublish{Exchange: exchange, RoutingKey: key, Mandatory: true}),
		headerFrame(channel, len(body), frames.FlagContentType, shortString(nil, "text/plain")), bodyFrame(channel, body))
}

// withProperties is a whole publish with these properties.
func withProperties(channel uint16, exchange, key string, flags uint16, properties []byte, body string) []byte {
	return slices.Concat(method(channel, &frames.BasicPublish{Exchange: exchange, RoutingKey: key}),
		headerFrame(channel, len(body), flags, properties), bodyFrame(channel, body))
}

// withHeaders is a whole publish with this headers table.
func withHeaders(channel uint16, exchange, key string, headers frames.Table, body string) []byte {
	return withProperties(channel, exchange, key, frames.FlagHeaders, longTable(headers), body)
}

// publishConfirms: numbers start at 1 on each channel, whatever channels did before they were asked for.
func publishConfirms(d *diff) {
	k := d.talk("publisher")
	queue := d.name("confirmed")
	k.ask1(&frames.QueueDeclare{Queue: queue, Durable: true})
	k.write(message(1, "", queue, "unconfirmed"))
	k.ask1(&frames.ConfirmSelect{}, &frames.ConfirmSelect{})
	k.ask(2, &frames.ChannelOpen{})
	k.write(method(2, &frames.ConfirmSelect{NoWait: true}))
	var all []byte
	for i := range 100 {
		all = append(all, withProperties(uint16(1+i%2), "", queue, frames.FlagDeliveryMode, []byte{byte(1 + i%3/2)}, fmt.Sprint(i))...)
	}
	k.write(all)
	k.untilConfirmed(1, 50)
	k.untilConfirmed(2, 50)
	k.ask1(&frames.QueuePurge{Queue: queue})
	k.bye()
}

// publishRefused: a queue that takes no more says nack.
func publishRefused(d *diff) {
	k := d.talk("publisher")
	queue := d.name("full")
	arguments := frames.AppendString(frames.AppendInt32(nil, "x-max-length", 2), "x-overflow", "reject-publish")
	k.ask1(&frames.QueueDeclare{Queue: queue, Arguments: arguments}, &frames.ConfirmSelect{})
	for i := range 5 {
		k.write(message(1, "", queue, fmt.Sprint(i)))
		k.untilConfirmed(1, i+1)
	}
	require.Equal(d.t, acks{1: true, 2: true, 3: false, 4: false, 5: false}, k.confirmed[1])
	k.ask1(&frames.BasicGet{Queue: queue, NoAck: true})
	k.write(message(1, "", queue, "room again"))
	k.untilConfirmed(1, 6)
	k.bye()
}

// publishReturns: a message that nobody gets comes back before it is confirmed.
func publishReturns(d *diff) {
	k := d.talk("publisher")
	queue := d.name("there")
	k.ask1(&frames.QueueDeclare{Queue: queue}, &frames.ConfirmSelect{})
	n := 0
	for _, exchange := range []string{"", "amq.direct", "amq.topic", "amq.fanout", "amq.headers"} {
		n++
		k.write(mandatory(1, exchange, d.name("nobody"), "back to me"))
		k.until(1, frames.BasicReturnID)
		_, early := k.confirmed[1][uint64(n)]
		require.False(d.t, early, "confirmed before it was returned")
		k.untilConfirmed(1, n)
	}
	k.write(mandatory(1, "", queue, "routed"), mandatory(1, "", d.name("nobody"), "between"), mandatory(1, "", queue, "routed too"))
	k.until(1, frames.BasicReturnID)
	k.untilConfirmed(1, n+3)
	k.ask1(&frames.BasicGet{Queue: queue, NoAck: true}, &frames.BasicGet{Queue: queue, NoAck: true}, &frames.BasicGet{Queue: queue, NoAck: true})
	k.bye()
}

// publishTransactions: publishes and acknowledgements take effect at the commit, or not at all; returns come with it.
func publishTransactions(d *diff) {
	k, other := d.talk("in the transaction"), d.talk("beside it")
	queue := d.name("ledger")
	get := func() { other.ask1(&frames.BasicGet{Queue: queue, NoAck: true}) }
	k.ask1(&frames.QueueDeclare{Queue: queue}, &frames.TxSelect{}, &frames.TxSelect{})
	k.write(message(1, "", queue, "undone"))
	k.ask1(&frames.TxRollback{}, &frames.TxCommit{})
	get()
	k.write(message(1, "", queue, "first"), mandatory(1, "", d.name("nobody"), "returned"), message(1, "", queue, "second"))
	k.sync(1)
	get()
	k.ask1(&frames.TxCommit{})
	get()
	k.ask1(&frames.BasicGet{Queue: queue})
	k.write(method(1, &frames.BasicAck{DeliveryTag: 1}))
	k.ask1(&frames.TxRollback{})
	get()
	k.write(method(1, &frames.BasicNack{DeliveryTag: 1, Requeue: true}))
	k.ask1(&frames.TxCommit{})
	get()
	k.write(message(1, "", queue, "never committed"))
	k.ask1(&frames.ChannelClose{ReplyCode: 200})
	get()
	k.bye()
	other.bye()
}

// publishModes: a channel is in one mode, for good.
func publishModes(d *diff) {
	k := d.talk("client")
	for _, said := range [][]byte{
		method(1, &frames.TxCommit{}),
		method(1, &frames.TxRollback{}),
		slices.Concat(method(1, &frames.ConfirmSelect{NoWait: true}), method(1, &frames.TxSelect{})),
		slices.Concat(method(1, &frames.ConfirmSelect{NoWait: true}), method(1, &frames.TxCommit{})),
	} {
		k.refused(1, said)
	}
	k.ask1(&frames.TxSelect{})
	k.refused(1, method(1, &frames.ConfirmSelect{}))
	k.ask1(&frames.TxSelect{})
	k.refused(1, method(1, &frames.ConfirmSelect{NoWait: true}))
	k.ask1(&frames.TxSelect{})
	k.refused(1, message(1, d.name("missing"), "k", "lost"), method(1, &frames.TxCommit{}))
	k.bye()
}

// publishBadProperties: what the broker reads of the content header and does not accept.
func publishBadProperties(d *diff) {
	k := d.talk("publisher")
	queue := d.name("picky")
	k.ask1(&frames.QueueDeclare{Queue: queue})
	for _, said := range [][]byte{
		withProperties(1, "", queue, frames.FlagUserID, shortString(nil, "somebody else"), "x"),
		withProperties(1, "", queue, frames.FlagExpiration, shortString(nil, "soon"), "x"),
		withProperties(1, "", queue, frames.FlagExpiration, shortString(nil, "-1"), "x"),
		withHeaders(1, "", queue, frames.AppendString(nil, "CC", "text"), "x"),
		withHeaders(1, "", queue, frames.AppendInt32(nil, "BCC", 5), "x"),
		withHeaders(1, "", queue, frames.AppendField(nil, "CC", 'V', nil), "x"),
	} {
		k.refused(1, said)
	}
	k.write(withProperties(1, "", queue, frames.FlagUserID, shortString(nil, "guest"), "mine"))
	k.ask1(&frames.BasicGet{Queue: queue, NoAck: true})
	k.bye()
}

// publishClosed: what is sent on a channel that the broker has just closed is dropped, up to close-ok, and the channel
// can be opened again.
func publishClosed(d *diff) {
	k := d.talk("publisher")
	queue := d.name("still")
	k.ask1(&frames.QueueDeclare{Queue: queue})
	for range 3 {
		k.write(message(1, d.name("missing"), "k", "lost"), message(1, "", queue, "after the close"), method(1, &frames.QueueDelete{Queue: queue}))
		k.until(1, frames.ChannelCloseID)
		k.write(message(1, "", queue, "dropped"))
		k.write(method(1, &frames.ChannelCloseOk{}), method(1, &frames.ChannelOpen{}))
		k.until(1, frames.ChannelOpenOkID)
		k.holds(queue, 0)
	}
	k.bye()
}

// publishClosedHalfway: the broker closes the channel while the client is in the middle of a content, which the client ends first, as
// it must. Every place in the content is tried.
func publishClosedHalfway(d *diff) {
	k := d.talk("publisher")
	queue := d.name("half")
	k.ask1(&frames.QueueDeclare{Queue: queue})
	content := [][]byte{method(1, &frames.BasicPublish{RoutingKey: queue}), headerFrame(1, 8, 0, nil), bodyFrame(1, "half"), bodyFrame(1, ""), bodyFrame(1, "half")}
	for n := range len(content) + 1 {
		k.write(message(1, d.name("missing"), "k", "lost"), slices.Concat(content[:n]...))
		k.until(1, frames.ChannelCloseID)
		k.write(slices.Concat(content[n:]...), message(1, "", queue, "dropped"), method(1, &frames.ChannelCloseOk{}), method(1, &frames.ChannelOpen{}))
		k.until(1, frames.ChannelOpenOkID)
	}
	k.holds(queue, 0)
	k.bye()
}

// publishHalfAfterClose: a content that the client begins after the broker's close, and does not end before its close-ok. RabbitMQ
// closes the connection; the proxy has dropped it all, and misses nothing.
func publishHalfAfterClose(d *diff) {
	k := d.talk("publisher")
	k.write(message(1, d.name("missing"), "k", "lost"))
	k.until(1, frames.ChannelCloseID)
	k.write(half(1), method(1, &frames.ChannelCloseOk{}), method(1, &frames.ChannelOpen{}))
	s := k.hear()
	if d.way == direct {
		require.Equal(d.t, uint16(frames.UnexpectedFrame), s.method.(*frames.ConnectionClose).ReplyCode)
	} else {
		require.Equal(d.t, frames.ChannelOpenOkID, s.id)
	}
	k.forget(s)
}
