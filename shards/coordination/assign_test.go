package coordination

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// nodeNames returns rabbit@a, rabbit@b, ...
func nodeNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "rabbit@" + string(rune('a'+i))
	}
	return names
}

// makeShards returns the shards for perNode queues on each of nodes, in name order.
func makeShards(nodes []string, perNode int) []Shard {
	var shards []Shard
	for _, node := range nodes {
		for i := range perNode {
			shards = append(shards, Shard{Queue: fmt.Sprintf("q - %s - %d", node, i), Node: node, Index: i})
		}
	}
	return union(shards)
}

// requireBalanced checks what Assign promises of any result.
func requireBalanced(t require.TestingT, set []Shard, got [][]int, consumers int, ordered bool) {
	require.Len(t, got, consumers)
	perShard := make([]int, len(set))
	perConsumer := make([]int, consumers)
	for c, shards := range got {
		require.True(t, slices.IsSorted(shards))
		perConsumer[c] = len(shards)
		for _, s := range shards {
			perShard[s]++
		}
	}
	if consumers == 0 {
		return
	}
	if ordered || consumers <= len(set) {
		for s, n := range perShard {
			require.Equal(t, 1, n, "owners of shard %d", s)
		}
		require.LessOrEqual(t, slices.Max(perConsumer)-slices.Min(perConsumer), 1)
		return
	}
	for c, n := range perConsumer {
		require.Equal(t, 1, n, "shards of consumer %d", c)
	}
	require.LessOrEqual(t, slices.Max(perShard)-slices.Min(perShard), 1)
}

// moves counts the shards that a consumer gets and did not hold.
func moves(consumers []Consumer, got [][]int) int {
	n := 0
	for c, shards := range got {
		for _, s := range shards {
			if !slices.Contains(consumers[c].Held, s) {
				n++
			}
		}
	}
	return n
}

// fewestMoves tries every balanced assignment.
func fewestMoves(set []Shard, consumers []Consumer, ordered bool) int {
	items, bins := len(set), len(consumers)
	moved := func(item, bin int) bool { return !slices.Contains(consumers[bin].Held, item) }
	if bins > items && !ordered {
		items, bins = bins, items
		moved = func(item, bin int) bool { return !slices.Contains(consumers[item].Held, bin) }
	}
	load := make([]int, bins)
	best := items + 1
	var try func(item, cost int)
	try = func(item, cost int) {
		if item == items {
			if slices.Max(load)-slices.Min(load) <= 1 {
				best = min(best, cost)
			}
			return
		}
		for bin := range bins {
			c := cost
			if moved(item, bin) {
				c++
			}
			load[bin]++
			try(item+1, c)
			load[bin]--
		}
	}
	try(0, 0)
	return best
}

func drawSet(t *rapid.T, nodes, perNode int) []Shard {
	return makeShards(nodeNames(rapid.IntRange(1, nodes).Draw(t, "nodes")), rapid.IntRange(1, perNode).Draw(t, "per_node"))
}

// drawConsumers draws consumers that hold any shards at all, also the same ones
// and some that do not exist.
func drawConsumers(t *rapid.T, set []Shard, most int) []Consumer {
	consumers := make([]Consumer, rapid.IntRange(0, most).Draw(t, "consumers"))
	for i := range consumers {
		consumers[i] = Consumer{
			ID:   uint64(i + 1),
			Node: rapid.SampledFrom(append(nodeNames(3), "")).Draw(t, "node"),
			Held: rapid.SliceOfN(rapid.IntRange(-1, len(set)), 0, 4).Draw(t, "held"),
		}
	}
	return consumers
}

func TestAssignBalancedWithFewestMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := drawSet(t, 3, 2)
		consumers := drawConsumers(t, set, 6)
		external := rapid.SliceOfN(rapid.Uint32Range(0, 3), 0, len(set)).Draw(t, "external")
		ordered := rapid.Bool().Draw(t, "ordered")
		got := Assign(set, consumers, external, ordered)
		requireBalanced(t, set, got, len(consumers), ordered)
		require.Equal(t, got, Assign(set, consumers, external, ordered), "deterministic")
		if len(consumers) > 0 {
			require.Equal(t, fewestMoves(set, consumers, ordered), moves(consumers, got))
		}
		settled := slices.Clone(consumers)
		for i := range settled {
			settled[i].Held = got[i]
		}
		require.Equal(t, got, Assign(set, settled, external, ordered), "nothing moves once balanced")
	})
}

// From one balanced assignment to the next, at sizes brute force cannot reach.
func TestAssignJoinAndLeaveMoveLittle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := drawSet(t, 4, 12)
		ordered := rapid.Bool().Draw(t, "ordered")
		var consumers []Consumer
		for id := range uint64(rapid.IntRange(1, 40).Draw(t, "steps")) {
			leaves := len(consumers) > 0 && rapid.IntRange(0, 2).Draw(t, "leaves") == 0
			limit := 0
			if leaves {
				i := rapid.IntRange(0, len(consumers)-1).Draw(t, "who")
				limit = len(consumers[i].Held) // exactly what it leaves behind
				consumers = slices.Delete(consumers, i, i+1)
			} else {
				node := rapid.SampledFrom(nodeNames(5)).Draw(t, "node")
				consumers = append(consumers, Consumer{ID: id, Node: node})
				limit = max(len(set)/len(consumers), 1) // its fair share
			}
			got := Assign(set, consumers, nil, ordered)
			requireBalanced(t, set, got, len(consumers), ordered)
			require.LessOrEqual(t, moves(consumers, got), limit)
			for i := range consumers {
				consumers[i].Held = got[i]
			}
		}
	})
}

