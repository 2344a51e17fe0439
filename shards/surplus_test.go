package shards

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// The plugin removes no shard when it is to have fewer: what it leaves is consumed,
// unbound, and goes when it is empty.
func TestSurplusShardsAreTakenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, cluster, _, logs := topology(t, 2, policy(t, "^x$", Definition{ShardsPerNode: 2}))
		cluster.exchanges["x"] = ExchangeSpec{Name: "x", Type: ModulusHash, Durable: true}
		left := []Shard{shardOf("a@h", 2), shardOf("a@h", 4), shardOf("b@h", 2), {Queue: QueueNameFixed("x", 0), Node: "a@h"}}
		far := shardOf("b@h", 6)
		for _, shard := range append(left, far) {
			cluster.queues[shard.Queue] = fakeQueue{node: shard.Node, spec: shardSpec(shard.Queue, &Definition{}), Count: Count{Exists: true, Messages: 1}}
			cluster.bindings[[3]string{"x", "", shard.Queue}] = true
		}
		top.Start(t.Context())
		pass(lookEvery)
		x := exchangeOf(t, top, "x")
		covered := x.State().Covered()
		require.Equal(t, 4, x.State().Set.Len())
		require.Equal(t, 4+len(left), covered.Len())
		for _, shard := range left {
			at, there := covered.Index(shard.Queue)
			require.True(t, there)
			require.Equal(t, shard, covered.At(at))
		}
		require.False(t, covered.Has(far.Queue), "behind a gap")
		require.Equal(t, 1, logs.count("surplus shards found"))

		pass(2 * lookEvery)
		for _, shard := range left {
			require.Empty(t, cluster.keys("x", shard.Queue), "nothing new reaches it")
			cluster.do(func() {
				q := cluster.queues[shard.Queue]
				q.Messages = 0
				cluster.queues[shard.Queue] = q
			})
		}
		asked := cluster.count("a@h queue count " + QueueName("x", "a@h", 3))
		pass(2 * fullEvery * lookEvery)
		require.Equal(t, 4, x.State().Covered().Len())
		for _, shard := range left {
			_, there := cluster.queue(shard.Queue)
			require.False(t, there)
		}
		require.Equal(t, asked, cluster.count("a@h queue count "+QueueName("x", "a@h", 3)), "it is looked for once")
		require.Equal(t, 1, logs.count("surplus shards found"))
	})
}

// Shards of a fixed total of exchange "x - a@h" would be named as those of exchange "x" on node a@h: they are not taken
// for surplus ones.
func TestSurplusShardsOfAnotherExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const name = "x - a@h"
		top, cluster, _, logs := topology(t, 2, policy(t, "^x - a@h$", Definition{ShardsPerNode: 1}))
		cluster.exchanges[name] = ExchangeSpec{Name: name, Type: ModulusHash, Durable: true}
		other := shardOf("a@h", 0)
		require.Equal(t, other.Queue, QueueNameFixed(name, 0))
		cluster.queues[other.Queue] = fakeQueue{node: other.Node, spec: shardSpec(other.Queue, &Definition{}), Count: Count{Exists: true}}
		cluster.bindings[[3]string{"x", "", other.Queue}] = true
		top.Start(t.Context())
		pass(2 * fullEvery * lookEvery)
		require.Equal(t, 2, exchangeOf(t, top, name).State().Set.Len())
		_, there := cluster.queue(other.Queue)
		require.True(t, there)
		require.NotEmpty(t, cluster.keys("x", other.Queue))
		require.Zero(t, logs.count("surplus shards found"))
	})
}
