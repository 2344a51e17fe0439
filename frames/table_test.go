package frames_test

import (
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// fixed is RabbitMQ's field types of fixed size, with the size of their values.
var fixed = map[byte]int{
	't': 1, 'b': 1, 'B': 1, 's': 2, 'u': 2, 'I': 4, 'i': 4, 'f': 4, 'D': 5, 'l': 8, 'L': 8, 'd': 8, 'T': 8, 'V': 0,
}

const kinds = "tbBsuIifDlLdTVSxAF"

// randomValue is a value of that kind as Lookup returns it.
func randomValue(rng *rand.Rand, kind byte, depth int) []byte {
	if n, ok := fixed[kind]; ok {
		return make([]byte, n)
	}
	var v []byte
	switch kind {
	case 'F':
		v = randomTable(rng, depth-1)
	case 'A':
		v = randomArray(rng, depth-1)
	default:
		v = []byte(strings.Repeat("z", rng.IntN(20)))
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(v))), v...)
}

func randomKind(rng *rand.Rand, depth int) byte {
	if depth <= 0 {
		return kinds[rng.IntN(len(kinds)-2)]
	}
	return kinds[rng.IntN(len(kinds))]
}

func randomTable(rng *rand.Rand, depth int) frames.Table {
	var t frames.Table
	for i := range rng.IntN(6) {
		kind := randomKind(rng, depth)
		t = frames.AppendField(t, "k"+strconv.Itoa(i), kind, randomValue(rng, kind, depth))
	}
	return t
}

func randomArray(rng *rand.Rand, depth int) []byte {
	var a []byte
	for range rng.IntN(6) {
		kind := randomKind(rng, depth)
		a = append(a, kind)
		a = append(a, randomValue(rng, kind, depth)...)
	}
	return a
}

// array makes the value of an array entry from elements.
func array(elements ...string) []byte {
	content := strings.Join(elements, "")
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(content))), content...)
}

// text makes an array element of type S.
func text(s string) string {
	return "S" + string(binary.BigEndian.AppendUint32(nil, uint32(len(s)))) + s
}

func TestTableKinds(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for kind := range 256 {
		k := byte(kind)
		if strings.IndexByte(kinds, k) < 0 {
			tab := frames.AppendField(nil, "a", k, make([]byte, 16))
			requireCode(t, frames.SyntaxError, tab.Valid())
			requireCode(t, frames.SyntaxError, frames.AppendField(nil, "a", 'A', array(string(k), "0000000000000000")).Valid())
			_, _, ok := tab.Lookup("a")
			require.False(t, ok)
			continue
		}
		value := randomValue(rng, k, 2)
		tab := frames.AppendField(nil, "a", k, value)
		require.NoError(t, tab.Valid(), "kind %c", k)
		require.NoError(t, frames.AppendField(nil, "a", 'A', array(string(k)+string(value))).Valid(), "array of kind %c", k)
		gotKind, got, ok := tab.Lookup("a")
		require.True(t, ok)
		require.Equal(t, k, gotKind)
		require.Equal(t, len(value), len(got))
		require.Equal(t, len(got), cap(got))
		for n := 1; n < len(tab); n++ {
			requireCode(t, frames.SyntaxError, tab[:n].Valid())
			_, _, ok := tab[:n].Lookup("a")
			require.False(t, ok, "kind %c cut to %d octets", k, n)
		}
	}
}

func TestTableValid(t *testing.T) {
	deep := func(n int) frames.Table {
		var tab frames.Table
		for range n - 1 {
			tab = frames.AppendTable(nil, "", tab)
		}
		return tab
	}
	deepArray := func(n int) frames.Table {
		value := array()
		for range n - 2 {
			value = array("A" + string(value))
		}
		return frames.AppendField(nil, "a", 'A', value)
	}
	tests := map[string]struct {
		t  frames.Table
		ok bool
	}{
		"nil":                        {nil, true},
		"empty":                      {frames.Table{}, true},
		"64 deep":                    {deep(64), true},
		"65 deep":                    {deep(65), false},
		"10000 deep":                 {deep(10000), false},
		"64 deep arrays":             {deepArray(64), true},
		"65 deep arrays":             {deepArray(65), false},
		"length past the end":        {frames.AppendField(nil, "a", 'S', []byte{0, 0, 0, 2, 'x'}), false},
		"length of 4 GiB":            {frames.AppendField(nil, "a", 'F', []byte{255, 255, 255, 255, 'x'}), false},
		"inner table cut":            {frames.AppendTable(nil, "a", frames.Table{1, 'b', 's', 0}), false},
		"inner array cut":            {frames.AppendField(nil, "a", 'A', array("S\x00\x00\x00\x09x")), false},
		"array of tables, one bad":   {frames.AppendField(nil, "a", 'A', array("F\x00\x00\x00\x00", "F\x00\x00\x00\x01x")), false},
		"name only":                  {frames.Table{3, 'a', 'b', 'c'}, false},
		"name past the end":          {frames.Table{200, 'a', 'V'}, false},
		"trailing octet":             {append(frames.AppendBool(nil, "a", true), 0), false},
		"empty name, void, the same": {frames.Table{0, 'V', 0, 'V'}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.ok {
				require.NoError(t, tt.t.Valid())
			} else {
				requireCode(t, frames.SyntaxError, tt.t.Valid())
			}
		})
	}
}

