package integration

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// everyKind is a headers table with each field type of RabbitMQ; oddly with values that it reads and writes differently.
func everyKind(oddly bool) frames.Table {
	deep := frames.AppendString(nil, "deep", "value")
	for range 20 {
		deep = frames.AppendTable(nil, "t", deep)
	}
	var table frames.Table
	for _, f := range []struct {
		kind  byte
		value string
	}{
		{'t', "\x01"}, {'t', "\x00"}, {'b', "\xfb"}, {'B', "\xfb"}, {'s', "\xff\x00"}, {'u', "\xff\x00"}, {'I', "\xff\x00\x00\x00"},
		{'i', "\xff\x00\x00\x00"}, {'l', "\xff\x00\x00\x00\x00\x00\x00\x01"}, {'f', "\x3f\x80\x00\x00"}, {'d', "\x3f\xf8\x00\x00\x00\x00\x00\x00"},
		{'D', "\x03\xff\xff\xff\xfe"}, {'S', "\x00\x00\x00\x03a\x00b"}, {'x', "\x00\x00\x00\x02\x00\xce"}, {'V', ""},
		{'T', "\x00\x00\x01\x8b\xcf\xe5\x68\x00"}, {'A', "\x00\x00\x00\x05b\x01t\x00V"}, {'A', "\x00\x00\x00\x00"}, {'F', "\x00\x00\x00\x00"},
	} {
		table = frames.AppendField(table, fmt.Sprintf("%c%d", f.kind, len(table)), f.kind, []byte(f.value))
	}
	if oddly {
		table = frames.AppendField(table, "truer than true", 't', []byte{2})
	}
	return frames.AppendTable(table, "nested", deep)
}

// everyProperty is all 14 properties, for a header frame with the flags 0xfffc.
func everyProperty(headers frames.Table) []byte {
	properties := shortString(nil, "text/plain")
	properties = shortString(properties, "identity")
	properties = append(properties, longTable(headers)...)
	properties = append(properties, 2, 0) // delivery mode, priority 0
	for _, s := range []string{"correlation", "reply", "600000", "message"} {
		properties = shortString(properties, s)
	}
	properties = binary.BigEndian.AppendUint64(properties, 1<<63+5) // timestamp: any 64 bits
	for _, s := range []string{"type", "guest", "app", "cluster"} {
		properties = shortString(properties, s)
	}
	return properties
}

func shortString(dst []byte, s string) []byte { return append(append(dst, byte(len(s))), s...) }

func longTable(t frames.Table) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(t))), t...)
}

// TestShardedHeaders: the content header of a message that went through a sharded exchange is delivered octet for octet
// as that of one that went through an ordinary exchange, by basic.get and by basic.deliver.
func TestShardedHeaders(t *testing.T) {
	t.Parallel()
	cc := frames.AppendField(nil, "CC", 'A', []byte("\x00\x00\x00\x07S\x00\x00\x00\x02no"))
	bcc := frames.AppendField(nil, "BCC", 'A', []byte("\x00\x00\x00\x07S\x00\x00\x00\x02no"))
	for name, header := range map[string][]byte{
		"no properties":        headerFrame(1, 4, 0, nil),
		"one short property":   headerFrame(1, 4, frames.FlagContentType, shortString(nil, "a")),
		"priority 0":           headerFrame(1, 4, frames.FlagPriority, []byte{0}),
		"empty table":          headerFrame(1, 4, frames.FlagHeaders, longTable(nil)),
		"every kind":           headerFrame(1, 4, frames.FlagHeaders, longTable(everyKind(false))),
		"every property":       headerFrame(1, 4, 0xfffc, everyProperty(everyKind(false))),
		"properties, no table": headerFrame(1, 4, frames.FlagContentEncoding|frames.FlagAppID, shortString(shortString(nil, "enc"), "app")),
		"CC":                   headerFrame(1, 4, frames.FlagHeaders, longTable(cc)),
		"BCC alone":            headerFrame(1, 4, frames.FlagHeaders, longTable(bcc)),
		"BCC after others":     headerFrame(1, 4, frames.FlagHeaders, longTable(append(everyKind(false), bcc...))),
		"BCC before others":    headerFrame(1, 4, frames.FlagHeaders, longTable(append(slices.Clone(bcc), everyKind(false)...))),
		"the same name twice":  headerFrame(1, 4, frames.FlagHeaders, longTable(append(slices.Clone(cc), frames.AppendString(frames.AppendString(nil, "a", "1"), "a", "2")...))),
		"names like BCC":       headerFrame(1, 4, frames.FlagHeaders, longTable(frames.AppendString(frames.AppendString(nil, "bcc", "x"), "BCC ", "y"))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireLikeOneQueue(t, func(t *testing.T, url, name, kind string) string {
				return headersDelivered(rawOpen(t, url), name, kind, header)
			})
		})
	}
}

// headersDelivered publishes messages with that header and a body of 4 octets to the exchange and returns the header
// frames with which they come out of the queue of the same name.
func headersDelivered(r *raw, name, kind string, header []byte) string {
	r.t.Helper()
	publish := slices.Concat(method(1, &frames.BasicPublish{Exchange: name, RoutingKey: "some.key", Mandatory: true}), header, bodyFrame(1, "body"))
	r.write(
		method(1, &frames.ExchangeDeclare{Exchange: name, Type: kind, Durable: true}), method(1, &frames.QueueDeclare{Queue: name, Durable: true}),
		method(1, &frames.QueueBind{Queue: name, Exchange: name}), publish, method(1, &frames.BasicGet{Queue: name, NoAck: true}),
		publish, method(1, &frames.BasicConsume{Queue: name, ConsumerTag: "c", NoAck: true}),
	)
	r.expect(1, &frames.ExchangeDeclareOk{})
	r.expect(1, &frames.QueueDeclareOk{})
	r.expect(1, &frames.QueueBindOk{})
	seen := ""
	for _, m := range []frames.Method{&frames.BasicGetOk{}, &frames.BasicConsumeOk{}, &frames.BasicDeliver{}} {
		r.expect(1, m)
		if m.ID() == frames.BasicConsumeOkID {
			continue
		}
		f, err := r.next()
		require.NoError(r.t, err)
		seen += describe(f) + "\n"
		r.expectBody("body")
	}
	return seen
}

func (r *raw) expectBody(want string) {
	r.t.Helper()
	f, err := r.next()
	require.NoError(r.t, err)
	require.Equal(r.t, frames.TypeBody, f.Type(), "%q", head(f, 300))
	require.Equal(r.t, want, string(f.Payload()))
}
