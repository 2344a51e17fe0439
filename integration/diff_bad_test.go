package integration

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// diffErrors: errors that are no single method's.
var diffErrors = map[string]func(*diff){
	"content of many channels interleaved":   errorsInterleaved,
	"everything at once":                     errorsPipelined,
	"a channel's second life":                errorsReopened,
	"channel.close in the middle of content": func(d *diff) { d.lastWords(half(1), method(1, &frames.ChannelClose{ReplyCode: 200})) },
	"channel opened before close-ok": func(d *diff) {
		d.lastWords(method(1, &frames.ChannelClose{ReplyCode: 200}), method(1, &frames.ChannelOpen{}))
	},
	"channel.flow":                           errorsFlow,
	"close-ok that nobody asked for":         func(d *diff) { d.talk("client").write(method(1, &frames.ChannelCloseOk{})); d.endAll() },
	"channel 2 fails in channel 1's content": errorsBeside,
}

// half is a publish of which the header and some of the body is there.
func half(channel uint16) []byte {
	return slices.Concat(method(channel, &frames.BasicPublish{RoutingKey: "nobody"}), headerFrame(channel, 10, 0, nil), bodyFrame(channel, "half"))
}

// lastWords opens a connection, says this and notes what comes until it ends.
func (d *diff) lastWords(pieces ...[]byte) {
	d.t.Helper()
	d.sayLast("client", pieces...)
	d.endAll()
}

// sayLast opens a connection and says this, and a request on channel 1 with whose answer, if it comes to that, the connection is closed. It
// does not wait for what comes: endAll does.
func (d *diff) sayLast(name string, pieces ...[]byte) {
	d.t.Helper()
	r := rawTCP(d.t, d.at)
	r.login(d.at, func(ok *frames.ConnectionTuneOk) { ok.FrameMax = 65536 }) // it shows in texts
	k := d.noting(name, r)
	k.ask1(&frames.ChannelOpen{})
	k.seen[1] = nil
	k.write(slices.Concat(pieces...), method(1, &frames.ExchangeDeclare{Exchange: "amq.direct", Passive: true}))
}

// errorsInterleaved: frames of contents on 40 channels in turns.
func errorsInterleaved(d *diff) {
	k := d.talk("client")
	const channels = 40
	queue := d.name("woven")
	k.ask1(&frames.QueueDeclare{Queue: queue})
	var said []byte
	for ch := uint16(2); ch < 2+channels; ch++ {
		k.ask(ch, &frames.ChannelOpen{})
		k.ask(ch, &frames.ConfirmSelect{})
		said = append(said, method(ch, &frames.BasicPublish{RoutingKey: queue})...)
	}
	for ch := uint16(1 + channels); ch >= 2; ch-- {
		said = append(said, headerFrame(ch, 3*len("piece "), 0, nil)...)
	}
	for range 3 {
		for ch := uint16(2); ch < 2+channels; ch++ {
			said = append(said, slices.Concat(bodyFrame(ch, ""), bodyFrame(ch, "piece "))...)
		}
	}
	k.write(said)
	for ch := uint16(2); ch < 2+channels; ch++ {
		k.untilConfirmed(ch, 1)
	}
	for range channels + 1 {
		k.ask1(&frames.BasicGet{Queue: queue, NoAck: true})
	}
	k.bye()
}

// errorsPipelined: a client that waits for nothing, not even for channel.open-ok.
func errorsPipelined(d *diff) {
	k := d.talk("client")
	queue := d.name("eager")
	for ch := uint16(2); ch < 6; ch++ {
		k.write(method(ch, &frames.ChannelOpen{}), method(ch, &frames.QueueDeclare{Queue: queue + string('0'+byte(ch))}), method(ch, &frames.ConfirmSelect{}),
			message(ch, "", queue+string('0'+byte(ch)), "eager"), method(ch, &frames.BasicGet{NoAck: true}), method(ch, &frames.BasicConsume{ConsumerTag: "c"}),
			message(ch, "", queue+string('0'+byte(ch)), "more"))
	}
	for ch := uint16(2); ch < 6; ch++ {
		k.until(ch, frames.BasicGetOkID)
		k.until(ch, frames.BasicConsumeOkID)
		k.until(ch, frames.BasicDeliverID)
		k.untilConfirmed(ch, 2)
	}
	k.bye()
}