func TestTableAppendAndLookup(t *testing.T) {
	tab := frames.AppendString(nil, "s", "text")
	tab = frames.AppendBool(tab, "yes", true)
	tab = frames.AppendBool(tab, "no", false)
	tab = frames.AppendInt32(tab, "i", -2)
	tab = frames.AppendInt64(tab, "l", -3)
	tab = frames.AppendTable(tab, "f", frames.AppendString(nil, "in", "side"))
	tab = frames.AppendString(tab, "s", "second")
	require.NoError(t, tab.Valid())

	s, ok := tab.LookupString("s")
	require.True(t, ok)
	require.Equal(t, "text", string(s), "the first counts")
	for name, want := range map[string]bool{"yes": true, "no": false} {
		b, ok := tab.LookupBool(name)
		require.True(t, ok)
		require.Equal(t, want, b)
	}
	inner, ok := tab.LookupTable("f")
	require.True(t, ok)
	s, ok = inner.LookupString("in")
	require.True(t, ok)
	require.Equal(t, "side", string(s))

	kind, value, ok := tab.Lookup("i")
	require.True(t, ok)
	require.Equal(t, byte('I'), kind)
	require.Equal(t, []byte{255, 255, 255, 254}, value)
	kind, value, ok = tab.Lookup("l")
	require.True(t, ok)
	require.Equal(t, byte('l'), kind)
	require.Equal(t, []byte{255, 255, 255, 255, 255, 255, 255, 253}, value)
	kind, value, ok = tab.Lookup("s")
	require.True(t, ok)
	require.Equal(t, byte('S'), kind)
	require.Equal(t, "\x00\x00\x00\x04text", string(value))

	for _, name := range []string{"", "S", "missing", "ye"} {
		_, _, ok = tab.Lookup(name)
		require.False(t, ok, name)
	}
	_, ok = tab.LookupString("yes")
	require.False(t, ok)
	_, ok = tab.LookupTable("s")
	require.False(t, ok)
	_, ok = tab.LookupBool("s")
	require.False(t, ok)
}

func TestTableNamesAreCut(t *testing.T) {
	tab := frames.AppendBool(nil, strings.Repeat("n", 300), true)
	require.NoError(t, tab.Valid())
	_, ok := tab.LookupBool(strings.Repeat("n", 255))
	require.True(t, ok)
}

func TestTableEach(t *testing.T) {
	tab := frames.AppendBool(frames.AppendString(nil, "a", "1"), "b", true)
	var names []string
	collect := func(name []byte, kind byte, value []byte) bool {
		names = append(names, string(name)+string(kind)+strconv.Itoa(len(value)))
		return true
	}
	require.NoError(t, tab.Each(collect))
	require.Equal(t, []string{"aS5", "bt1"}, names)

	names = nil
	requireCode(t, frames.SyntaxError, tab[:len(tab)-1].Each(collect))
	require.Equal(t, []string{"aS5"}, names)

	n := 0
	require.NoError(t, tab[:len(tab)-1].Each(func([]byte, byte, []byte) bool { n++; return false }))
	require.Equal(t, 1, n)
}

func TestTableWithout(t *testing.T) {
	tab := frames.AppendBool(nil, "a", true)
	tab = frames.AppendString(tab, "x", "1")
	tab = frames.AppendBool(tab, "b", true)
	tab = frames.AppendString(tab, "x", "2")
	want := frames.AppendBool(frames.AppendBool(nil, "a", true), "b", true)
	got := tab.Without("x")
	require.Equal(t, want, got)
	same := tab.Without("y")
	require.Equal(t, tab, same)
	same[0] = 77
	require.Equal(t, byte(1), tab[0], "a copy")
	broken := append(tab[:len(tab):len(tab)], 9, 9)
	require.Equal(t, append(want, 9, 9), broken.Without("x"))
	require.Empty(t, frames.Table(nil).Without("x"))
}

func TestRoutingKeys(t *testing.T) {
	tests := map[string]struct {
		t    frames.Table
		want []string
		ok   bool
	}{
		"missing":           {frames.AppendBool(nil, "a", true), nil, true},
		"empty table":       {nil, nil, true},
		"empty array":       {frames.AppendField(nil, "CC", 'A', array()), nil, true},
		"strings":           {frames.AppendField(nil, "CC", 'A', array(text("a"), text(""), text("b"))), []string{"a", "", "b"}, true},
		"others are passed": {frames.AppendField(nil, "CC", 'A', array(text("a"), "t\x01", "V", text("b"))), []string{"a", "b"}, true},
		"first of two": {frames.AppendField(frames.AppendField(nil, "CC", 'A', array(text("a"))),
			"CC", 'A', array(text("b"))), []string{"a"}, true},
		"a string":           {frames.AppendString(nil, "CC", "a"), nil, false},
		"broken array":       {frames.AppendField(nil, "CC", 'A', array(text("a"), "S")), nil, false},
		"broken table":       {frames.Table{1, 'a', 'Z'}, nil, false},
		"other name's array": {frames.AppendField(nil, "BCC", 'A', array(text("a"))), nil, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			ok := tt.t.RoutingKeys("CC", func(k []byte) bool { got = append(got, string(k)); return true })
			require.Equal(t, tt.ok, ok)
			require.Equal(t, tt.want, got)
		})
	}
	n := 0
	require.True(t, frames.AppendField(nil, "CC", 'A', array(text("a"), text("b"))).RoutingKeys("CC", func([]byte) bool { n++; return false }))
	require.Equal(t, 1, n)
}
