package frames_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// withHeaders is a header frame with some properties on both sides of the table.
func withHeaders(table frames.Table) frames.Frame {
	return props{size: 12, values: map[uint16]string{
		frames.FlagContentType: "text/plain", frames.FlagHeaders: string(table), frames.FlagPriority: "\x00", frames.FlagAppID: "app",
	}}.frame()
}

func keysOf(t testing.TB, f frames.Frame, name string) []string {
	t.Helper()
	h, ok := frames.ParseContentHeader(f.Payload())
	require.True(t, ok)
	var keys []string
	require.True(t, h.Headers.RoutingKeys(name, func(k []byte) bool { keys = append(keys, string(k)); return true }))
	return keys
}

func TestAppendHeaderBCCOnTheWire(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"no table": {
			"02 0001 0000000E 003C 0000 0000000000000003 0000 CE",
			"02 0001 00000021 003C 0000 0000000000000003 2000 0000000F 03424343 41 00000006 53 00000001 6B CE",
		},
		"no table, properties on both sides": {
			"02 0001 00000013 003C 0000 0000000000000003 9800 02612F 02 05 CE",
			"02 0001 00000026 003C 0000 0000000000000003 B800 02612F 0000000F 03424343 41 00000006 53 00000001 6B 02 05 CE",
		},
		"empty table": {
			"02 0001 00000013 003C 0000 0000000000000003 3000 00000000 02 CE",
			"02 0001 0000002D 003C 0000 0000000000000003 3000 0000001A 03424343 41 00000006 53 00000001 6B 09782D73686172646D71 56 02 CE",
		},
		"another entry": {
			"02 0001 00000016 003C 0000 0000000000000003 3000 00000003 01 61 56 02 CE",
			"02 0001 00000025 003C 0000 0000000000000003 3000 00000012 01 61 56 03424343 41 00000006 53 00000001 6B 02 CE",
		},
		"an array, entries on both sides": {
			"02 0001 00000029 003C 0000 0000000000000003 2000 00000017 01 61 56 03424343 41 00000008 53 00000001 78 7401 016256 CE",
			"02 0001 0000002F 003C 0000 0000000000000003 2000 0000001D 01 61 56 03424343 41 0000000E 53 00000001 78 7401 53 00000001 6B 016256 CE",
		},
		"an empty array": {
			"02 0001 0000001B 003C 0000 0000000000000003 2000 00000009 03424343 41 00000000 CE",
			"02 0001 0000002C 003C 0000 0000000000000003 2000 0000001A 03424343 41 00000006 53 00000001 6B 09782D73686172646D71 56 CE",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f, err := frames.Next(unhex(t, tt.in), 0)
			require.NoError(t, err)
			out, changed := frames.AppendHeaderBCC([]byte("before"), f, "k")
			require.True(t, changed)
			require.Equal(t, append([]byte("before"), unhex(t, tt.want)...), out)
		})
	}
}

