package shards

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// liveState draws a state with some of its shards live.
func liveState(t *rapid.T) *State {
	set := NewSet("x", nodeNames(rapid.IntRange(1, 4).Draw(t, "nodes")), rapid.IntRange(1, 8).Draw(t, "per node"))
	s := &State{Mode: Sharded, Set: set}
	if rapid.Bool().Draw(t, "some down") {
		s.Live = []int{}
		for i := range set.Len() {
			if rapid.Bool().Draw(t, "live") {
				s.Live = append(s.Live, i)
			}
		}
	}
	return s
}

func TestPlaceKeepsHealthyKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := liveState(t)
		h := rapid.Uint64().Draw(t, "hash")
		got, home := s.Place(h), int(h%uint64(s.Set.Len()))
		switch {
		case s.LiveLen() == 0 || s.IsLive(home):
			require.Equal(t, home, got)
		default:
			require.True(t, s.IsLive(got), "a message goes where it can be taken")
		}
		kept := *s
		kept.Keep = true
		require.Equal(t, home, kept.Place(h))
	})
}

// The keys of a shard that is down are spread over all that are live, however
// little of the hash is left: phash2 has 27 bits.
func TestPlaceSpreads(t *testing.T) {
	for _, hash := range []Hash{HashXX, HashPhash2} {
		p := policy(t, "^x$", Definition{Hash: hash})
		s := &State{Set: NewSet("x", nodeNames(4), 4), Live: []int{0, 1, 2, 5, 6, 7, 9, 10, 11, 12}}
		var counts [16]int
		moved := 0
		for i := range 20_000 {
			h := p.HashKey(fmt.Appendf(nil, "key-%d", i))
			at := s.Place(h)
			counts[at]++
			if at != s.Set.Pick(h) {
				moved++
			}
		}
		require.InDelta(t, 20_000*6/16, moved, 500, "keys of six of sixteen shards")
		for i, n := range counts {
			if s.IsLive(i) {
				require.InDelta(t, 2000, n, 300, "shard %d", i)
			} else {
				require.Zero(t, n)
			}
		}
	}
}

func TestPlaceDoesNotAllocate(t *testing.T) {
	s := &State{Set: NewSet("x", nodeNames(2), 4), Live: []int{4, 5, 6, 7}}
	key := []byte("a key with some length")
	p := policy(t, "^x$", Definition{HashOn: HashOn{Source: OnCapture, Re: regexpOf("with (.*)$")}})
	p.HashKey(key)
	require.Zero(t, testing.AllocsPerRun(100, func() { s.Place(p.HashKey(key)) }))
}

func TestShardsFor(t *testing.T) {
	shards := func(d Definition, nodes []string, present ...Shard) []string {
		var list []string
		for _, s := range ShardsFor("x", &d, nodes, present) {
			list = append(list, fmt.Sprintf("%s@%s#%d", s.Queue, s.Node, s.Index))
		}
		return list
	}
	require.Equal(t, []string{"sharding: x - a - 0@a#0", "sharding: x - a - 1@a#1", "sharding: x - b - 0@b#0", "sharding: x - b - 1@b#1"},
		shards(Definition{ShardsPerNode: 2}, []string{"b", "a", "b"}))
	require.Equal(t, []string{"sharding: x - 0@a#0", "sharding: x - 1@b#1", "sharding: x - 2@c#2", "sharding: x - 3@a#3"},
		shards(Definition{Shards: 4}, []string{"c", "a", "b"}))
	require.Equal(t, []string{"sharding: x - 0@c#0", "sharding: x - 1@b#1", "sharding: x - 2@c#2"},
		shards(Definition{Shards: 3}, []string{"a", "b", "c"},
			Shard{Queue: "sharding: x - 0", Node: "c"}, Shard{Queue: "sharding: x - 1", Node: "gone"}), "what exists stays where it is")
	require.Equal(t, []string{"sharding: x - 0@#0", "sharding: x - 1@#1"},
		shards(Definition{Shards: 2, QueueArguments: map[string]any{"x-queue-type": "quorum"}}, []string{"a"}))
	require.Empty(t, shards(Definition{Shards: 2}, nil))
	require.Equal(t, "sharding: x - 10@a#10", shards(Definition{Shards: 12}, []string{"a"})[2], "names are in order, and ten comes before two")
}
