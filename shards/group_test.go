package shards

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestGroupBurst(t *testing.T) {
	for _, mode := range []ConsumerMode{Balanced, One} {
		for _, slow := range []bool{false, true} {
			t.Run(mode.String(), func(t *testing.T) {
				g, f := newTestGroup(t, 1, 4)
				clients := joinAll(t, g, f, 16, slow, JoinSpec{Node: "rabbit@a", Mode: mode})
				if slow { // nothing was attached while they joined
					require.Equal(t, []int{0, 0, 0, 0}, f.perShard())
					for _, c := range clients {
						c.work()
					}
				}
				require.Equal(t, []int{4, 4, 4, 4}, f.perShard())
				for _, c := range clients {
					c.leave()
				}
				require.Equal(t, []int{0, 0, 0, 0}, f.perShard())
				require.Zero(t, g.Len())
			})
		}
	}
}

func TestGroupConcurrentJoinsAndLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, f := newTestGroup(t, 3, 2)
		const workers, rounds = 8, 40
		stay := make([]*fakeClient, workers)
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				spec := JoinSpec{Node: nodeNames(4)[w%4]}
				for range rounds {
					c := &fakeClient{broker: f}
					if c.tryJoin(g, spec) == nil {
						c.leave()
					}
				}
				stay[w] = (&fakeClient{broker: f}).join(t, g, spec)
			})
		}
		wg.Wait()
		synctest.Wait() // what others were told from another goroutine
		requireShared(t, g.x.State().Set, stay)
		total := 0
		for _, n := range f.perShard() {
			total += n
		}
		require.Equal(t, workers, total)
	})
}

func TestGroupRandomSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, f := newTestGroup(t, rapid.IntRange(1, 3).Draw(t, "nodes"), rapid.IntRange(1, 3).Draw(t, "per_node"))
		var clients []*fakeClient
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				node := rapid.SampledFrom(append(nodeNames(4), "")).Draw(t, "node")
				manual := rapid.Bool().Draw(t, "manual")
				c := &fakeClient{broker: f, manual: manual}
				clients = append(clients, c.join(t, g, JoinSpec{Node: node}))
			},
			"leave": func(t *rapid.T) {
				if len(clients) == 0 {
					t.Skip("nobody")
				}
				i := rapid.IntRange(0, len(clients)-1).Draw(t, "who")
				clients[i].leave()
				clients = slices.Delete(clients, i, i+1)
			},
			"work": func(t *rapid.T) {
				for _, c := range clients {
					c.work()
				}
			},
			"": func(t *rapid.T) {
				set := g.x.State().Set
				if len(clients) <= set.Len() {
					require.LessOrEqual(t, slices.Max(f.perShard()), max(1, len(clients)))
				}
				require.Equal(t, len(clients), g.Len())
			},
		})
		for _, c := range clients {
			c.work()
		}
		requireShared(t, g.x.State().Set, clients)
		for _, c := range clients {
			c.leave()
		}
		require.Zero(t, slices.Max(f.perShard()))
		consumers, unsettled := g.report()
		require.Empty(t, consumers)
		require.Empty(t, unsettled)
	})
}

// A shard goes to the next one only when the former owner has settled everything.
func TestGroupReleaseBeforeGrant(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g, f := newGroupOf(t, 1, Definition{ShardsPerNode: 4, Ordered: ordered})
			first := (&fakeClient{broker: f, slow: true}).join(t, g, JoinSpec{})
			require.Len(t, first.shards(), 4)
			require.Equal(t, ordered, first.latest.Ordered)
			second := (&fakeClient{broker: f}).join(t, g, JoinSpec{})
			require.Len(t, first.shards(), 2)
			require.Empty(t, second.shards())
			require.Equal(t, uint64(1), second.latest.Version, "an empty target is one")
			require.Equal(t, []int{0, 0, 1, 1}, sorted(f.perShard()))

			if ordered {
				time.Sleep(time.Hour)
				require.Empty(t, second.shards(), "settling is not bounded")
				first.settle(first.member)
			} else {
				time.Sleep(settleFor - 1)
				synctest.Wait()
				require.Empty(t, second.shards())
				time.Sleep(1)
				synctest.Wait()
			}
			requireShared(t, g.x.State().Set, []*fakeClient{first, second})
			require.Equal(t, []int{1, 1, 1, 1}, f.perShard())
			require.Equal(t, 1, f.mostEver())
		})
	}
}

// The shards of one that left are held until what it was given is settled.
func TestGroupLeaverHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, f := newGroupOf(t, 1, Definition{ShardsPerNode: 2, Ordered: true})
		first := (&fakeClient{broker: f, slow: true}).join(t, g, JoinSpec{})
		member := first.member
		second := (&fakeClient{broker: f}).join(t, g, JoinSpec{})
		first.settle(member)
		require.Len(t, second.shards(), 1)
		left := first.shards()
		first.leave()
		held, reported := heldOf(g, member.id)
		require.True(t, reported)
		require.Equal(t, left, held)
		require.Len(t, second.shards(), 1)
		first.settle(member)
		require.Len(t, second.shards(), 2)
		_, reported = heldOf(g, member.id)
		require.False(t, reported)
		require.Equal(t, 1, f.mostEver())
	})
}

