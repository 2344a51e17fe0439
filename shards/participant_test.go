package shards

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards/coordination"
)

func TestReport(t *testing.T) {
	p := policy(t, "^x$", Definition{ShardsPerNode: 2, Ordered: true})
	top, cluster, _, _ := topology(t, 1, p)
	x := exchangeOf(t, top, "x")
	_, err := top.Resolve(t.Context(), x, true)
	require.NoError(t, err)
	require.Empty(t, top.report(), "an exchange that is not there")

	cluster.declare(ExchangeSpec{Name: "x", Type: "direct", Durable: true, AlternateExchange: "x.unsharded"})
	state, err := top.Resolve(t.Context(), x, true)
	require.NoError(t, err)
	want := coordination.ExchangeReport{
		Want:     coordination.Spec{Shards: ShardsFor("x", &p.Definition, []string{"a@h"}, nil), Ordered: true, Placement: "xxhash on routing key"},
		Prepared: 1, Routing: 1,
	}
	require.Equal(t, map[string]coordination.ExchangeReport{"x": want}, top.report())
	require.Equal(t, want.Want.Shards, state.Set.shards)

	m, target, err := top.Group(x).Join(t.Context(), JoinSpec{Node: "a@h"})
	require.NoError(t, err)
	require.Len(t, target.Shards, 2)
	require.True(t, target.Ordered)
	m.Claim(target.Shards[0], false)
	top.Unsettled(x, target.Shards[0], 2)
	top.Unsettled(x, target.Shards[1], 1)
	want.Consumers = []coordination.ConsumerReport{{ID: 1, Node: "a@h", Held: target.Shards}}
	want.Unsettled = map[string]int{target.Shards[0]: 3, target.Shards[1]: 1}
	require.Equal(t, want, top.report()["x"])

	// The exchange goes: it is reported while something of it is left.
	cluster.deleteExchange("x")
	top.Forget(t.Context(), x)
	want.Prepared, want.Routing = 0, 0
	require.Equal(t, want, top.report()["x"])
	m.Released(target.Shards[0], false)
	m.Leave()
	top.Unsettled(x, target.Shards[0], -2)
	require.Contains(t, top.report(), "x")
	top.Unsettled(x, target.Shards[1], -1)
	require.Empty(t, top.report())
	require.Empty(t, top.listed, "nothing piles up")

	// And comes back.
	cluster.declare(ExchangeSpec{Name: "x", Type: "direct", Durable: true, AlternateExchange: "x.unsharded"})
	again, err := top.Resolve(t.Context(), x, true)
	require.NoError(t, err)
	require.Same(t, state.Set, again.Set)
	require.Equal(t, uint64(1), top.report()["x"].Routing)
}

// An exchange that cannot be set up does not claim that publishes go to it.
func TestReportOfAFailure(t *testing.T) {
	top, cluster, _, _ := topology(t, 1, policy(t, "^x$", Definition{}))
	cluster.declare(ExchangeSpec{Name: "x", Type: "direct", Durable: true, AlternateExchange: "x.unsharded"})
	var during uint64
	cluster.refuse = func(op, _ string) error {
		if op != "declare queue" {
			return nil
		}
		cluster.mu.Unlock()
		defer cluster.mu.Lock()
		during = top.report()["x"].Routing
		return &BrokerError{Code: 403, Text: "ACCESS_REFUSED"}
	}
	_, err := top.Resolve(t.Context(), exchangeOf(t, top, "x"), true)
	require.Error(t, err)
	require.Equal(t, uint64(1), during, "said before publishes go by it")
	require.Zero(t, top.report()["x"].Routing)
}

// Messages that are on their way to a shard count as long as the shards are the
// present ones; a policy that goes leaves its consumers.
func TestReportWithoutPolicy(t *testing.T) {
	top, cluster, _, _ := topology(t, 1, policy(t, "^x$", Definition{}))
	cluster.declare(ExchangeSpec{Name: "x", Type: "direct", Durable: true, AlternateExchange: "x.unsharded"})
	x := exchangeOf(t, top, "x")
	_, err := top.Resolve(t.Context(), x, true)
	require.NoError(t, err)
	m, target, err := top.Group(x).Join(t.Context(), JoinSpec{})
	require.NoError(t, err)
	top.Reconfigure(NewPolicies(nil), nil)
	require.Equal(t, coordination.ExchangeReport{
		Consumers: []coordination.ConsumerReport{{ID: 1, Held: target.Shards}}, Unsettled: map[string]int{},
	}, top.report()["x"], "it wants nothing, and holds what it has")
	m.Leave()
	require.Empty(t, top.report())
}

