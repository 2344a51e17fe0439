package frames

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawMessage is a publish or a delivery with its content, whole and as it should be.
func drawMessage(rt *rapid.T, deliver bool, id uint16) []byte {
	name := rapid.SampledFrom([]string{"", "x", "images", "a.longer.name.than.most"})
	var b []byte
	if deliver {
		b = AppendMethod(nil, id, &BasicDeliver{ConsumerTag: name.Draw(rt, "tag"), DeliveryTag: rapid.Uint64().Draw(rt, "number"), Exchange: name.Draw(rt, "exchange"), RoutingKey: name.Draw(rt, "key")})
	} else {
		b = AppendMethod(nil, id, &BasicPublish{Exchange: name.Draw(rt, "exchange"), RoutingKey: name.Draw(rt, "key"), Mandatory: rapid.Bool().Draw(rt, "mandatory")})
	}
	bodies := rapid.SliceOfN(rapid.SampledFrom([]int{1, 2, 40}), 0, 3).Draw(rt, "bodies")
	size := 0
	for _, n := range bodies {
		size += n
	}
	header := []byte{0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, byte(size)}
	header = append(header, rapid.SampledFrom([]string{"\x00\x00", "\x10\x00\x02", "\x80\x00\x01t", "\x20\x00\x00\x00\x00\x00", "\xE0\x00\x01t\x01e\x00\x00\x00\x08\x01aS\x00\x00\x00\x01b",
		"\x80\x00\xFFshort", "\x00\x01\x00\x00"}).Draw(rt, "properties")...)
	b = AppendFrame(b, TypeHeader, id, header)
	for _, n := range bodies {
		b = AppendFrame(b, TypeBody, id, bytes.Repeat([]byte{byte(n)}, n))
	}
	return b
}

// parts finds the parts of the message at the start of b frame by frame.
func parts(b []byte, most uint32) (m Message, ok bool) {
	f, err := Next(b, most)
	if err != nil || f.Channel() == 0 {
		return m, false
	}
	switch f.Method() {
	case BasicPublishID:
		p, ok := ParsePublish(f.Args())
		if !ok {
			return m, false
		}
		m.Key = len(f) - 3 - len(p.RoutingKey)
	case BasicDeliverID:
		d, ok := ParseDeliver(f.Args())
		if !ok {
			return m, false
		}
		m.Key = len(f) - 2 - len(d.RoutingKey)
	default:
		return m, false
	}
	m.Header = len(f)
	h, err := Next(b[m.Header:], most)
	if err != nil || h.Type() != TypeHeader || h.Channel() != f.Channel() {
		return m, false
	}
	left, ok := ContentBodySize(h.Payload())
	m.Body = m.Header + len(h)
	m.End = m.Body
	for ok && left > 0 {
		body, err := Next(b[m.End:], most)
		if err != nil || body.Type() != TypeBody || body.Channel() != f.Channel() || len(body) == Overhead || uint64(len(body.Payload())) > left {
			return m, false
		}
		left -= uint64(len(body.Payload()))
		m.End += len(body)
	}
	return m, ok
}

// spoil changes a few octets, or cuts some off.
func spoil(rt *rapid.T, b []byte) []byte {
	b = bytes.Clone(b)
	for range rapid.IntRange(0, 2).Draw(rt, "changes") {
		b[rapid.IntRange(0, len(b)-1).Draw(rt, "at")] = rapid.SampledFrom([]byte{0, 1, 2, 3, 7, End, 0xFF}).Draw(rt, "octet")
	}
	if rapid.IntRange(0, 3).Draw(rt, "cut") == 0 {
		b = b[:rapid.IntRange(0, len(b)).Draw(rt, "to")]
	}
	return b
}

// What a message's parts are is what its frames say, whatever the octets.
func TestScanMessage(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		deliver := rapid.Bool().Draw(rt, "deliver")
		b := spoil(rt, append(drawMessage(rt, deliver, 3), 1, 0, 3))
		most := rapid.SampledFrom([]uint32{0, 30, 39, 4096}).Draw(rt, "most")
		checkScan(rt, b, most)
	})
}

func FuzzScanMessage(f *testing.F) {
	content := AppendFrame(AppendFrame(nil, TypeHeader, 1, []byte("\x00\x3C\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00")), TypeBody, 1, []byte("ab"))
	f.Add(append(AppendMethod(nil, 1, &BasicPublish{Exchange: "x", RoutingKey: "k"}), content...), uint32(0))
	f.Add(append(AppendMethod(nil, 1, &BasicDeliver{ConsumerTag: "c", Exchange: "x", RoutingKey: "k"}), content...), uint32(4096))
	f.Fuzz(func(t *testing.T, b []byte, most uint32) { checkScan(t, b, most) })
}