// errorsReopened: a channel's number is free again with close-ok, and nothing of its former life is left.
func errorsReopened(d *diff) {
	k := d.talk("client")
	queue := d.name("reborn")
	k.ask1(&frames.QueueDeclare{Queue: queue}, &frames.ConfirmSelect{})
	k.write(message(1, "", queue, "one"))
	k.untilConfirmed(1, 1)
	clear(k.confirmed[1])
	for range 5 {
		k.ask1(&frames.ChannelClose{ReplyCode: 200, ReplyText: "again"})
		k.write(method(1, &frames.ChannelOpen{}), method(1, &frames.ConfirmSelect{}), message(1, "", queue, "numbered from one"), method(1, &frames.BasicConsume{Queue: queue, ConsumerTag: "c", NoAck: true}))
		k.until(1, frames.BasicDeliverID)
		k.untilConfirmed(1, 1)
		clear(k.confirmed[1])
		k.ask1(&frames.BasicCancel{ConsumerTag: "c"})
	}
	k.bye()
}

func errorsFlow(d *diff) {
	k := d.talk("client")
	k.ask1(&frames.ChannelFlow{Active: true})
	k.write(method(1, &frames.ChannelFlow{Active: false}))
	k.end()
}

// errorsBeside: the error of one channel leaves another one's content alone.
func errorsBeside(d *diff) {
	k := d.talk("client")
	queue := d.name("unharmed")
	k.ask1(&frames.QueueDeclare{Queue: queue})
	k.ask(2, &frames.ChannelOpen{})
	k.write(method(1, &frames.BasicPublish{RoutingKey: queue}), headerFrame(1, 8, 0, nil), bodyFrame(1, "half"),
		method(2, &frames.QueueDeclare{Queue: d.name("missing"), Passive: true}))
	k.until(2, frames.ChannelCloseID)
	k.write(bodyFrame(1, "half"), method(2, &frames.ChannelCloseOk{}), method(1, &frames.BasicGet{Queue: queue, NoAck: true}))
	k.until(1, frames.BasicGetOkID)
	k.bye()
}

// diffBadInput: octets that are no AMQP, or not at that place. Each ends its own connection.
var diffBadInput = map[string]func(*diff){
	"bad frames": func(d *diff) {
		for name, octets := range badFrames(d) {
			d.sayLast(name, octets)
		}
		d.endAll()
		d.instead(hungUpFor)
	},
	"requests before a bad frame": badAfterRequests,
}

// badAfterRequests: what came before octets that cannot be read is carried out and answered before the connection is closed.
func badAfterRequests(d *diff) {
	var before []byte
	for i := range 20 {
		before = append(before, method(1, &frames.QueueDeclare{Queue: d.name("before" + strconv.Itoa(i))})...)
	}
	for name, octets := range map[string][]byte{
		"wrong end octet":           {1, 0, 1, 0, 0, 0, 5, 0, 20, 0, 20, 1, 0xcd},
		"wrong end octet of a body": append(half(1), 3, 0, 1, 0, 0, 0, 1, 'x', 0),
		"unknown frame type":        {5, 0, 1, 0, 0, 0, 1, 'x', frames.End},
		"frame above frame_max":     {3, 0, 1, 0, 2, 0, 0},
	} {
		d.sayLast(name, before, octets)
	}
	d.endAll()
}

// hungUpFor is what RabbitMQ ends the connection for without a word: to the proxy it has lost the broker, and it tells the client so,
// with the code that the specification has for what the client did.
var hungUpFor = map[string]frames.Exception{
	"unknown class":               {Code: frames.CommandInvalid, Method: 99<<16 | 10},
	"unknown method":              {Code: frames.CommandInvalid, Method: 60<<16 | 99},
	"unknown method on channel 0": {Code: frames.CommandInvalid, Method: 10<<16 | 99},
	"class without methods":       {Code: frames.CommandInvalid, Method: 70<<16 | 10},
	"array that lies":             {Code: frames.SyntaxError, Method: frames.QueueDeclareID},
	"entry longer than its table": {Code: frames.SyntaxError, Method: frames.QueueDeclareID},
	"name longer than its table":  {Code: frames.SyntaxError, Method: frames.QueueDeclareID},
	"nested table that lies":      {Code: frames.SyntaxError, Method: frames.QueueDeclareID},
	"string of 4 GiB in a table":  {Code: frames.SyntaxError, Method: frames.QueueDeclareID},
	"table entry of unknown type": {Code: frames.SyntaxError, Method: frames.QueueDeclareID},
	"table entry without type":    {Code: frames.SyntaxError, Method: frames.QueueDeclareID},
	"table entry without value":   {Code: frames.SyntaxError, Method: frames.QueueDeclareID},
}