func TestAppendHeaderBCCLeavesAlone(t *testing.T) {
	list := array(text("a"))
	good := frames.AppendField(frames.AppendField(nil, "CC", 'A', list), "BCC", 'A', list)
	otherClass := withHeaders(nil)
	otherClass[frames.HeadSize+1] = 50
	longTable := withHeaders(good)
	longTable[bytes.Index(longTable, good)-1] += 20
	tests := map[string]frames.Frame{
		"BCC a string":            withHeaders(frames.AppendString(nil, "BCC", "a")),
		"BCC a table":             withHeaders(frames.AppendTable(nil, "BCC", nil)),
		"BCC void":                withHeaders(frames.AppendField(nil, "BCC", 'V', nil)),
		"CC a string":             withHeaders(frames.AppendString(nil, "CC", "a")),
		"CC a string behind BCC":  withHeaders(frames.AppendString(frames.AppendField(nil, "BCC", 'A', list), "CC", "a")),
		"BCC a string behind CC":  withHeaders(frames.AppendString(frames.AppendField(nil, "CC", 'A', list), "BCC", "a")),
		"CC with a bad element":   withHeaders(frames.AppendField(nil, "CC", 'A', array(text("a"), "Z"))),
		"BCC with a bad element":  withHeaders(frames.AppendField(nil, "BCC", 'A', array(text("a"), "Z"))),
		"unknown field type":      withHeaders(frames.AppendField(nil, "x", 'Z', []byte{1})),
		"malformed behind BCC":    withHeaders(append(good[:len(good):len(good)], 3, 'a')),
		"table past the frame":    longTable,
		"table length cut":        frames.AppendFrame(nil, frames.TypeHeader, 1, append(props{}.payload()[:12], 0x20, 0, 0, 0, 0)),
		"content type cut":        frames.AppendFrame(nil, frames.TypeHeader, 1, append(props{}.payload()[:12], 0x80, 0, 9, 'a')),
		"content encoding absent": frames.AppendFrame(nil, frames.TypeHeader, 1, append(props{}.payload()[:12], 0x40, 0)),
		"continuation word":       props{more: []uint16{0}, values: map[uint16]string{frames.FlagHeaders: ""}}.frame(),
		"continuation absent":     frames.AppendFrame(nil, frames.TypeHeader, 1, append(props{}.payload()[:12], 0, 1)),
		"no flags":                frames.AppendFrame(nil, frames.TypeHeader, 1, props{}.payload()[:12]),
		"empty":                   frames.AppendFrame(nil, frames.TypeHeader, 1, nil),
		"another class":           otherClass,
		"a body frame":            frames.AppendFrame(nil, frames.TypeBody, 1, props{}.payload()),
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			before := bytes.Clone(f)
			out, changed := frames.AppendHeaderBCC([]byte("before"), f, "key")
			require.False(t, changed)
			require.Equal(t, "before", string(out))
			require.Equal(t, frames.Frame(before), f)
		})
	}
	out, changed := frames.AppendHeaderBCC(nil, withHeaders(nil))
	require.False(t, changed, "no keys, nothing to add")
	require.Nil(t, out)
}

func TestAppendHeaderBCCExtendsTheFirst(t *testing.T) {
	a, b := array(text("a")), array(text("b"))
	tab := frames.AppendField(frames.AppendField(nil, "BCC", 'A', a), "BCC", 'A', b)
	out, changed := frames.AppendHeaderBCC(nil, withHeaders(tab), "k")
	require.True(t, changed)
	want := frames.AppendField(frames.AppendField(nil, "BCC", 'A', array(text("a"), text("k"))), "BCC", 'A', b)
	require.Equal(t, []byte(withHeaders(want)), out)

	// What follows the first of a name is never read by the broker, whatever its type.
	tab = frames.AppendField(frames.AppendField(nil, "CC", 'A', a), "BCC", 'A', b)
	tab = frames.AppendString(frames.AppendString(tab, "CC", "x"), "BCC", "y")
	out, changed = frames.AppendHeaderBCC(nil, withHeaders(tab), "k")
	require.True(t, changed)
	require.Equal(t, []string{"a"}, keysOf(t, out, "CC"))
	require.Equal(t, []string{"b", "k"}, keysOf(t, out, "BCC"))
}

func TestAppendHeaderBCCSimilarNames(t *testing.T) {
	tab := frames.AppendString(nil, "bcc", "a")
	for _, name := range []string{"C", "XCC", "BC", "BCCC", "ACC", "", "Cc"} {
		tab = frames.AppendString(tab, name, "a")
	}
	out, changed := frames.AppendHeaderBCC(nil, withHeaders(tab), "k")
	require.True(t, changed)
	require.Equal(t, []byte(withHeaders(frames.AppendField(tab, "BCC", 'A', array(text("k"))))), out)
}

func TestAppendHeaderBCCProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for range 1000 {
		p := randomProps(rng)
		tab := frames.Table(p.values[frames.FlagHeaders])
		if _, has := p.values[frames.FlagHeaders]; has && rng.IntN(2) == 0 {
			tab = frames.AppendField(tab, "BCC", 'A', append([]byte(nil), array(text("one"), "t\x01", text(""))...))
			if rng.IntN(2) == 0 {
				tab = frames.AppendField(tab, "CC", 'A', array(text("cc")))
			}
			p.values[frames.FlagHeaders] = string(tab)
		}
		checkBCCEdit(t, p.frame(), strings.Repeat("k", rng.IntN(300)), "second")
	}
}

