package frames_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// FuzzNext: a stream is cut into frames that join to the same octets, and only at its end or at a bad frame does it stop.
func FuzzNext(f *testing.F) {
	var stream []byte
	for _, fr := range recorded(f) {
		f.Add([]byte(fr), uint32(0))
		stream = append(stream, fr...)
	}
	f.Add(stream, uint32(frames.MinFrameMax))
	f.Add(stream, uint32(20))
	f.Add(frames.ProtocolHeader[:], uint32(131072))
	f.Fuzz(func(t *testing.T, b []byte, frameMax uint32) {
		rest := b
		for {
			fr, err := frames.Next(rest, frameMax)
			if err != nil {
				checkNextError(t, rest, frameMax, err)
				return
			}
			require.True(t, bytes.HasPrefix(rest, fr))
			require.NoError(t, frames.ParseHead(fr).Check(frameMax))
			require.Equal(t, []byte(fr), frames.AppendFrame(nil, fr.Type(), fr.Channel(), fr.Payload()))
			checkMethodFrame(t, fr)
			rest = rest[len(fr):]
		}
	})
}

func checkNextError(t *testing.T, rest []byte, frameMax uint32, err error) {
	if errors.Is(err, frames.ErrShort) {
		if len(rest) < frames.HeadSize {
			return
		}
		h := frames.ParseHead(rest)
		require.NoError(t, h.Check(frameMax))
		require.Less(t, uint64(len(rest)), uint64(h.Size)+frames.Overhead)
		return
	}
	requireCode(t, frames.FrameError, err)
	if frames.ParseHead(rest).Check(frameMax) == nil {
		require.NotEqual(t, frames.End, rest[uint64(frames.ParseHead(rest).Size)+frames.HeadSize])
	}
}

func checkMethodFrame(t *testing.T, fr frames.Frame) {
	id := fr.Method()
	if m := frames.NewMethod(id); m != nil && m.Decode(fr.Args()) == nil {
		out, err := frames.Next(frames.AppendMethod(nil, fr.Channel(), m), 0)
		require.NoError(t, err)
		require.Len(t, out, len(fr))
		require.Equal(t, id, out.Method())
	}
}

// FuzzMethods: what decodes encodes to the same octets, but for unused bits; the views agree with the codec.
func FuzzMethods(f *testing.F) {
	for _, fr := range recorded(f) {
		if id := fr.Method(); id != 0 {
			f.Add(uint32(id), fr.Args())
		}
	}
	for _, id := range frames.Methods() {
		f.Add(uint32(id), frames.NewMethod(id).AppendArgs(nil))
	}
	f.Fuzz(func(t *testing.T, n uint32, args []byte) {
		id := frames.MethodID(n)
		m := frames.NewMethod(id)
		require.Equal(t, id.Known(), m != nil)
		if m == nil {
			return
		}
		before := bytes.Clone(args)
		err := m.Decode(args)
		require.Equal(t, before, args, "Decode only reads")
		checkViews(t, id, args, m, err)
		if err != nil {
			requireCode(t, frames.SyntaxError, err)
			return
		}
		out := m.AppendArgs(nil)
		require.Len(t, out, len(args))
		for i := range out {
			require.Zero(t, out[i]&^args[i], "octet %d has a bit that was not received", i)
		}
		again := frames.NewMethod(id)
		require.NoError(t, again.Decode(out))
		require.Equal(t, m, again)
		require.Equal(t, out, again.AppendArgs(nil))
	})
}

func checkViews(t *testing.T, id frames.MethodID, args []byte, m frames.Method, err error) {
	switch m := m.(type) {
	case *frames.BasicPublish:
		p, ok := frames.ParsePublish(args)
		require.Equal(t, err == nil, ok)
		if ok {
			require.Equal(t, m.Exchange, string(p.Exchange))
			require.Equal(t, m.RoutingKey, string(p.RoutingKey))
			require.Equal(t, [2]bool{m.Mandatory, m.Immediate}, [2]bool{p.Mandatory, p.Immediate})
		}
	case *frames.BasicDeliver:
		d, ok := frames.ParseDeliver(args)
		require.Equal(t, err == nil, ok)
		if ok {
			require.Equal(t, m.ConsumerTag, string(d.ConsumerTag))
			require.Equal(t, m.DeliveryTag, d.DeliveryTag)
			require.Equal(t, m.Redelivered, d.Redelivered)
			require.Equal(t, m.Exchange, string(d.Exchange))
			require.Equal(t, m.RoutingKey, string(d.RoutingKey))
		}
		checkDeliverTag(t, args, ok)
	case *frames.BasicAck, *frames.BasicNack, *frames.BasicReject:
		_, ok := frames.ParseAck(id, args)
		require.Equal(t, err == nil, ok)
	}
}

