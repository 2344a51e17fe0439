package integration

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// TestTransparentRaw: whole conversations sent in one write, and every frame that comes back, octet for octet. Frames of
// different channels may interleave as they like, so they are compared channel by channel.
func TestTransparentRaw(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]func(e *env) []byte{
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
		"unknown method":           func(e *env) []byte { return frames.AppendFrame(nil, 1, 1, []byte{0, 60, 0, 99}) },
		"unknown class":            func(e *env) []byte { return frames.AppendFrame(nil, 1, 1, []byte{0, 99, 0, 10}) },
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireTransparent(t, func(t *testing.T, e *env, url string, tr *transcript) {
				converse(rawOpen(t, url), tr, say(e))
			})
		})
	}
}

// converse writes what it is given, all at once, notes every frame and ends the connection when all is answered. What
// belongs to ending it is not noted: it may cross with the broker's own closes.
func converse(r *raw, tr *transcript, said []byte) {
	r.t.Helper()
	// Channel last opens last, so the broker has read everything when that is answered; what is still on its way on the
	// other channels comes before the answers to their closes.
	const last = 99
	r.write(said, method(last, &frames.ChannelOpen{}))
	seen := map[uint16][]string{}
	open := map[uint16]bool{1: true}
	for {
		f, err := r.next()
		if err != nil {
			seen[0] = append(seen[0], "the connection ends")
			break
		}
		if f.Method() == frames.ConnectionCloseOkID {
			break
		}
		ch := f.Channel()
		if ch != last && f.Method() != frames.ChannelCloseOkID {
			seen[ch] = append(seen[ch], describe(f))
		}
		r.follow(f, open, last)
	}
	for _, ch := range slices.Sorted(maps.Keys(seen)) {
		tr.add("channel %d:\n%s", ch, strings.Join(seen[ch], "\n"))
	}
}

// follow answers a frame as a client must, closes all channels once the last one is open, and the connection once they
// are all closed.
func (r *raw) follow(f frames.Frame, open map[uint16]bool, last uint16) {
	r.t.Helper()
	ch := f.Channel()
	was := len(open)
	switch f.Method() {
	case frames.ChannelOpenOkID:
		open[ch] = true
		for c := range open {
			if ch == last {
				r.write(method(c, &frames.ChannelClose{ReplyCode: 200, ReplyText: "done"}))
			}
		}
	case frames.ChannelCloseID:
		delete(open, ch)
		r.write(method(ch, &frames.ChannelCloseOk{}))
	case frames.ChannelCloseOkID:
		delete(open, ch)
	case frames.ConnectionCloseID:
		r.write(method(0, &frames.ConnectionCloseOk{}))
	}
	if was > 0 && len(open) == 0 {
		r.write(method(0, &frames.ConnectionClose{ReplyCode: 200, ReplyText: "done"}))
	}
}

// describe writes a frame with its octets; long payloads by their beginning and length.
func describe(f frames.Frame) string {
	what := fmt.Sprintf("type %d", f.Type())
	if f.Type() == frames.TypeMethod {
		what = f.Method().String()
	}
	return fmt.Sprintf("%s, %d octets: %q", what, len(f.Payload()), head(f.Payload(), 1000))
}