// checkBCCEdit adds keys to f's BCC and checks everything that must hold when that worked.
func checkBCCEdit(t testing.TB, f frames.Frame, keys ...string) {
	t.Helper()
	before := bytes.Clone(f)
	old, whole := parseProps(f.Payload())
	out, changed := frames.AppendHeaderBCC(nil, f, keys...)
	require.Equal(t, frames.Frame(before), f, "the frame itself is never written to")
	if !changed {
		require.Nil(t, out)
		return
	}
	edited, err := frames.Next(out, 0)
	require.NoError(t, err)
	require.Len(t, edited, len(out))
	require.Equal(t, f.Channel(), edited.Channel())
	edited = unmarked(t, f, edited)

	// The array holds the old keys, then the new.
	require.Equal(t, append(keysOf(t, f, "BCC"), keys...), keysOf(t, edited, "BCC"))
	require.Equal(t, keysOf(t, f, "CC"), keysOf(t, edited, "CC"))

	// Taking the added octets out gives back the frame.
	require.Equal(t, []byte(f), undoBCC(t, f, edited, keys))

	if !whole {
		return
	}
	now, ok := parseProps(edited.Payload())
	require.True(t, ok)
	require.Equal(t, frames.Table(old.values[frames.FlagHeaders]).Without("BCC"), frames.Table(now.values[frames.FlagHeaders]).Without("BCC"))
	delete(old.values, frames.FlagHeaders)
	delete(now.values, frames.FlagHeaders)
	require.Equal(t, old, now)
}

// unmarked takes the entry EmptyMarker off an edited frame, which is there just when the original had a table of nothing but one BCC.
func unmarked(t testing.TB, original, edited frames.Frame) frames.Frame {
	t.Helper()
	was, ok := frames.ParseContentHeader(original.Payload())
	require.True(t, ok)
	entries, others := 0, false
	_ = was.Headers.Each(func(name []byte, _ byte, _ []byte) bool {
		entries++
		others = others || string(name) != "BCC"
		return true
	})
	marks := was.HasHeaders && entries < 2 && !others
	out, changed := frames.AppendHeaderRestored(nil, edited, false)
	if _, _, before := was.Headers.Lookup(frames.EmptyMarker); before {
		return edited // the client's own entry of that name
	}
	require.Equal(t, marks, changed)
	if !marks {
		return edited
	}
	return out
}

// undoBCC removes what an edit with keys added, knowing from the original only which of table and array were there.
func undoBCC(t testing.TB, original, edited frames.Frame, keys []string) []byte {
	t.Helper()
	was, ok := frames.ParseContentHeader(original.Payload())
	require.True(t, ok)
	h, ok := frames.ParseContentHeader(edited.Payload())
	require.True(t, ok)
	var added []byte
	for _, k := range keys {
		added = append(added, text(k)...)
	}
	kind, value, ok := h.Headers.Lookup("BCC")
	require.True(t, ok)
	require.Equal(t, byte('A'), kind)
	require.True(t, bytes.HasSuffix(value, added))
	_, _, had := was.Headers.Lookup("BCC")

	var tab frames.Table
	first := true
	require.NoError(t, h.Headers.Each(func(name []byte, kind byte, value []byte) bool {
		if string(name) == "BCC" && first {
			first = false
			if !had {
				return true
			}
			value = array(string(value[4 : len(value)-len(added)]))
		}
		tab = frames.AppendField(tab, string(name), kind, value)
		return true
	}))
	p := edited.Payload()
	tableEnd := len(p) - (len(original.Payload()) - tableEndOf(original.Payload(), was))
	tableStart := tableEnd - len(h.Headers) - 4
	out := bytes.Clone(p[:tableStart])
	if was.HasHeaders {
		out = append(out, array(string(tab))...)
	} else {
		out[12] &^= 0x20
	}
	out = append(out, p[tableEnd:]...)
	return frames.AppendFrame(nil, frames.TypeHeader, edited.Channel(), out)
}

// tableEndOf is the offset behind the headers table, or where it would stand, found without the package's help.
func tableEndOf(payload []byte, h frames.ContentHeader) int {
	at := 14
	for payload[at-1]&1 != 0 {
		at += 2
	}
	for _, f := range []uint16{frames.FlagContentType, frames.FlagContentEncoding} {
		if h.Flags&f != 0 {
			at += 1 + int(payload[at])
		}
	}
	if h.HasHeaders {
		at += 4 + len(h.Headers)
	}
	return at
}