// A fresh assignment is as local as balance allows.
func TestAssignLocality(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := drawSet(t, 3, 2)
		consumers := drawConsumers(t, set, 5)
		for i := range consumers {
			consumers[i].Held = nil
		}
		if len(consumers) == 0 {
			return
		}
		// To hold every local shard and no other makes "moves" count distance.
		near := slices.Clone(consumers)
		for i := range near {
			for s := range len(set) {
				if set[s].Node == near[i].Node {
					near[i].Held = append(near[i].Held, s)
				}
			}
		}
		require.Equal(t, fewestMoves(set, near, false), moves(near, Assign(set, consumers, nil, false)))
	})
}

// What is held twice makes room: along chains, and by giving up the one shard
// above the fair share for another consumer to keep its own.
func TestAssignMakesRoom(t *testing.T) {
	tests := []struct {
		name string
		held [][]int
		want [][]int
	}{
		{"direct", [][]int{{0, 1}, {0}}, [][]int{{1}, {0}}},
		{"chain", [][]int{{0, 1}, {0, 2}, {2}}, [][]int{{1}, {0}, {2}}},
		{"share above", [][]int{{0, 1}, {2, 3}, {1}}, [][]int{{0}, {2, 3}, {1}}},
		{"chain to the share above", [][]int{{0, 1}, {2, 3}, {1, 4}, {4}}, [][]int{{0}, {2, 3}, {1}, {4}}},
		{"in a full one while shares above are left", [][]int{{0, 1, 2}, {0}, {}}, [][]int{{1, 2}, {0, 4}, {3}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			consumers := make([]Consumer, len(tt.held))
			for i, held := range tt.held {
				consumers[i].Held = held
			}
			set := makeShards(nodeNames(1), len(slices.Concat(tt.want...)))
			got := Assign(set, consumers, nil, false)
			require.Equal(t, tt.want, got)
			require.Equal(t, fewestMoves(set, consumers, false), moves(consumers, got))
		})
	}
}

func TestAssignExamples(t *testing.T) {
	two := nodeNames(2)
	tests := []struct {
		name      string
		set       []Shard
		consumers []Consumer
		external  []uint32
		want      [][]int
		ordered   bool
	}{
		{"nobody", makeShards(two, 2), nil, nil, [][]int{}, false},
		{"one takes all", makeShards(two, 2), []Consumer{{}}, nil, [][]int{{0, 1, 2, 3}}, false},
		{
			"each takes its own node", makeShards(two, 2),
			[]Consumer{{Node: two[1]}, {Node: two[0]}}, nil, [][]int{{2, 3}, {0, 1}}, false,
		},
		{
			"newcomer gets its own node's shards", makeShards(two, 2),
			[]Consumer{{Node: two[0], Held: []int{0, 1, 2, 3}}, {Node: two[1]}}, nil, [][]int{{0, 1}, {2, 3}}, false,
		},
		{
			"distant shards are given away, not local ones", makeShards(two, 2),
			[]Consumer{{Node: two[1], Held: []int{0, 1, 2, 3}}, {Node: "rabbit@z"}}, nil, [][]int{{2, 3}, {0, 1}}, false,
		},
		{
			"more consumers than shards, least external first", makeShards(two[:1], 3),
			[]Consumer{{Held: []int{0}}, {Held: []int{1}}, {Held: []int{2}}, {}, {}},
			[]uint32{5, 0, 1}, [][]int{{0}, {1}, {2}, {1}, {2}}, false,
		},
		{
			"external counts do not matter while each shard has one owner", makeShards(two[:1], 3),
			[]Consumer{{}, {}, {}}, []uint32{9, 0, 0}, [][]int{{0}, {1}, {2}}, false,
		},
		{
			"local before least consumed", makeShards(two, 1),
			[]Consumer{{Held: []int{0}}, {Held: []int{1}}, {Node: two[0]}}, []uint32{7, 0}, [][]int{{0}, {1}, {0}}, false,
		},
		{
			"the one who shares moves when a shard is left alone", makeShards(two[:1], 2),
			[]Consumer{{Held: []int{0}}, {Held: []int{0}}}, nil, [][]int{{0}, {1}}, false,
		},
		{
			"ordered: who comes too late waits", makeShards(two[:1], 2),
			[]Consumer{{Held: []int{1}}, {}, {Held: []int{0}}, {}}, nil, [][]int{{1}, nil, {0}, nil}, true,
		},
		{
			"ordered: no shard is shared", makeShards(two[:1], 2),
			[]Consumer{{Held: []int{0}}, {Held: []int{0}}, {}}, nil, [][]int{{0}, {1}, nil}, true,
		},
		{"empty set", nil, []Consumer{{}, {}}, nil, [][]int{nil, nil}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, Assign(tt.set, tt.consumers, tt.external, tt.ordered))
		})
	}
}

func BenchmarkAssignJoin(b *testing.B) {
	for _, size := range []struct{ shards, consumers int }{{4, 2}, {64, 16}, {64, 1000}, {1000, 100}} {
		b.Run(fmt.Sprintf("shards=%d/consumers=%d", size.shards, size.consumers), func(b *testing.B) {
			set := makeShards(nodeNames(1), size.shards)
			consumers := make([]Consumer, size.consumers-1)
			for i, held := range Assign(set, consumers, nil, false) {
				consumers[i].Held = held
			}
			consumers = append(consumers, Consumer{})
			b.ReportAllocs()
			for b.Loop() {
				Assign(set, consumers, nil, false)
			}
		})
	}
}