func TestSnapshot(t *testing.T) {
	top, cluster, _, _ := topology(t, 2, policy(t, "^x$", Definition{ShardsPerNode: 1}), policy(t, "^y$", Definition{}))
	require.Empty(t, top.Snapshot())
	cluster.declare(ExchangeSpec{Name: "x", Type: "direct", Durable: true, AlternateExchange: "x.unsharded"})
	x := exchangeOf(t, top, "x")
	state, err := top.Resolve(t.Context(), x, true)
	require.NoError(t, err)
	a, b := state.Set.At(0), state.Set.At(1)
	require.Equal(t, []ExchangeSnapshot{{
		Exchange: "x", Vhost: "/", Mode: Sharded, Generation: 1,
		Shards: []ShardSnapshot{{Shard: a, Live: true}, {Shard: b, Live: true}},
	}}, top.Snapshot())

	m, _, err := top.Group(x).Join(t.Context(), JoinSpec{})
	require.NoError(t, err)
	m.Claim(a.Queue, false)
	m.Attached(a.Queue, 1)
	m.Claim(b.Queue, true)
	top.Unsettled(x, b.Queue, 4)
	next := *state
	next.Live = []int{1}
	next.All = SetOf("x", 1, []Shard{a, b, {Queue: "old", Node: "a@h"}})
	x.state.Store(&next)
	x.work.count(next.All, []Count{{Messages: 1, Exists: true}, {Messages: 7, Consumers: 2, Exists: true}, {}})
	got := top.Snapshot()[0]
	require.Equal(t, 1, got.Consumers)
	require.Equal(t, []ShardSnapshot{
		{Shard: Shard{Queue: "old", Node: "a@h"}, Ready: 1, Known: true},
		{Shard: a, Ready: 7, Consumers: 2, Known: true, Attached: 1, Unsettled: 1},
		{Shard: b, Live: true, Unsettled: 5},
	}, got.Shards)
	m.Leave()
	require.Equal(t, 1, top.Snapshot()[0].Shards[1].Attached, "left, not ended")
}

// A proxy that starts later, on more nodes, takes shards of a fixed total to be
// where they are.
func TestProxiesFixedTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newProxies(t, 1, Definition{Shards: 4})
		defer ps.close()
		ps.nodes = append(ps.nodes, "rabbit@b")
		time.Sleep(10 * time.Second)
		b := ps.start()
		time.Sleep(10 * time.Second)
		for _, p := range ps.all {
			require.Equal(t, uint64(1), p.x.State().Set.Generation())
			require.Equal(t, "rabbit@a", p.x.State().Set.At(1).Node)
		}
		client := ps.join(b)
		within(t, time.Second, ps.shared(client), "all four")
	})
}

// Publishes never go by shards that are not bound, whatever becomes of sets and
// proxies meanwhile; and when that ends all go by the same.
func TestProxiesRouteToBoundShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newProxies(t, 3, Definition{ShardsPerNode: 2})
		defer ps.close()
		client := ps.join(ps.all[2])
		bound := func() {
			for _, p := range ps.all {
				state := p.x.State()
				for i := range state.Set.Len() {
					keys := ps.cluster.keys("images", state.Set.At(i).Queue)
					require.Contains(t, keys, state.Set.Key(i, 1), "%s by generation %d", state.Set.At(i).Queue, state.Set.Generation())
				}
			}
		}
		pass := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				bound()
			}
		}
		for i, perNode := range []int{5, 1, 4, 2, 3} {
			ps.def.ShardsPerNode = perNode
			for j, p := range ps.all {
				p.top.Reconfigure(NewPolicies([]*Policy{ps.policy()}), nil)
				pass(time.Duration(i*j) * 300 * time.Millisecond)
			}
			switch i {
			case 1: // the leader dies in the middle of it
				ps.kill(ps.all[0])
				require.NoError(t, ps.all[0].top.Close())
				ps.all = ps.all[1:]
				ps.counts.x = ps.all[0].x
			case 3:
				ps.start()
			}
			pass(20 * time.Second)
		}
		pass(3 * time.Minute)
		for _, p := range ps.all {
			require.Equal(t, 3, p.x.State().Set.Len())
			require.Equal(t, 3, p.x.State().Covered().Len())
		}
		require.True(t, ps.shared(client)())
	})
}

// An exchange that another proxy has just declared is looked at at once.
func TestSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, cluster, _, _ := topology(t, 1, policy(t, "^x$", Definition{}))
		x := exchangeOf(t, top, "x")
		_, err := top.Resolve(t.Context(), x, true)
		require.NoError(t, err)
		cluster.declare(ExchangeSpec{Name: "x", Type: "direct", Durable: true, AlternateExchange: "x.unsharded"})
		participant{top}.Seen("y")
		participant{top}.Seen("x")
		synctest.Wait()
		require.Equal(t, Sharded, x.State().Mode)
	})
}
