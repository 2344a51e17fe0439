package shards

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards/coordination"
)

// led returns a topology with a resolved exchange x of two nodes, four shards.
func led(t *testing.T, spec ExchangeSpec, def Definition) (*Topology, *fakeCluster, []*fakeBroker, *Exchange, *recorder) {
	t.Helper()
	def.ShardsPerNode = 2
	top, cluster, nodes, logs := topology(t, 2, policy(t, "^x$", def))
	cluster.exchanges["x"] = spec
	x := exchangeOf(t, top, "x")
	_, err := top.Resolve(t.Context(), x, true)
	require.NoError(t, err)
	return top, cluster, nodes, x, logs
}

func shardOf(node string, index int) Shard {
	return Shard{Queue: QueueName("x", node, index), Node: node, Index: index}
}

func TestPrepare(t *testing.T) {
	top, cluster, nodes, x, _ := led(t, ourX, Definition{Ordered: true})
	require.NoError(t, top.BindWords(t.Context(), x, 3))
	more := []Shard{shardOf("a@h", 2), shardOf("b@h", 2)}
	require.NoError(t, top.Prepare(t.Context(), "x", more))
	for _, shard := range more {
		q := cluster.queues[shard.Queue]
		require.Equal(t, shard.Node, q.node)
		require.Equal(t, true, q.spec.Arguments["x-single-active-consumer"])
		require.Len(t, cluster.keys("x", shard.Queue), 2, "all word counts in use")
		require.Empty(t, cluster.keys("x.unsharded", shard.Queue))
	}
	nodes[1].setDown(true)
	require.ErrorIs(t, top.Prepare(t.Context(), "x", []Shard{shardOf("a@h", 3), shardOf("b@h", 3)}), ErrUnreachable)
	require.Error(t, top.Prepare(t.Context(), "x", []Shard{shardOf("z@h", 0)}), "nobody's node to make it on")
	require.NotContains(t, cluster.queues, QueueName("x", "z@h", 0))
}

func TestPrepareNativeAndPlain(t *testing.T) {
	for kind, key := range map[string]string{ModulusHash: "", "topic": "rk"} {
		top, cluster, _, _, _ := led(t, ExchangeSpec{Name: "x", Type: kind}, Definition{RoutingKey: "rk"})
		shard := shardOf("a@h", 2)
		require.NoError(t, top.Prepare(t.Context(), "x", []Shard{shard}))
		require.Equal(t, map[string]bool{key: true}, cluster.keys("x", shard.Queue))
		require.NoError(t, top.Retire(t.Context(), "x", []Shard{shard}))
		require.Empty(t, cluster.keys("x", shard.Queue))
	}
}

// The leader may never have seen the exchange: another proxy's client declared it.
func TestPrepareUnseen(t *testing.T) {
	top, cluster, _, _ := topology(t, 1, policy(t, "^x", Definition{}))
	shard := Shard{Queue: QueueName("xy", "a@h", 0), Node: "a@h"}
	require.NoError(t, top.Prepare(t.Context(), "xy", []Shard{shard}))
	require.Empty(t, cluster.queues, "not for an exchange that does not exist")
	cluster.exchanges["xy"] = ExchangeSpec{Name: "xy", Type: "direct", AlternateExchange: "xy.unsharded"}
	require.NoError(t, top.Prepare(t.Context(), "xy", []Shard{shard}))
	require.Len(t, cluster.keys("xy", shard.Queue), 1)
	require.True(t, top.pending(exchangeOf(t, top, "xy")), "it looks after it from now on")
	require.NoError(t, top.Prepare(t.Context(), "other", []Shard{{Queue: "q", Node: "a@h"}}))
	require.NotContains(t, cluster.queues, "q", "no policy of this proxy")
}

