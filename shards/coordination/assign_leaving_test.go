package coordination

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// splitResult returns an assignment's part of the shards that leave, or of the
// others, by the places these have among themselves.
func splitResult(got [][]int, leaving []bool, that bool) [][]int {
	place, n := make([]int, len(leaving)), 0
	for i := range leaving {
		if leaving[i] == that {
			place[i] = n
			n++
		}
	}
	part := make([][]int, len(got))
	for c, shards := range got {
		for _, i := range shards {
			if leaving[i] == that {
				part[c] = append(part[c], place[i])
			}
		}
	}
	return part
}

// fewestDealt tries every way of giving each shard one owner such that with base
// nobody has two more than anybody else.
func fewestDealt(shards int, consumers []Consumer, base []int) int {
	load := slices.Clone(base)
	best := shards + 1
	var try func(shard, cost int)
	try = func(shard, cost int) {
		if shard == shards {
			if slices.Max(load)-slices.Min(load) <= 1 {
				best = min(best, cost)
			}
			return
		}
		for c := range consumers {
			moved := 1
			if slices.Contains(consumers[c].Held, shard) {
				moved = 0
			}
			load[c]++
			try(shard+1, cost+moved)
			load[c]--
		}
	}
	try(0, 0)
	return best
}

func TestAssignLeavingBalancesBoth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := drawSet(t, 3, 2)
		leaving := rapid.SliceOfN(rapid.Bool(), len(set), len(set)).Draw(t, "leaving")
		consumers := drawConsumers(t, set, 5)
		ordered := rapid.Bool().Draw(t, "ordered")
		got := AssignLeaving(set, leaving, consumers, ordered)
		require.Equal(t, got, AssignLeaving(set, leaving, consumers, ordered), "deterministic")
		require.Len(t, got, len(consumers))
		if len(consumers) == 0 {
			return
		}
		staying, going := partOf(set, consumers, leaving, false), partOf(set, consumers, leaving, true)
		live, old := splitResult(got, leaving, false), splitResult(got, leaving, true)
		base, total := make([]int, len(consumers)), make([]int, len(consumers))
		for c := range got {
			require.True(t, slices.IsSorted(got[c]))
			base[c], total[c] = len(live[c]), len(got[c])
		}
		if len(staying.set) > 0 {
			requireBalanced(t, staying.set, live, len(consumers), ordered)
			require.Equal(t, fewestMoves(staying.set, staying.consumers, ordered), moves(staying.consumers, live), "as if there were no more")
		}
		require.ElementsMatch(t, slices.Concat(old...), slices.Collect(upTo(len(going.set))), "one owner each")
		require.LessOrEqual(t, slices.Max(total)-slices.Min(total), 1)
		require.Equal(t, fewestDealt(len(going.set), going.consumers, base), moves(going.consumers, old))
		settled := slices.Clone(consumers)
		for i := range settled {
			settled[i].Held = got[i]
		}
		require.Equal(t, got, AssignLeaving(set, leaving, settled, ordered), "nothing moves once balanced")
	})
}

func upTo(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

func TestAssignLeavingExamples(t *testing.T) {
	held := func(lists ...[]int) []Consumer {
		consumers := make([]Consumer, len(lists))
		for i := range lists {
			consumers[i].Held = lists[i]
		}
		return consumers
	}
	four, six := []bool{false, false, true, true}, []bool{false, false, false, true, true, true}
	tests := []struct {
		name      string
		leaving   []bool
		consumers []Consumer
		ordered   bool
		want      [][]int
	}{
		{"who would have no work shares a live shard", four, held([]int{0}, []int{1}, []int{2}, []int{3}), false, [][]int{{0}, {1}, {0, 2}, {1, 3}}},
		{"ordered: one owner each", four, held([]int{0}, []int{1}, []int{2}, []int{3}), true, [][]int{{0}, {1}, {2}, {3}}},
		{"one has all that stay", four, held([]int{0, 1}, []int{2, 3}), false, [][]int{{0, 3}, {1, 2}}},
		{"nothing has to move", six, held([]int{0, 2, 4}, []int{1, 3, 5}), false, [][]int{{0, 2, 4}, {1, 3, 5}}},
		{"what leaves goes round the one that stays more often", six, held([]int{0, 1}, []int{2}), true, [][]int{{0, 1, 4}, {2, 3, 5}}},
		{"who has fewer that leave gets one more that stays", []bool{false, false, false, true}, held([]int{0, 3}, []int{1}), false, [][]int{{0, 3}, {1, 2}}},
		{"nothing stays", []bool{true, true}, held(nil, []int{0, 1}), false, [][]int{{1}, {0}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set := makeShards(nodeNames(1), len(tt.leaving))
			got := AssignLeaving(set, tt.leaving, tt.consumers, tt.ordered)
			require.Equal(t, tt.want, got)
		})
	}
}

// After a shrink every consumer has a shard that gets messages, as soon as the
// others get none any more, and not when those are gone at last.
func TestScenarioShrinkLeavesNobodyWithoutWork(t *testing.T) {
	w := calmWorld(t, false)
	w.timing.Drain = time.Hour
	four, two := w.spec(4), w.spec(2)
	a, b := w.start(four), w.start(four)
	w.run(2 * time.Second)
	for range 2 {
		a.join(false)
		b.join(false)
	}
	w.until(10*time.Second, w.settled)
	moves := w.leadingCore().status(w.now).Moves
	a.want, b.want = two, two
	a.changed()
	b.changed()
	working := func() bool {
		if len(w.layout().Set) != 2 || !w.settled() {
			return false
		}
		for _, p := range w.alive() {
			for _, c := range p.consumers {
				if !slices.ContainsFunc(two.Shards, func(s Shard) bool { return c.on[s.Queue] }) {
					return false
				}
			}
		}
		return true
	}
	require.Less(t, w.until(time.Minute, working), 5*time.Second)
	w.run(w.now + 5*time.Second)
	require.True(t, working(), "and it stays so")
	require.Len(t, w.layout().Old, 2)
	w.checkBalanced()
	applies := w.applies
	w.run(w.now + 20*time.Second)
	require.Equal(t, applies, w.applies, "nothing moves")
	require.Equal(t, moves, w.leadingCore().status(w.now).Moves, "nor has anything")
}