// instead checks connections by name: where RabbitMQ hangs up without a word, the proxy closes with that code and those ids.
func (d *diff) instead(closes map[string]frames.Exception) {
	d.t.Helper()
	for _, k := range d.talks {
		e, ok := closes[k.name]
		if !ok {
			continue
		}
		if d.way == direct {
			require.Equal(d.t, []string{"the connection ends"}, k.seen[0], k.name)
			continue
		}
		require.Len(d.t, k.seen[0], 1, k.name)
		text := fmt.Sprintf("connection.close reply-code=%d reply-text=\"%s - ", e.Code, e.Code.Name())
		require.Contains(d.t, k.seen[0][0], text, k.name)
		if e.Method != 0 {
			require.Contains(d.t, k.seen[0][0], fmt.Sprintf("class-id=%d method-id=%d", e.Method.Class(), e.Method.Method()), k.name)
		}
		k.seen[0] = []string{"the connection ends"}
	}
}

// badFrames are octets for a connection with channel 1 open.
func badFrames(d *diff) map[string][]byte {
	publish := method(1, &frames.BasicPublish{RoutingKey: "nobody"})
	args := func(class, id byte, rest ...byte) []byte {
		return frames.AppendFrame(nil, frames.TypeMethod, 1, append([]byte{0, class, 0, id}, rest...))
	}
	table := func(t string) []byte {
		return slices.Concat(method(1, &frames.QueueDeclare{Queue: d.name("lying"), Arguments: frames.Table(t)}))
	}
	headers := func(t string) []byte {
		return withHeaders(1, "", "nobody", frames.Table(t), "x")
	}
	return map[string][]byte{
		"unknown frame type":                {5, 0, 1, 0, 0, 0, 0, frames.End},
		"unknown type and a payload":        {5, 0, 1, 0, 0, 0, 2, 'x', 0, frames.End},
		"frame type 0":                      {0, 0, 1, 0, 0, 0, 0, frames.End},
		"wrong end octet":                   {1, 0, 1, 0, 0, 0, 5, 0, 20, 0, 20, 1, 0xcd},
		"wrong end octet of a body":         slices.Concat(publish, headerFrame(1, 1, 0, nil), []byte{3, 0, 1, 0, 0, 0, 1, 'x', 0}),
		"wrong end octet of a header":       slices.Concat(publish, headerFrame(1, 1, 0, nil)[:21], []byte{0x21}),
		"HTTP after login":                  []byte("GET / HTTP/1.1\r\nHost: nowhere\r\n\r\n"),
		"a protocol header again":           frames.ProtocolHeader[:],
		"method on channel 0":               method(0, &frames.QueueDeclare{Queue: "q"}),
		"publish on channel 0":              message(0, "", "nobody", "x"),
		"header on channel 0":               headerFrame(0, 1, 0, nil),
		"body on channel 0":                 bodyFrame(0, "x"),
		"channel.open on channel 0":         method(0, &frames.ChannelOpen{}),
		"connection.open on channel 1":      method(1, &frames.ConnectionOpen{VirtualHost: "/"}),
		"connection.close on channel 1":     method(1, &frames.ConnectionClose{ReplyCode: 200}),
		"connection.start-ok when open":     method(0, startOk("guest", "guest", true)),
		"connection.tune-ok when open":      method(0, &frames.ConnectionTuneOk{ChannelMax: 1, FrameMax: 4096}),
		"a server's method on channel 0":    method(0, &frames.ConnectionTune{}),
		"a server's method":                 method(1, &frames.QueueDeclareOk{Queue: "q"}),
		"a server's content":                method(1, &frames.BasicDeliver{ConsumerTag: "c", DeliveryTag: 1}),
		"channel not open":                  method(7, &frames.QueueDeclare{Queue: "q"}),
		"publish, channel not open":         message(7, "", "nobody", "x"),
		"header, channel not open":          headerFrame(7, 1, 0, nil),
		"body, channel not open":            bodyFrame(7, "x"),
		"close, channel not open":           method(7, &frames.ChannelClose{ReplyCode: 200}),
		"heartbeat on channel 1":            frames.AppendFrame(nil, frames.TypeHeartbeat, 1, nil),
		"heartbeat with a payload":          frames.AppendFrame(nil, frames.TypeHeartbeat, 0, []byte("beat")),
		"heartbeat in a content":            slices.Concat(half(1), frames.AppendFrame(nil, frames.TypeHeartbeat, 0, nil), bodyFrame(1, "second")),
		"header without a method":           headerFrame(1, 1, 0, nil),
		"body without a method":             bodyFrame(1, "x"),
		"body without a header":             slices.Concat(publish, bodyFrame(1, "x")),
		"header twice":                      slices.Concat(publish, headerFrame(1, 1, 0, nil), headerFrame(1, 1, 0, nil)),
		"method in a content":               slices.Concat(publish, method(1, &frames.BasicQos{})),
		"method behind the header":          slices.Concat(half(1), method(1, &frames.QueueDeclare{Queue: "q"})),
		"publish in a publish":              slices.Concat(publish, publish),
		"more body than said":               slices.Concat(publish, headerFrame(1, 2, 0, nil), bodyFrame(1, "xyz")),
		"body for an empty content":         slices.Concat(publish, headerFrame(1, 0, 0, nil), bodyFrame(1, "x")),
		"header of another class":           slices.Concat(publish, frames.AppendFrame(nil, frames.TypeHeader, 1, []byte{0, 50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0})),
		"header cut short":                  slices.Concat(publish, frames.AppendFrame(nil, frames.TypeHeader, 1, []byte{0, 60, 0, 0, 0, 0})),
		"header with a weight":              slices.Concat(publish, frames.AppendFrame(nil, frames.TypeHeader, 1, []byte{0, 60, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})),
		"header with unknown flags":         slices.Concat(publish, headerFrame(1, 0, 2, nil)),
		"header with a second flags word":   slices.Concat(publish, headerFrame(1, 0, 1, []byte{0, 0})),
		"header with more than its flags":   slices.Concat(publish, headerFrame(1, 0, 0, []byte("more"))),
		"a property cut short":              slices.Concat(publish, headerFrame(1, 0, frames.FlagContentType, []byte{200, 'x'})),
		"unknown class":                     args(99, 10),
		"unknown method":                    args(60, 99),
		"unknown method on channel 0":       frames.AppendFrame(nil, frames.TypeMethod, 0, []byte{0, 10, 0, 99}),
		"class without methods":             args(70, 10),
		"method frame without ids":          frames.AppendFrame(nil, frames.TypeMethod, 1, []byte{0, 60}),
		"method frame without anything":     frames.AppendFrame(nil, frames.TypeMethod, 1, nil),
		"method without arguments":          args(50, 10),
		"arguments cut short":               args(50, 10, 0, 0, 9, 'q'),
		"arguments and more":                args(20, 20, 1, 2, 3),
		"publish cut short":                 args(60, 40, 0, 0, 200, 'q'),
		"publish without bits":              args(60, 40, 0, 0, 0, 1, 'k'),
		"consume cut short":                 args(60, 20, 0, 0, 1),
		"ack cut short":                     args(60, 80, 0, 0, 0),
		"table longer than its frame":       args(50, 10, 0, 0, 1, 'q', 0, 0, 0, 0, 99, 'x'),
		"table of 4 GiB":                    args(50, 10, 0, 0, 1, 'q', 0, 0xff, 0xff, 0xff, 0xff),
		"table of minus a lot":              args(50, 10, 0, 0, 1, 'q', 0, 0x80, 0, 0, 0),
		"entry longer than its table":       table("\x01aS\x00\x00\x00\x63x"),
		"string of 4 GiB in a table":        table("\x01aS\xff\xff\xff\xffx"),
		"table entry of unknown type":       table("\x01a?xyz"),
		"table entry without value":         table("\x01aI\x00"),
		"table entry without type":          table("\x01a"),
		"name longer than its table":        table("\x63a"),
		"array that lies":                   table("\x01aA\x00\x00\x00\x09I\x00\x00\x00\x01"),
		"nested table that lies":            table("\x01aF\x00\x00\x00\x05\x01bS\x00\x00"),
		"headers: entry too long":           headers("\x01aS\x00\x00\x00\x63x"),
		"headers: 4 GiB":                    headers("\x01aS\xff\xff\xff\xffx"),
		"headers: unknown type":             headers("\x01a?xyz"),
		"headers: name too long":            headers("\x63a"),
		"headers: table longer than frame":  slices.Concat(publish, headerFrame(1, 0, frames.FlagHeaders, []byte("\x00\x00\x00\x63\x01a"))),
		"headers: table of 4 GiB":           slices.Concat(publish, headerFrame(1, 0, frames.FlagHeaders, []byte("\xff\xff\xff\xff\x01a"))),
		"headers: priority instead of them": slices.Concat(publish, headerFrame(1, 0, frames.FlagHeaders|frames.FlagPriority, []byte("\x00\x00\x00\x00"))),
		"immediate":                         method(1, &frames.BasicPublish{Immediate: true}),
		"prefetch size":                     method(1, &frames.BasicQos{PrefetchSize: 1}),
		"consumer tag of 255 octets":        method(1, &frames.BasicConsume{Queue: "missing", ConsumerTag: string(body(255))}),
	}
}
