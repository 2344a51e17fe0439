package shards

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSetOrder(t *testing.T) {
	set := NewSet("images", []string{"rabbit@b", "rabbit@a", "rabbit@b"}, 11)
	require.Equal(t, 22, set.Len())
	require.Equal(t, Shard{Queue: "sharding: images - rabbit@a - 0", Node: "rabbit@a", Index: 0}, set.At(0))
	require.Equal(t, "sharding: images - rabbit@a - 10", set.At(2).Queue, "10 before 2")
	require.Equal(t, "sharding: images - rabbit@a - 2", set.At(3).Queue)
	require.Equal(t, "rabbit@b", set.At(11).Node)
	require.Equal(t, "images", set.Exchange())
	require.NoError(t, set.Validate())

	i, ok := set.Index("sharding: images - rabbit@b - 10")
	require.True(t, ok)
	require.Equal(t, 13, i)
	_, ok = set.Index("sharding: images - rabbit@c - 0")
	require.False(t, ok)

	require.Equal(t, 21, set.Pick(21))
	require.Equal(t, 1, set.Pick(23))
	require.Zero(t, NewSet("images", nil, 3).Len())
	require.Zero(t, NewSet("images", []string{"a"}, -1).Len())
}

// One node's name may be the start of another's: order is by whole queue name.
func TestSetOrderIsByQueueName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.SliceOfN(rapid.StringMatching(`[a-c@ -]{1,6}`), 1, 5).Draw(t, "nodes")
		set := NewSet("x", nodes, rapid.IntRange(1, 12).Draw(t, "per_node"))
		for i := range set.Len() {
			require.Equal(t, set.At(i).Queue, QueueName("x", set.At(i).Node, set.At(i).Index))
			if i > 0 {
				require.LessOrEqual(t, set.At(i-1).Queue, set.At(i).Queue)
			}
		}
	})
}

func TestSetGeneration(t *testing.T) {
	set := NewSet("x", []string{"a"}, 2)
	later := set.WithGeneration(7)
	require.Equal(t, uint64(1), set.Generation())
	require.Equal(t, uint64(7), later.Generation())
	require.True(t, set.Same(later))
	require.False(t, set.Same(NewSet("x", []string{"a"}, 3)))
	require.False(t, set.Same(nil))
	require.True(t, (*Set)(nil).Same(nil))
}

// Bindings in the broker hold these keys: they are for ever.
func TestSetKeyGolden(t *testing.T) {
	set := NewSet("images", []string{"rabbit@a"}, 2)
	want := fmt.Sprintf("shardmq:%016x", XXHash([]byte("sharding: images - rabbit@a - 0")))
	require.Equal(t, want, set.Key(0, 1))
	require.Equal(t, want+".shardmq:", set.Key(0, 2))
	require.Equal(t, want+".shardmq:.shardmq:", set.Key(0, 3))
	require.Equal(t, want, set.Key(0, 0), "clamped")
	require.Equal(t, set.Key(0, MaxWords), set.Key(0, 99), "clamped")
	require.Equal(t, "shardmq:f99937932f16d2b2", want)
}

func TestSetKeys(t *testing.T) {
	small := NewSet("images", nodeNames(1), 3)
	large := NewSet("images", nodeNames(3), 50)
	seen := make(map[string]bool)
	for i := range large.Len() {
		for words := 1; words <= MaxWords; words++ {
			key := large.Key(i, words)
			require.False(t, seen[key])
			seen[key] = true
			require.Equal(t, words, Words([]byte(key)))
			require.LessOrEqual(t, len(key), 255)
			for word := range strings.SplitSeq(key, ".") {
				require.True(t, strings.HasPrefix(word, "shardmq:"))
			}
		}
		if j, ok := small.Index(large.At(i).Queue); ok {
			require.Equal(t, small.Key(j, 4), large.Key(i, 4), "a key depends on the queue name alone")
		}
	}
}

func TestSetValidate(t *testing.T) {
	tests := []struct {
		name   string
		set    *Set
		reason string
	}{
		{"queue name too long", NewSet(strings.Repeat("x", 240), []string{"rabbit@a"}, 1), "longer than 255"},
		{"catch-all name too long", NewSet(strings.Repeat("x", 250), nil, 1), "longer than 255"},
		{"fixed total under another exchange's names", SetOf("images - rabbit@a", 1, []Shard{{Queue: QueueNameFixed("images - rabbit@a", 0)}}), "another exchange"},
	}
	same := NewSet("images", nodeNames(1), 2)
	same.keys[1] = same.keys[0]
	tests = append(tests, struct {
		name   string
		set    *Set
		reason string
	}{"two shards with one key", same, "also that of 'sharding: images - rabbit@a - 0'"})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.set.Validate()
			var wrong *SetError
			require.ErrorAs(t, err, &wrong)
			require.ErrorContains(t, err, tt.reason)
		})
	}
}