func checkScan(t require.TestingT, b []byte, most uint32) {
	if len(b) < Overhead+4 || Frame(b).Channel() == 0 {
		return // the caller's part
	}
	var got Message
	found := false
	switch Frame(b).Method() {
	case BasicPublishID:
		got, found = ScanPublish(b, most)
	case BasicDeliverID:
		got, found = ScanDelivery(b, most)
	}
	want, ok := parts(b, most)
	require.Equal(t, ok, found, "%x", b)
	if ok {
		require.Equal(t, want, got, "%x", b)
	}
}

// Whatever has a shape is a message whose parts lie where those of the first one do.
func TestShape(t *testing.T) {
	alike := 0
	rapid.Check(t, func(rt *rapid.T) {
		deliver := rapid.Bool().Draw(rt, "deliver")
		scan, prefix := ScanPublish, 0
		b := drawMessage(rt, deliver, 3)
		exchange := PublishExchange
		if deliver {
			scan, exchange = ScanDelivery, DeliverExchange(b)
		}
		m, ok := scan(b, 0)
		require.True(rt, ok)
		prefix = m.Key + 1
		if deliver {
			prefix = DeliverNumber(b)
		}
		s, ok := m.ShapeOf(b, prefix, exchange)
		if !ok {
			return
		}
		require.True(rt, s.Next(b))
		next := spoil(rt, b)
		if rapid.Bool().Draw(rt, "other") {
			next = drawMessage(rt, deliver, 3)
		}
		if !s.Next(next) {
			return
		}
		alike++
		got, ok := scan(next, 0)
		require.True(rt, ok, "%x", next)
		require.Equal(rt, m, got)
		require.Equal(rt, b[:prefix], next[:prefix])
		require.Equal(rt, Frame(b[m.Header:m.Body]).HasTable(), Frame(next[m.Header:m.Body]).HasTable())
	})
	require.Positive(t, alike)
	b := bytes.Repeat(AppendFrame(AppendFrame(AppendMethod(nil, 1, &BasicPublish{Exchange: "x", RoutingKey: "k"}), TypeHeader, 1, []byte("\x00\x3C\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00")), TypeBody, 1, []byte("ab")), 5)
	m, ok := ScanPublish(b, 0)
	require.True(t, ok)
	s, ok := m.ShapeOf(b, m.Key+1, PublishExchange)
	require.True(t, ok)
	require.Equal(t, 5, s.Count(b))
	require.Equal(t, 3, s.Count(b[:4*m.End-1]))
}

// What random messages hardly ever are.
func TestShapeRare(t *testing.T) {
	message := func(args string, size byte) []byte {
		b := AppendFrame(nil, TypeMethod, 1, []byte("\x00\x3C\x00\x3C\x01c\x00\x00\x00\x00\x00\x00\x00\x07\x00"+args))
		b = AppendFrame(b, TypeHeader, 1, []byte{0, 60, 0, 0, size, 0, 0, 0, 0, 0, 0, 2, 0, 0})
		return AppendFrame(b, TypeBody, 1, []byte("ab"))
	}
	first := message("\x01x\x03abc", 0)
	m, ok := ScanDelivery(first, 0)
	require.True(t, ok)
	s, ok := m.ShapeOf(first, DeliverNumber(first), DeliverExchange(first))
	require.True(t, ok)
	require.True(t, s.Next(message("\x01y\x03def", 0)))
	require.False(t, s.Next(message("\x02x\x03\x02bc", 0)), "the length of the first's routing key is in its exchange's name")
	require.False(t, s.Next(message("\x01x\x03abc", 1)), "the size of its body says more than follows")
}

// A whole message with a shard key is its method, the header that AppendHeaderBCC makes, and its bodies.
func TestAppendMessageBCC(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := drawMessage(rt, false, 3)
		m, ok := ScanPublish(b, 0)
		require.True(rt, ok)
		n := rapid.SampledFrom([]int{m.Body, m.End}).Draw(rt, "n")
		key := rapid.SampledFrom([]string{"", "key", "sharding: images - rabbit@host - 0"}).Draw(rt, "shard key")
		header, want := AppendHeaderBCC(nil, Frame(b[m.Header:m.Body]), key)
		dst := append(make([]byte, 0, rapid.IntRange(1, 200).Draw(rt, "room")), 'd')
		got, changed := AppendMessageBCC(dst, b, m, n, key)
		require.Equal(rt, want, changed)
		if !changed {
			require.Equal(rt, "d", string(got))
			return
		}
		require.Equal(rt, "d"+string(b[:m.Header])+string(header)+string(b[m.Body:n]), string(got))
	})
}