// checkDeliverTag: changing the consumer tag and changing it back gives the same frame.
func checkDeliverTag(t *testing.T, args []byte, ok bool) {
	payload := append([]byte{0, 60, 0, 60}, args...)
	fr := frames.Frame(frames.AppendFrame(nil, frames.TypeMethod, 9, payload))
	out := frames.AppendDeliverWithTag(nil, fr, "another tag")
	next, err := frames.Next(out, 0)
	require.NoError(t, err)
	require.Len(t, next, len(out))
	if !ok {
		return
	}
	old, _ := frames.ParseDeliver(args)
	now, ok := frames.ParseDeliver(next.Args())
	require.True(t, ok)
	require.Equal(t, "another tag", string(now.ConsumerTag))
	require.Equal(t, []byte(fr), frames.AppendDeliverWithTag(nil, next, string(old.ConsumerTag)))
}

// FuzzTable: a table is walked to its end or refused; what the walk yields makes the same table again.
func FuzzTable(f *testing.F) {
	for _, fr := range recorded(f) {
		if h, ok := frames.ParseContentHeader(fr.Payload()); ok {
			f.Add([]byte(h.Headers), "CC")
		}
	}
	f.Add([]byte{0, 'F', 0, 0, 0, 6, 0, 'F', 0, 0, 0, 0}, "")
	f.Add([]byte(frames.AppendField(frames.AppendString(nil, "a", "b"), "BCC", 'A', array(text("k"), "t\x01"))), "BCC")
	f.Fuzz(func(t *testing.T, b []byte, name string) {
		tab := frames.Table(b)
		var again frames.Table
		kinds := map[string]byte{}
		err := tab.Each(func(n []byte, kind byte, value []byte) bool {
			again = frames.AppendField(again, string(n), kind, value)
			if _, dup := kinds[string(n)]; !dup {
				kinds[string(n)] = kind
				k, v, ok := tab.Lookup(string(n))
				require.True(t, ok)
				require.Equal(t, kind, k)
				require.Equal(t, value, v)
			}
			return true
		})
		valid := tab.Valid()
		if err != nil {
			requireCode(t, frames.SyntaxError, err)
			requireCode(t, frames.SyntaxError, valid)
			require.True(t, bytes.HasPrefix(b, again))
		} else {
			require.Equal(t, string(b), string(again))
		}
		_, _, ok := tab.Lookup(name)
		_, want := kinds[name]
		require.Equal(t, want, ok)

		without := tab.Without(name)
		_, _, ok = without.Lookup(name)
		require.False(t, ok)
		if valid == nil {
			require.NoError(t, without.Valid())
			ok := tab.RoutingKeys(name, func([]byte) bool { return true })
			require.Equal(t, !want || kinds[name] == 'A', ok)
			var others frames.Table
			require.NoError(t, tab.Each(func(n []byte, kind byte, value []byte) bool {
				if string(n) != name {
					others = frames.AppendField(others, string(n), kind, value)
				}
				return true
			}))
			require.Equal(t, string(others), string(without))
		}
	})
}

// FuzzContentHeader: the parser agrees with a second, simpler one.
func FuzzContentHeader(f *testing.F) {
	for _, fr := range recorded(f) {
		if fr.Type() == frames.TypeHeader {
			f.Add(fr.Payload())
		}
	}
	f.Add(props{more: []uint16{2, 0}}.payload())
	f.Fuzz(func(t *testing.T, payload []byte) {
		p, whole := parseProps(payload)
		h, ok := frames.ParseContentHeader(payload)
		if !ok {
			require.False(t, whole)
			return
		}
		if !whole {
			for i := range propertyKinds {
				h.Property(flagOf(i))
			}
			return
		}
		require.Equal(t, p.size, h.BodySize)
		for i := range propertyKinds {
			want, has := p.values[flagOf(i)]
			got, ok := h.Property(flagOf(i))
			require.Equal(t, has, ok)
			require.Equal(t, want, string(got))
		}
		require.Equal(t, payload, p.payload())
		checkRestored(t, p, true)
		checkRestored(t, p, false)
	})
}

// checkRestored: of a header that nothing but the broker has touched, only an empty table and a marker go.
func checkRestored(t *testing.T, p props, dropEmpty bool) {
	f := p.frame()
	out, changed := frames.AppendHeaderRestored([]byte("before"), f, dropEmpty)
	require.True(t, bytes.HasPrefix(out, []byte("before")))
	if !changed {
		require.Len(t, out, len("before"))
		return
	}
	restored, err := frames.Next(out[len("before"):], 0)
	require.NoError(t, err)
	require.Len(t, restored, len(out)-len("before"))
	require.Less(t, len(restored), len(f))
	now, whole := parseProps(restored.Payload())
	require.True(t, whole)
	was, is := frames.Table(p.values[frames.FlagHeaders]), frames.Table(now.values[frames.FlagHeaders])
	_, still := now.values[frames.FlagHeaders]
	require.Equal(t, len(was) > 0, still)
	if still {
		require.Equal(t, string(was.Without(frames.EmptyMarker)), string(is.Without(frames.EmptyMarker)))
		require.Len(t, is, len(was)-1-len(frames.EmptyMarker)-1)
	} else {
		require.True(t, dropEmpty)
	}
}