// everyField publishes a headers table with each field type of RabbitMQ, and each property, and gets it back.
func everyField(e *env) []byte {
	q := e.name("fields")
	deep := frames.AppendString(nil, "deep", "value")
	for range 20 {
		deep = frames.AppendTable(nil, "t", deep)
	}
	var table frames.Table
	for _, f := range []struct {
		kind  byte
		value string
	}{
		{'t', "\x01"}, {'t', "\x02"}, {'b', "\xfb"}, {'B', "\xfb"}, {'s', "\xff\x00"}, {'u', "\xff\x00"}, {'I', "\xff\x00\x00\x00"},
		{'i', "\xff\x00\x00\x00"}, {'l', "\xff\x00\x00\x00\x00\x00\x00\x01"}, {'f', "\x3f\x80\x00\x00"}, {'d', "\x3f\xf8\x00\x00\x00\x00\x00\x00"},
		{'D', "\x03\xff\xff\xff\xfe"}, {'S', "\x00\x00\x00\x03a\x00b"}, {'x', "\x00\x00\x00\x02\x00\xce"}, {'V', ""},
		{'T', "\x00\x00\x01\x8b\xcf\xe5\x68\x00"}, {'A', "\x00\x00\x00\x05b\x01t\x00V"}, {'A', "\x00\x00\x00\x00"}, {'F', "\x00\x00\x00\x00"},
	} {
		table = frames.AppendField(table, fmt.Sprintf("%c%d", f.kind, len(table)), f.kind, []byte(f.value))
	}
	table = frames.AppendTable(table, "nested", deep)
	properties := shortString(nil, "text/plain")
	properties = shortString(properties, "identity")
	properties = append(binary.BigEndian.AppendUint32(properties, uint32(len(table))), table...)
	properties = append(properties, 2, 0) // delivery mode, priority 0
	for _, s := range []string{"correlation", "reply", "60000", "message"} {
		properties = shortString(properties, s)
	}
	properties = binary.BigEndian.AppendUint64(properties, 1<<63+5) // timestamp: any 64 bits
	for _, s := range []string{"type", "guest", "app", "cluster"} {
		properties = shortString(properties, s)
	}
	return slices.Concat(method(1, &frames.QueueDeclare{Queue: q, Exclusive: true}),
		method(1, &frames.BasicPublish{RoutingKey: q}), headerFrame(1, 4, 0xfffc, properties), bodyFrame(1, "body"),
		method(1, &frames.BasicGet{Queue: q, NoAck: true}))
}

func shortString(dst []byte, s string) []byte { return append(append(dst, byte(len(s))), s...) }

// bigHeader publishes a header frame that is as large as the client may send, of which the delivery is larger still.
func bigHeader(e *env) []byte {
	q := e.name("big")
	table := frames.AppendString(nil, "big", string(body(100_000)))
	properties := append(binary.BigEndian.AppendUint32(nil, uint32(len(table))), table...)
	return slices.Concat(method(1, &frames.QueueDeclare{Queue: q, Exclusive: true}),
		method(1, &frames.BasicPublish{RoutingKey: q}), headerFrame(1, 0, frames.FlagHeaders, properties),
		method(1, &frames.BasicGet{Queue: q, NoAck: true}))
}

// TestTransparentFrameMax: a client that takes small frames gets its bodies cut to them, and headers that do not fit
// as the broker sends them.
func TestTransparentFrameMax(t *testing.T) {
	t.Parallel()
	requireTransparent(t, func(t *testing.T, e *env, url string, tr *transcript) {
		publisher := confirming(t, url)
		queue := e.name("small")
		require.NoError(t, declare(publisher, queue, false, nil))
		m := text(string(body(20_000)))
		m.Headers = map[string]any{"big": string(body(6_000))}
		publish(t, publisher, "", queue, m)
		r := rawTCP(t, url)
		r.login(url, func(ok *frames.ConnectionTuneOk) { ok.FrameMax, ok.ChannelMax = 4096, 7 })
		r.write(method(1, &frames.ChannelOpen{}), method(1, &frames.BasicGet{Queue: queue, NoAck: true}))
		r.expect(1, &frames.ChannelOpenOk{})
		var ok frames.BasicGetOk
		r.expect(1, &ok)
		for left := uint64(1); left > 0; {
			f, err := r.next()
			require.NoError(t, err)
			tr.add("%s", describe(f))
			switch f.Type() {
			case frames.TypeHeader:
				left, _ = frames.ContentBodySize(f.Payload())
			case frames.TypeBody:
				left -= uint64(len(f.Payload()))
			}
		}
	})
}
