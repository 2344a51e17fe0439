package shards

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// joinPlanned adds a member to a group without coordination; told collects what
// it is notified of.
func joinPlanned(t *testing.T, g *Group, spec JoinSpec) (m *Member, told *[]Target) {
	told = new([]Target)
	spec.Notify = func(to Target) { *told = append(*told, to) }
	m, target, err := g.Join(t.Context(), spec)
	require.NoError(t, err)
	require.Equal(t, Target{Version: 1}, target)
	return m, told
}

func TestGroupAppliesPlans(t *testing.T) {
	g, changed := newPlannedGroup("a", "b", "c")
	_, told := joinPlanned(t, g, JoinSpec{})
	require.Equal(t, 1, *changed)

	g.apply(grants([]string{"a", "b"}))
	require.Equal(t, []Target{{Version: 2, Shards: []string{"a", "b"}}}, *told)
	g.apply(grants([]string{"a", "b"}))
	require.Len(t, *told, 1, "the same shards are no news")

	ordered := grants([]string{"a", "b"})
	ordered.Ordered = true
	g.apply(ordered)
	require.Equal(t, Target{Version: 3, Shards: []string{"a", "b"}, Ordered: true}, (*told)[1])
	g.apply(grants())
	require.Equal(t, Target{Version: 4}, (*told)[2], "who is not in the plan has nothing")
}

// A plan may name shards that are not declared yet: a consumer must not be sent
// to them, but they are held.
func TestGroupAppliesWhatIsThere(t *testing.T) {
	g, _ := newPlannedGroup("a", "b")
	m, told := joinPlanned(t, g, JoinSpec{})
	g.apply(grants([]string{"a", "new"}))
	require.Equal(t, []string{"a"}, (*told)[0].Shards)
	held, _ := heldOf(g, m.id)
	require.Equal(t, []string{"a", "new"}, held)

	g.x.setState(&State{Mode: Sharded, Set: setOfQueues("a", "b"), All: setOfQueues("a", "b", "new")})
	require.Equal(t, []string{"a", "new"}, (*told)[1].Shards)
	g.setChanged()
	require.Len(t, *told, 2)

	g.x.setState(unknownState)
	require.Len(t, *told, 2, "queues outlive the exchange")
	g.apply(grants([]string{"a"}))
	require.Equal(t, []string{"a"}, (*told)[2].Shards)
}

// With other proxies a joiner waits a little for the shards it is to get.
func TestGroupJoinWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := newPlannedGroup("a", "b")
		g.seat.alone = false
		start := time.Now()
		_, target, err := g.Join(t.Context(), JoinSpec{})
		require.NoError(t, err)
		require.Equal(t, Target{Version: 1}, target)
		require.Equal(t, firstTargetWait, time.Since(start))

		time.AfterFunc(firstTargetWait/2, func() { g.apply(grants(nil, []string{"b"})) })
		start = time.Now()
		_, target, err = g.Join(t.Context(), JoinSpec{})
		require.NoError(t, err)
		require.Equal(t, []string{"b"}, target.Shards)
		require.Equal(t, firstTargetWait/2, time.Since(start))
	})
}

// An exclusive consumer of another proxy keeps everybody out.
func TestGroupTaken(t *testing.T) {
	g, _ := newPlannedGroup("a", "b")
	taken := grants()
	taken.Taken = true
	decide := g.seat.changed
	g.seat.changed = func() { decide(); g.apply(taken) } // found out by joining
	_, _, err := g.Join(t.Context(), JoinSpec{})
	requireInExclusiveUse(t, err)
	require.Zero(t, g.Len())
	_, _, err = g.Join(t.Context(), JoinSpec{Exclusive: true})
	requireInExclusiveUse(t, err)
	require.Zero(t, g.Len())
	g.seat.changed = decide
	g.apply(grants())
	_, _, err = g.Join(t.Context(), JoinSpec{})
	require.NoError(t, err)
}

// A consumer that waits its turn knows that order is promised.
func TestGroupWaiterIsOrdered(t *testing.T) {
	g, _ := newPlannedGroup("a")
	ordered := grants()
	ordered.Ordered = true
	decide := g.seat.changed
	for _, applied := range []bool{true, false} {
		if applied {
			g.seat.changed = func() { decide(); g.apply(ordered) }
		} else {
			g.seat.changed = decide
		}
		_, target, err := g.Join(t.Context(), JoinSpec{})
		require.NoError(t, err)
		require.Equal(t, Target{Version: 1, Ordered: true}, target)
	}
	_, target, err := g.Join(t.Context(), JoinSpec{Mode: One})
	require.NoError(t, err)
	require.Equal(t, Target{Version: 1, Shards: []string{"a"}}, target)
}
