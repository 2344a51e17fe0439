package shards

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards/coordination"
)

func TestGroupHeld(t *testing.T) {
	g, changed := newPlannedGroup("a", "b", "c")
	m, told := joinPlanned(t, g, JoinSpec{})
	held := func(want ...string) {
		t.Helper()
		got, reported := heldOf(g, m.id)
		require.True(t, reported)
		require.ElementsMatch(t, want, got)
		require.IsIncreasing(t, append([]string{""}, got...))
	}
	said := func(times int) {
		t.Helper()
		require.Equal(t, times, *changed)
		*changed = 0
	}
	said(1)
	held()
	g.apply(grants([]string{"a", "b", "c"}))
	held("a", "b", "c")
	m.Aimed((*told)[0].Version)
	m.Claim("a", false)
	m.Claim("b", false)
	m.Attached("a", 1)
	held("a", "b", "c")
	said(0)

	g.apply(grants([]string{"c"}))
	held("a", "b", "c") // the router does not know yet: it may begin with a and b
	said(0)
	m.Claim("b", false)
	m.Aimed((*told)[1].Version)
	held("a", "b", "c")
	said(0)
	m.Attached("a", -1)
	held("a", "b", "c")
	m.Released("a", false)
	held("b", "c")
	said(1)
	m.Released("b", false)
	held("b", "c") // claimed twice
	said(0)
	m.Released("b", false)
	held("c")
	said(1)
	m.Released("b", false)
	m.Released("x", true)
	held("c")
	said(0)
	_, unsettled := g.report()
	require.Empty(t, unsettled)

	g.apply(grants([]string{"a", "c"}))
	g.apply(grants([]string{"b", "c"}))
	g.apply(grants([]string{"c"}))
	held("a", "b", "c")
	m.Aimed((*told)[3].Version)
	held("b", "c")
	said(1)
	m.Aimed((*told)[4].Version)
	held("c")
	said(1)
}

// A shard that is only lent keeps nobody out, but is not to be deleted.
func TestGroupLent(t *testing.T) {
	g, changed := newPlannedGroup("a", "b")
	m, _ := joinPlanned(t, g, JoinSpec{})
	*changed = 0
	m.Claim("b", true)
	m.Attached("b", 1)
	held, _ := heldOf(g, m.id)
	require.Empty(t, held)
	_, unsettled := g.report()
	require.Equal(t, map[string]int{"b": 1}, unsettled)
	m.Attached("b", -1)
	m.Released("b", true)
	_, unsettled = g.report()
	require.Empty(t, unsettled)
	require.Zero(t, *changed)
}

func TestGroupLeft(t *testing.T) {
	g, changed := newPlannedGroup("a", "b")
	m, told := joinPlanned(t, g, JoinSpec{Node: "rabbit@a"})
	g.apply(grants([]string{"a", "b"}))
	m.Claim("a", false)
	m.Attached("a", 1)
	*changed = 0
	m.Leave()
	require.Equal(t, 1, *changed)
	consumers, unsettled := g.report()
	require.Equal(t, []coordination.ConsumerReport{{ID: 1, Node: "rabbit@a", Left: true, Held: []string{"a"}}}, consumers)
	require.Equal(t, map[string]int{"a": 1}, unsettled)
	g.apply(grants())
	require.Len(t, *told, 1, "it is told nothing more")
	m.Attached("a", -1)
	m.Released("a", false)
	require.Equal(t, 2, *changed)
	consumers, unsettled = g.report()
	require.Empty(t, consumers)
	require.Empty(t, unsettled)
	m.Leave()
	require.Equal(t, 2, *changed)
}

// Where order is not promised, a consumer that has ended holds its shard for a
// bounded time.
func TestGroupSettleBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, changed := newPlannedGroup("a", "b")
		m, _ := joinPlanned(t, g, JoinSpec{})
		held := func(want ...string) {
			t.Helper()
			synctest.Wait()
			got, _ := heldOf(g, m.id)
			require.ElementsMatch(t, want, got)
		}
		take := func() {
			g.apply(grants([]string{"a"}))
			m.Claim("a", false)
			m.Attached("a", 1)
			g.apply(grants())
			m.Aimed(100)
		}
		take()
		time.Sleep(time.Minute)
		held("a") // it has not ended
		*changed = 0
		m.Attached("a", -1)
		time.Sleep(settleFor - 1)
		held("a")
		time.Sleep(1)
		held()
		require.Equal(t, 1, *changed)
		_, unsettled := g.report()
		require.Equal(t, map[string]int{"a": 1}, unsettled, "held no more, but not settled")

		take() // anew, while the former messages are not settled
		time.Sleep(time.Minute)
		held("a")
		m.Released("a", false)
		held("a")
		m.Attached("a", -1)
		m.Released("a", false)
		held()
		time.Sleep(time.Minute)
		held()

		take() // settled in time
		*changed = 0
		m.Attached("a", -1)
		m.Released("a", false)
		require.Equal(t, 1, *changed)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 1, *changed)

		take()
		m.Attached("a", -1)
		m.Leave()
		held("a")
		time.Sleep(settleFor)
		held()
		consumers, _ := g.report()
		require.Empty(t, consumers)
	})
}

// With order promised nothing but settling ends it, also when that is promised
// later.
func TestGroupSettleOrdered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := newPlannedGroup("a")
		m, _ := joinPlanned(t, g, JoinSpec{})
		plan := func(ordered bool, queues ...string) {
			p := grants(queues)
			p.Ordered = ordered
			g.apply(p)
		}
		plan(true, "a")
		m.Claim("a", false)
		m.Attached("a", 1)
		plan(true)
		m.Aimed(100)
		m.Attached("a", -1)
		time.Sleep(time.Hour)
		synctest.Wait()
		held, _ := heldOf(g, m.id)
		require.Equal(t, []string{"a"}, held)
		plan(false)
		held, _ = heldOf(g, m.id)
		require.Empty(t, held)
		plan(true)
		held, _ = heldOf(g, m.id)
		require.Equal(t, []string{"a"}, held)
		m.Released("a", false)
		held, _ = heldOf(g, m.id)
		require.Empty(t, held)
	})
}