func TestRetire(t *testing.T) {
	top, cluster, nodes, x, _ := led(t, ourX, Definition{})
	for _, words := range []int{2, MaxWords} {
		require.NoError(t, top.BindWords(t.Context(), x, words))
	}
	first, other := shardOf("a@h", 0), shardOf("b@h", 1)
	require.NotEmpty(t, cluster.keys("x.unsharded", first.Queue))
	require.NoError(t, top.Retire(t.Context(), "x", []Shard{first, other}))
	for _, shard := range []Shard{first, other} {
		require.Empty(t, cluster.keys("x", shard.Queue))
		require.Empty(t, cluster.keys("x.unsharded", shard.Queue))
		require.Contains(t, cluster.queues, shard.Queue, "it may have messages")
	}
	require.NotEmpty(t, cluster.keys("x.unsharded", QueueName("x", "a@h", 1)), "the catch-all goes on")
	require.Len(t, cluster.keys("x", QueueName("x", "a@h", 1)), 3)

	nodes[0].setDown(true)
	require.ErrorIs(t, top.Retire(t.Context(), "x", []Shard{shardOf("a@h", 1), shardOf("b@h", 0)}), ErrUnreachable)
}

// A leader that has not seen an exchange cannot give its catch-all to another shard,
// and so leaves it where it is.
func TestRetireLeavesTheCatchAll(t *testing.T) {
	top, cluster, _, _ := topology(t, 1, policy(t, "^x", Definition{}))
	for _, name := range []string{"xy", "other"} {
		cluster.exchanges[name] = ExchangeSpec{Name: name, Type: "direct", AlternateExchange: Unsharded(name)}
		cluster.exchanges[Unsharded(name)] = ExchangeSpec{Name: Unsharded(name), Type: "fanout", Durable: true}
		shard := func(i int) Shard { return Shard{Queue: QueueName(name, "a@h", i), Node: "a@h", Index: i} }
		cluster.bindings[[3]string{Unsharded(name), "", shard(0).Queue}] = true
		cluster.bindings[[3]string{name, "", shard(1).Queue}] = true
		require.Error(t, top.Retire(t.Context(), name, []Shard{shard(0), shard(1)}))
		require.NotEmpty(t, cluster.keys(Unsharded(name), shard(0).Queue))
		require.Error(t, top.Retire(t.Context(), name, []Shard{{Queue: QueueNameFixed(name, 1), Node: "a@h", Index: 1}}))
		require.NoError(t, top.Retire(t.Context(), name, []Shard{shard(1)}))
		require.Empty(t, cluster.keys(name, shard(1).Queue))
		require.Equal(t, name == "xy", top.pending(exchangeOrNil(top, name)))
	}
}

func exchangeOrNil(top *Topology, name string) *Exchange {
	if route := top.Lookup([]byte(name)); route != nil {
		return route.Exchange
	}
	return nil
}

func TestIdleAndRemove(t *testing.T) {
	top, cluster, nodes, _, logs := led(t, ourX, Definition{})
	set := func(shard Shard, messages, consumers uint32) {
		cluster.do(func() {
			q := cluster.queues[shard.Queue]
			q.Messages, q.Consumers = messages, consumers
			cluster.queues[shard.Queue] = q
		})
	}
	for _, tt := range []struct {
		messages, consumers uint32
		idle, removed       bool
	}{{1, 0, false, false}, {0, 1, true, false}, {1, 1, false, false}, {0, 0, true, true}} {
		shard := shardOf("b@h", 1)
		set(shard, tt.messages, tt.consumers)
		idle, err := top.Idle(t.Context(), "x", shard)
		require.NoError(t, err)
		require.Equal(t, tt.idle, idle)
		removed, err := top.Remove(t.Context(), "x", shard)
		require.NoError(t, err)
		require.Equal(t, tt.removed, removed)
		_, there := cluster.queues[shard.Queue]
		require.Equal(t, !tt.removed, there)
	}
	removed, err := top.Remove(t.Context(), "x", shardOf("b@h", 1))
	require.NoError(t, err)
	require.True(t, removed, "it is gone, whoever has done it")

	// A consumer or message that comes between the look and the deletion.
	shard := shardOf("b@h", 0)
	for _, last := range []Count{{Messages: 1}, {Consumers: 1}} {
		set(shard, 0, 0)
		cluster.do(func() {
			cluster.refuse = func(op, _ string) error {
				if op == "delete queue" {
					q := cluster.queues[shard.Queue]
					q.Messages, q.Consumers = last.Messages, last.Consumers
					cluster.queues[shard.Queue] = q
				}
				return nil
			}
		})
		removed, err = top.Remove(t.Context(), "x", shard)
		require.NoError(t, err)
		require.False(t, removed)
		require.Contains(t, cluster.queues, shard.Queue)
	}

	nodes[1].setDown(true)
	_, err = top.Idle(t.Context(), "x", shard)
	require.ErrorIs(t, err, ErrUnreachable)
	_, err = top.Remove(t.Context(), "x", shard)
	require.ErrorIs(t, err, ErrUnreachable, "a shard that cannot be seen is not gone")
	require.Equal(t, 1, logs.count("surplus shard removed"))
}