func TestWords(t *testing.T) {
	tests := []struct {
		key  string
		want int
	}{
		{"", 1},
		{"a", 1},
		{".", 2},
		{"a.b", 2},
		{"order.123.created", 3},
		{strings.Repeat(".", 14), 15},
		{strings.Repeat(".", 15), 16},
		{strings.Repeat(".", 16), 16},
		{strings.Repeat(".", 255), 16},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, Words([]byte(tt.key)), tt.key)
	}
}

func TestUnsharded(t *testing.T) {
	require.Equal(t, "images.unsharded", Unsharded("images"))
}

func TestPlacingDoesNotAllocate(t *testing.T) {
	set := NewSet("images", nodeNames(3), 4)
	key := []byte("order.123.created")
	n := 0
	require.Zero(t, testing.AllocsPerRun(100, func() {
		n += len(set.Key(set.Pick(XXHash(key)), Words(key)))
		n += len(set.At(set.Pick(uint64(Phash2(key)))).Queue)
	}))
	require.NotZero(t, n)
}

func TestExchangeState(t *testing.T) {
	x := newExchange("images", "/", nil)
	require.Equal(t, Unknown, x.State().Mode)
	require.Equal(t, Unknown, new(Exchange).State().Mode, "never nil")
	require.Equal(t, -1, x.NextSpread(x.State()))
	x.setState(&State{Mode: Sharded, Words: 0b101, Set: NewSet("images", nodeNames(1), 3)})
	var spread []int
	for range 7 {
		spread = append(spread, x.NextSpread(x.State()))
	}
	require.Equal(t, []int{0, 1, 2, 0, 1, 2, 0}, spread)
	for words, want := range map[int]bool{0: false, 1: true, 2: false, 3: true, 16: false, 17: false, -1: false} {
		require.Equal(t, want, x.State().HasWords(words), "%d words", words)
	}
	require.Equal(t, 3, x.State().LiveLen())
	require.True(t, x.State().IsLive(2))
	require.False(t, x.State().IsLive(3))
	require.Zero(t, testing.AllocsPerRun(100, func() { x.NextSpread(x.State()); x.State() }))

	x.setState(&State{Mode: Sharded, Set: NewSet("images", nodeNames(1), 3), Live: []int{0, 2}})
	require.ElementsMatch(t, []int{0, 2, 0, 2}, []int{x.NextSpread(x.State()), x.NextSpread(x.State()), x.NextSpread(x.State()), x.NextSpread(x.State())})
	require.Equal(t, []bool{true, false, true}, []bool{x.State().IsLive(0), x.State().IsLive(1), x.State().IsLive(2)})
	require.Zero(t, testing.AllocsPerRun(100, func() { x.NextSpread(x.State()) }))
	x.setState(&State{Mode: Sharded, Set: NewSet("images", nodeNames(1), 3), Live: []int{}})
	require.Equal(t, -1, x.NextSpread(x.State()))
}

func TestModeNames(t *testing.T) {
	var names []string
	for m := Unknown; m <= Plain+1; m++ {
		names = append(names, m.String())
	}
	require.Equal(t, []string{"unknown", "missing", "sharded", "native", "plain", "invalid"}, names)
}

func TestBrokerErrorText(t *testing.T) {
	err := &BrokerError{Code: 403, Text: "ACCESS_REFUSED - no"}
	require.EqualError(t, err, "403 ACCESS_REFUSED - no")
	err.Op = "declare queue 'q'"
	require.EqualError(t, err, "declare queue 'q': 403 ACCESS_REFUSED - no")
	err.Node = "rabbit@a"
	require.EqualError(t, err, "declare queue 'q' on rabbit@a: 403 ACCESS_REFUSED - no")
}

// How evenly the default hash spreads what people use as keys.
func TestXXHashSpread(t *testing.T) {
	set := NewSet("images", nodeNames(1), 4)
	n := make([]int, set.Len())
	for i := range 1000 {
		n[set.Pick(XXHash(fmt.Appendf(nil, "k%d", i)))]++
	}
	require.Greater(t, slices.Min(n), 200, "%v", n)
}

func BenchmarkPlace(b *testing.B) {
	set := NewSet("images", nodeNames(3), 4)
	key := []byte("order.123.created")
	b.ReportAllocs()
	for b.Loop() {
		_ = set.Key(set.Pick(XXHash(key)), Words(key))
	}
}

func BenchmarkNewSet(b *testing.B) {
	nodes := nodeNames(3)
	b.ReportAllocs()
	for b.Loop() {
		NewSet("images", nodes, 4)
	}
}
