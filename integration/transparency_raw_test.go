package integration

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// rawScenarios are whole conversations sent in one write: every frame that comes back is compared, octet for octet. Frames
// of different channels may interleave as they like, so they are compared channel by channel.
var rawScenarios = map[string]func(e *env) []byte{
	"pipelined": func(e *env) []byte {
		q := e.name("pipelined")
		return slices.Concat(method(1, &frames.QueueDeclare{Queue: q, AutoDelete: true}),
			message(1, "", q, "one"), message(1, "", q, ""), message(1, "", "", "lost"),
			method(1, &frames.BasicGet{Queue: q}), method(1, &frames.BasicGet{Queue: ""}), method(1, &frames.BasicGet{Queue: q}),
			method(1, &frames.BasicNack{Multiple: true}), method(1, &frames.QueueDelete{Queue: q}))
	},
	"body in pieces": func(e *env) []byte {
		q := e.name("pieces")
		return slices.Concat(method(1, &frames.QueueDeclare{Queue: q, Exclusive: true}),
			method(1, &frames.BasicPublish{RoutingKey: q}), headerFrame(1, 6, 0, nil),
			bodyFrame(1, "a"), bodyFrame(1, ""), bodyFrame(1, "bc"), bodyFrame(1, ""), bodyFrame(1, "def"),
			method(1, &frames.BasicGet{Queue: q, NoAck: true}))
	},
	"two channels interleaved": func(e *env) []byte {
		q := e.name("interleaved")
		return slices.Concat(method(1, &frames.QueueDeclare{Queue: q, Exclusive: true}), method(2, &frames.ChannelOpen{}),
			method(1, &frames.BasicPublish{RoutingKey: "nobody", Mandatory: true}), method(2, &frames.BasicPublish{RoutingKey: "none", Mandatory: true}),
			headerFrame(2, 3, 0, nil), headerFrame(1, 2, 0, nil), bodyFrame(1, "1"), bodyFrame(2, "t"), bodyFrame(2, "wo"), bodyFrame(1, "!"))
	},
	"after the broker's close": func(e *env) []byte {
		return slices.Concat(message(1, "missing", "k", "lost"), message(1, "missing", "k", "lost too"),
			method(1, &frames.BasicQos{PrefetchCount: 1}), message(1, "", "k", "gone"), method(2, &frames.ChannelOpen{}),
			method(2, &frames.BasicQos{PrefetchCount: 1}))
	},
	"odds and ends": func(e *env) []byte {
		return slices.Concat(method(1, &frames.ChannelFlow{Active: true}), method(1, &frames.BasicRecover{Requeue: true}),
			method(1, &frames.BasicRecoverAsync{Requeue: true}), method(1, &frames.AccessRequest{Realm: "/data", Active: true}),
			frames.AppendFrame(nil, frames.TypeHeartbeat, 0, nil), method(1, &frames.TxSelect{}), method(1, &frames.TxCommit{}),
			method(0, &frames.ConnectionUpdateSecret{NewSecret: []byte("guest"), Reason: "why not"}),
			method(1, &frames.BasicQos{PrefetchSize: 0, PrefetchCount: 3, Global: true}), method(1, &frames.ExchangeDelete{Exchange: "missing"}))
	},
	"flow off":                 func(e *env) []byte { return method(1, &frames.ChannelFlow{Active: false}) },
	"prefetch size":            func(e *env) []byte { return method(1, &frames.BasicQos{PrefetchSize: 1}) },
	"publish without channel":  func(e *env) []byte { return message(9, "", "k", "lost") },
	"channel opened twice":     func(e *env) []byte { return method(1, &frames.ChannelOpen{}) },
	"immediate":                func(e *env) []byte { return method(1, &frames.BasicPublish{Immediate: true, RoutingKey: "k"}) },
	"a server's method":        func(e *env) []byte { return method(1, &frames.BasicCancelOk{ConsumerTag: "mine"}) },
	"open on an open one":      func(e *env) []byte { return method(0, &frames.ConnectionOpen{VirtualHost: e.vhost}) },
	"unknown delivery tag":     func(e *env) []byte { return method(1, &frames.BasicAck{DeliveryTag: 5}) },
	"no wait with an error":    func(e *env) []byte { return method(1, &frames.QueueDeclare{Queue: "amq.x", NoWait: true}) },
	"cancel of nothing":        func(e *env) []byte { return method(1, &frames.BasicCancel{ConsumerTag: "nobody"}) },
	"every kind of field":      everyField,
	"headers above frame room": bigHeader,
	"malformed headers table": func(e *env) []byte {
		q := e.name("malformed")
		return slices.Concat(method(1, &frames.QueueDeclare{Queue: q, Exclusive: true}), method(1, &frames.BasicPublish{RoutingKey: q}),
			headerFrame(1, 0, frames.FlagHeaders, []byte("\x00\x00\x00\x05\x01aA\x00\x00")))
	},
}

// everyField publishes a headers table with each field type of RabbitMQ, and each property, and gets it back.
func everyField(e *env) []byte {
	q := e.name("fields")
	return slices.Concat(method(1, &frames.QueueDeclare{Queue: q, Exclusive: true}),
		method(1, &frames.BasicPublish{RoutingKey: q}), headerFrame(1, 4, 0xfffc, everyProperty(everyKind(true))), bodyFrame(1, "body"),
		method(1, &frames.BasicGet{Queue: q, NoAck: true}))
}

// bigHeader publishes a header frame that is as large as the client may send, of which the delivery is larger still.
func bigHeader(e *env) []byte {
	q := e.name("big")
	table := frames.AppendString(nil, "big", string(body(100_000)))
	properties := append(binary.BigEndian.AppendUint32(nil, uint32(len(table))), table...)
	return slices.Concat(method(1, &frames.QueueDeclare{Queue: q, Exclusive: true}),
		method(1, &frames.BasicPublish{RoutingKey: q}), headerFrame(1, 0, frames.FlagHeaders, properties),
		method(1, &frames.BasicGet{Queue: q, NoAck: true}))
}

// goFrameMax: a client that takes small frames gets its bodies cut to them, and headers that do not fit as the broker sends them.
func goFrameMax(t *testing.T, e *env, url string, tr *transcript) {
	publisher := confirming(t, url)
	queue := e.name("small")
	require.NoError(t, declare(publisher, queue, false, nil))
	m := text(string(body(20_000)))
	m.Headers = map[string]any{"big": string(body(12_000))}
	publish(t, publisher, "", queue, m)
	r := rawTCP(t, url)
	r.login(url, func(ok *frames.ConnectionTuneOk) { ok.FrameMax, ok.ChannelMax = 8192, 7 })
	r.write(method(1, &frames.ChannelOpen{}), method(1, &frames.BasicGet{Queue: queue, NoAck: true}))
	r.expect(1, &frames.ChannelOpenOk{})
	var ok frames.BasicGetOk
	r.expect(1, &ok)
	f, err := r.next()
	require.NoError(t, err)
	tr.add("%s", describe(f))
	left, sized := frames.ContentBodySize(f.Payload())
	require.True(t, sized)
	var whole []byte
	for uint64(len(whole)) < left {
		f, err := r.next()
		require.NoError(t, err)
		require.LessOrEqual(t, len(f), 8192, "octets of a body frame")
		whole = append(whole, f.Payload()...)
	}
	tr.add("%q", whole)
}