func TestUncovered(t *testing.T) {
	top, cluster, nodes, _, _ := led(t, ourX, Definition{})
	all := []Shard{shardOf("b@h", 1), shardOf("a@h", 0), shardOf("a@h", 1), shardOf("b@h", 7)}
	cluster.do(func() {
		q := cluster.queues[all[1].Queue]
		q.Consumers = 1
		cluster.queues[all[1].Queue] = q
	})
	uncovered, err := top.Uncovered(t.Context(), "x", all)
	require.NoError(t, err)
	require.Equal(t, []string{all[2].Queue, all[0].Queue}, uncovered, "what is not there needs no consumer")

	m := new(Member)
	m.g = top.Group(exchangeOf(t, top, "x"))
	m.Claim(all[1].Queue, true)
	m.g.mu.Lock()
	m.g.members = append(m.g.members, m)
	m.g.mu.Unlock()
	uncovered, err = top.Uncovered(t.Context(), "x", all)
	require.NoError(t, err)
	require.Equal(t, []string{all[1].Queue, all[2].Queue, all[0].Queue}, uncovered, "one that only helps out does not count")
	m.Released(all[1].Queue, true)
	nodes[1].setDown(true)
	uncovered, err = top.Uncovered(t.Context(), "x", all)
	require.NoError(t, err)
	require.Equal(t, []string{all[2].Queue}, uncovered)
	nodes[0].setDown(true)
	_, err = top.Uncovered(t.Context(), "x", all)
	require.ErrorIs(t, err, ErrUnreachable)
}

func TestLoads(t *testing.T) {
	top, cluster, nodes, _, _ := led(t, ourX, Definition{})
	all := []Shard{shardOf("b@h", 1), shardOf("a@h", 0), shardOf("b@h", 7), shardOf("a@h", 1)}
	cluster.do(func() {
		q := cluster.queues[all[1].Queue]
		q.Messages, q.Consumers = 3, 1
		cluster.queues[all[1].Queue] = q
	})
	loads, err := top.Loads(t.Context(), "x", all)
	require.NoError(t, err)
	require.Equal(t, []coordination.Load{{}, {Ready: 3, Consumers: 1}, {}, {}}, loads)
	nodes[1].setDown(true)
	_, err = top.Loads(t.Context(), "x", all)
	require.ErrorIs(t, err, ErrUnreachable, "what cannot be seen is not empty")
}

// A shard on a node that another proxy's configuration knows, and that is down, is
// not there for any node that can be asked: it is not empty, nor gone.
func TestDormantShardStays(t *testing.T) {
	top, cluster, _, _, _ := led(t, ourX, Definition{})
	shard := shardOf("z@h", 0)
	cluster.do(func() { cluster.queues[shard.Queue] = fakeQueue{node: shard.Node, Count: Count{Dormant: true}} })
	idle, err := top.Idle(t.Context(), "x", shard)
	require.ErrorIs(t, err, ErrUnreachable)
	require.False(t, idle)
	gone, err := top.Remove(t.Context(), "x", shard)
	require.ErrorIs(t, err, ErrUnreachable)
	require.False(t, gone)
	_, err = top.Loads(t.Context(), "x", []Shard{shard})
	require.ErrorIs(t, err, ErrUnreachable)
}

func TestIsShard(t *testing.T) {
	for queue, is := range map[string]bool{
		QueueName("x", "a@h", 1): true, QueueNameFixed("x", 7): true,
		QueueName("xy", "a@h", 1): false, "orders": false, "x": false, "": false, queueWord + "x": false,
	} {
		require.Equal(t, is, participant{}.IsShard("x", queue), queue)
	}
}
