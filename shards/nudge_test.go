package shards

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestGroupNudge: with many consumers a join or leave comes out as Assign would
// have it.
func TestGroupNudge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, f := newTestGroup(rapid.IntRange(1, 3).Draw(t, "nodes"), rapid.IntRange(1, 3).Draw(t, "per_node"))
		set := g.x.State().Set
		for i := range set.Len() {
			f.add(set.At(i).Queue, rapid.IntRange(0, 2).Draw(t, "external"))
		}
		var clients []*fakeClient
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			var now []Consumer
			for _, m := range g.balanced() {
				now = append(now, Consumer{Node: m.spec.Node, Held: g.indices(m.target.Shards)})
			}
			if len(clients) > 0 && rapid.IntRange(0, 2).Draw(t, "leaves") == 0 {
				i := rapid.IntRange(0, len(clients)-1).Draw(t, "who")
				clients[i].leave()
				clients, now = slices.Delete(clients, i, i+1), slices.Delete(now, i, i+1)
			} else {
				node := rapid.SampledFrom(append(nodeNames(4), "")).Draw(t, "node")
				clients = append(clients, (&fakeClient{broker: f}).join(t, g, JoinSpec{Node: node}))
				now = append(now, Consumer{Node: node})
			}
			if len(now) > 0 {
				requireAssigned(t, g, Assign(g.set, now, g.othersPerShard()))
			}
			requireAtRest(t, g, clients)
		}
	})
}

// requireAssigned wants the members to hold what want says.
func requireAssigned(t require.TestingT, g *Group, want [][]int) {
	for i, m := range g.balanced() {
		require.Equal(t, want[i], g.indices(m.target.Shards), "member %d", i)
	}
}

func TestGroupManyJoinsAreCheap(t *testing.T) {
	g, f := newTestGroup(2, 8)
	for i := range 2000 {
		(&fakeClient{broker: f}).join(t, g, JoinSpec{Node: nodeNames(2)[i%2]})
	}
	require.Less(t, testing.AllocsPerRun(10, func() {
		m, target, err := g.Join(context.Background(), JoinSpec{Node: "rabbit@a"})
		if err != nil {
			t.Error(err)
			return
		}
		m.Attached(target.Shards[0], 1)
		m.Leave()
		m.Attached(target.Shards[0], -1)
	}), float64(200), "what a join costs must not grow with the members there are")
}
