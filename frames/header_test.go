package frames_test

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// props is a content header of class basic taken apart, independent of the package's own parser. Keys are flags; values are
// as Property returns them.
type props struct {
	weight uint16
	size   uint64
	extra  uint16   // bits of the first flags word that stand for no property
	more   []uint16 // continuation words of the flags
	values map[uint16]string
}

// propertyKinds is section 1.8.3 of the specification: s short string, t table, o octet, T timestamp.
const propertyKinds = "sstoossssTssss"

func flagOf(i int) uint16 { return 0x8000 >> i }

// payload encodes the header.
func (p props) payload() []byte {
	b := binary.BigEndian.AppendUint16(nil, 60)
	b = binary.BigEndian.AppendUint16(b, p.weight)
	b = binary.BigEndian.AppendUint64(b, p.size)
	flags := p.extra
	for f := range p.values {
		flags |= f
	}
	words := append([]uint16{flags}, p.more...)
	for i, w := range words {
		if i < len(words)-1 {
			w |= 1
		}
		b = binary.BigEndian.AppendUint16(b, w)
	}
	for i, kind := range propertyKinds {
		v, ok := p.values[flagOf(i)]
		if !ok {
			continue
		}
		switch kind {
		case 's':
			b = append(b, byte(len(v)))
		case 't':
			b = binary.BigEndian.AppendUint32(b, uint32(len(v)))
		}
		b = append(b, v...)
	}
	return b
}

func (p props) frame() frames.Frame {
	return frames.AppendFrame(nil, frames.TypeHeader, 5, p.payload())
}

// parseProps takes a payload apart; ok is false when it is malformed or has octets left over.
func parseProps(b []byte) (p props, ok bool) {
	if len(b) < 14 || binary.BigEndian.Uint16(b) != 60 {
		return p, false
	}
	p.weight = binary.BigEndian.Uint16(b[2:])
	p.size = binary.BigEndian.Uint64(b[4:])
	flags := binary.BigEndian.Uint16(b[12:])
	p.extra = flags & 2
	b = b[14:]
	for w := flags; w&1 != 0; {
		if len(b) < 2 {
			return p, false
		}
		w = binary.BigEndian.Uint16(b)
		p.more = append(p.more, w&^1)
		b = b[2:]
	}
	p.values = map[uint16]string{}
	for i, kind := range propertyKinds {
		if flags&flagOf(i) == 0 {
			continue
		}
		prefix, n := 0, map[rune]int{'o': 1, 'T': 8}[kind]
		switch {
		case kind == 's' && len(b) >= 1:
			prefix, n = 1, int(b[0])
		case kind == 't' && len(b) >= 4:
			prefix, n = 4, int(binary.BigEndian.Uint32(b))
		case kind == 's' || kind == 't':
			return p, false
		}
		if len(b) < prefix+n {
			return p, false
		}
		p.values[flagOf(i)] = string(b[prefix : prefix+n])
		b = b[prefix+n:]
	}
	return p, len(b) == 0
}

func randomProps(rng *rand.Rand) props {
	p := props{weight: uint16(rng.Uint32()), size: rng.Uint64(), extra: uint16(rng.IntN(2)) * 2, values: map[uint16]string{}}
	for range rng.IntN(4) - 2 {
		p.more = append(p.more, uint16(rng.Uint32())&^1)
	}
	for i, kind := range propertyKinds {
		if rng.IntN(2) == 0 {
			continue
		}
		v := strings.Repeat(string(rune('a'+i)), rng.IntN(256))
		switch kind {
		case 't':
			v = string(randomTable(rng, 2))
		case 'o':
			v = "\x02"
		case 'T':
			v = "12345678"
		}
		p.values[flagOf(i)] = v
	}
	return p
}

func TestParseContentHeader(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for range 500 {
		p := randomProps(rng)
		payload := p.payload()
		h, ok := frames.ParseContentHeader(payload)
		require.True(t, ok)
		require.Equal(t, uint16(60), h.Class)
		require.Equal(t, p.size, h.BodySize)
		table, has := p.values[frames.FlagHeaders]
		require.Equal(t, has, h.HasHeaders)
		require.Equal(t, table, string(h.Headers))
		for i := range propertyKinds {
			want, has := p.values[flagOf(i)]
			got, ok := h.Property(flagOf(i))
			require.Equal(t, has, ok, "property %d", i)
			require.Equal(t, want, string(got), "property %d", i)
		}
		id, ok := h.MessageID()
		require.Equal(t, p.values[frames.FlagMessageID], string(id))
		require.Equal(t, h.Flags&frames.FlagMessageID != 0, ok)
		id, ok = h.CorrelationID()
		require.Equal(t, p.values[frames.FlagCorrelationID], string(id))
		require.Equal(t, h.Flags&frames.FlagCorrelationID != 0, ok)

		size, ok := frames.ContentBodySize(payload)
		require.True(t, ok)
		require.Equal(t, p.size, size)
	}
}

func TestPropertyFlags(t *testing.T) {
	require.Equal(t, uint16(0x8000), frames.FlagContentType)
	require.Equal(t, uint16(0x4000), frames.FlagContentEncoding)
	require.Equal(t, uint16(0x2000), frames.FlagHeaders)
	require.Equal(t, uint16(0x0080), frames.FlagMessageID)
	require.Equal(t, uint16(0x0004), frames.FlagReserved)
	h, ok := frames.ParseContentHeader(props{}.payload())
	require.True(t, ok)
	_, ok = h.Property(0)
	require.False(t, ok)
}

func TestParseContentHeaderCutShort(t *testing.T) {
	p := props{more: []uint16{0, 0x8000}, values: map[uint16]string{
		frames.FlagContentType: "a/b", frames.FlagContentEncoding: "gzip",
		frames.FlagHeaders:   string(frames.AppendString(nil, "k", "v")),
		frames.FlagMessageID: "id", frames.FlagTimestamp: "12345678", frames.FlagAppID: "app",
	}}
	payload := p.payload()
	tableEnd := len(payload) - len("\x02id12345678\x03app")
	for n := range payload {
		h, ok := frames.ParseContentHeader(payload[:n:n])
		require.Equal(t, n >= tableEnd, ok, "%d octets", n)
		if !ok {
			require.Zero(t, h)
			continue
		}
		_, ok = h.MessageID()
		require.Equal(t, n >= tableEnd+3, ok)
		_, ok = h.Property(frames.FlagTimestamp)
		require.Equal(t, n >= tableEnd+3+8, ok)
		_, ok = h.Property(frames.FlagAppID)
		require.False(t, ok)
		got, ok := h.Property(frames.FlagContentEncoding)
		require.True(t, ok)
		require.Equal(t, "gzip", string(got))
	}
	for n := range 14 {
		_, ok := frames.ContentBodySize(payload[:n])
		require.False(t, ok)
	}
}

func TestParseContentHeaderOtherClass(t *testing.T) {
	payload := props{size: 9}.payload()
	payload[1] = 50
	_, ok := frames.ParseContentHeader(payload)
	require.False(t, ok)
	size, ok := frames.ContentBodySize(payload)
	require.True(t, ok)
	require.Equal(t, uint64(9), size)
}