func sorted(n []int) []int {
	slices.Sort(n)
	return n
}

// With order promised more consumers than shards wait their turn.
func TestGroupOrderedWaiters(t *testing.T) {
	g, f := newGroupOf(t, 1, Definition{ShardsPerNode: 2, Ordered: true})
	var clients []*fakeClient
	for range 3 {
		clients = append(clients, (&fakeClient{broker: f}).join(t, g, JoinSpec{}))
	}
	require.Empty(t, clients[2].shards())
	clients[0].leave()
	require.Len(t, clients[2].shards(), 1)
	require.Equal(t, []int{1, 1}, f.perShard())
	require.Equal(t, 1, f.mostEver())
}

func TestGroupOneNeverMoves(t *testing.T) {
	g, f := newTestGroup(t, 1, 2)
	first := (&fakeClient{broker: f}).join(t, g, JoinSpec{Mode: One})
	second := (&fakeClient{broker: f}).join(t, g, JoinSpec{Mode: One})
	third := (&fakeClient{broker: f}).join(t, g, JoinSpec{Mode: One})
	require.Equal(t, []int{2, 1}, f.perShard())
	second.leave()
	require.Equal(t, []int{2, 0}, f.perShard())
	require.Equal(t, uint64(1), first.latest.Version)
	require.Equal(t, uint64(1), third.latest.Version)
	fourth := (&fakeClient{broker: f}).join(t, g, JoinSpec{Mode: One})
	require.Equal(t, []int{2, 1}, f.perShard())
	state := *g.x.State()
	state.Set = NewSet("images", nodeNames(1), 4)
	g.x.setState(&state)
	require.Equal(t, []int{2, 1, 0, 0}, f.perShard())
	require.Equal(t, uint64(1), fourth.latest.Version)
	consumers, unsettled := g.report()
	require.Empty(t, consumers, "nobody else decides on them")
	require.Equal(t, map[string]int{state.Set.At(0).Queue: 2, state.Set.At(1).Queue: 1}, unsettled)
}

func TestGroupOneLeastConsumed(t *testing.T) {
	tests := []struct {
		name     string
		node     string
		external []int // a0 a1 b0 b1
		want     []int // where the next ones go
	}{
		{"local only, in name order", "rabbit@b", []int{0, 0, 0, 0}, []int{2, 3, 2}},
		{"local even when distant ones are idle", "rabbit@a", []int{5, 3, 0, 0}, []int{1, 1, 0}},
		{"all when none is local", "rabbit@z", []int{1, 0, 1, 0}, []int{1, 3, 0}},
		{"all when the node is unknown", "", []int{1, 1, 1, 0}, []int{3, 0, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, f := newTestGroup(t, 2, 2)
			for i, n := range tt.external {
				f.add(g.x.State().Set.At(i).Queue, n)
			}
			for _, want := range tt.want {
				c := (&fakeClient{broker: f}).join(t, g, JoinSpec{Mode: One, Node: tt.node})
				require.Equal(t, []string{g.x.State().Set.At(want).Queue}, c.shards())
			}
		})
	}
}

// Members of both kinds on one exchange: one that never moves goes where there
// are fewest of either.
func TestGroupMixedModes(t *testing.T) {
	g, f := newTestGroup(t, 1, 2)
	set := g.x.State().Set
	fixed := (&fakeClient{broker: f}).join(t, g, JoinSpec{Mode: One})
	require.Equal(t, []string{set.At(0).Queue}, fixed.shards())
	balanced := joinAll(t, g, f, 2, false, JoinSpec{})
	require.Equal(t, []int{2, 1}, f.perShard())
	another := (&fakeClient{broker: f}).join(t, g, JoinSpec{Mode: One})
	require.Equal(t, []string{set.At(1).Queue}, another.shards())
	balanced[0].leave()
	require.Equal(t, uint64(1), fixed.latest.Version)
	require.Len(t, balanced[1].shards(), 2)
}

func TestGroupManyJoinsAreCheap(t *testing.T) {
	g, _ := newPlannedGroup("a", "b")
	plan := grants()
	for range 2000 {
		m, _, err := g.Join(context.Background(), JoinSpec{})
		require.NoError(t, err)
		plan.Targets[m.id] = []string{"a"}
	}
	g.apply(plan)
	require.Less(t, testing.AllocsPerRun(10, func() {
		m, _, err := g.Join(context.Background(), JoinSpec{Node: "rabbit@a"})
		if err != nil {
			t.Error(err)
			return
		}
		g.report()
		g.apply(plan)
		m.Leave()
	}), float64(50), "what a join allocates must not grow with the members there are")
}
