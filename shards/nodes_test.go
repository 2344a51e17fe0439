package shards

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// clustered is watched for two nodes, with any exchange and definition.
func clustered(t *testing.T, spec ExchangeSpec, def Definition, fn func(*testing.T, *Topology, *fakeCluster, []*fakeBroker)) {
	synctest.Test(t, func(t *testing.T) {
		top, cluster, fakes, _ := topology(t, 2, policy(t, "^x$", def))
		cluster.exchanges["x"] = spec
		top.Start(t.Context())
		synctest.Wait()
		require.Nil(t, exchangeOf(t, top, "x").State().Live)
		fn(t, top, cluster, fakes)
	})
}

// lose has a node die, and its control connection tell so.
func lose(b *fakeBroker) {
	b.setDown(true)
	b.lost()
}

func TestNodeLostLeavesAtOnce(t *testing.T) {
	clustered(t, ourX, Definition{ShardsPerNode: 2}, func(t *testing.T, top *Topology, cluster *fakeCluster, nodes []*fakeBroker) {
		x := exchangeOf(t, top, "x")
		lose(nodes[0])
		state := x.State()
		require.Equal(t, []int{2, 3}, state.Live, "before anything is asked")
		for h := range uint64(100) {
			require.GreaterOrEqual(t, state.Place(h), 2)
		}
		synctest.Wait()
		require.Empty(t, cluster.keys("x.unsharded", QueueName("x", "a@h", 0)), "the catch-all goes to a live shard")
		require.NotEmpty(t, cluster.keys("x.unsharded", QueueName("x", "b@h", 0)))

		tried := nodes[0].tried()
		for range 10 {
			counts, err := top.Counts(t.Context(), x)
			require.NoError(t, err)
			require.Equal(t, []Count{{}, {}, {Exists: true}, {Exists: true}}, counts)
		}
		require.Equal(t, tried, nodes[0].tried(), "clients do not wait for it")
		for i := range 2 {
			require.Zero(t, cluster.count("b@h queue count "+QueueName("x", "a@h", i)), "and no other node is asked")
		}

		nodes[0].setDown(false)
		pass(probeEvery) // nobody tells: it is asked
		require.Nil(t, x.State().Live)
		require.NotEmpty(t, cluster.keys("x.unsharded", QueueName("x", "a@h", 0)))
		require.Empty(t, cluster.keys("x.unsharded", QueueName("x", "b@h", 0)))

		lose(nodes[0])
		synctest.Wait()
		require.Equal(t, []int{2, 3}, x.State().Live)
		nodes[0].setDown(false)
		nodes[0].again()
		synctest.Wait() // at once, as its connection is back
		require.Nil(t, x.State().Live)
	})
}

// A control connection that is lost for a moment, with the node up.
func TestNodeLostForAMoment(t *testing.T) {
	clustered(t, ourX, Definition{}, func(t *testing.T, top *Topology, cluster *fakeCluster, nodes []*fakeBroker) {
		x := exchangeOf(t, top, "x")
		cluster.mu.Lock() // so long no node answers
		nodes[1].lost()
		state := x.State()
		cluster.mu.Unlock()
		require.Equal(t, []int{0}, state.Live)
		nodes[1].again()
		synctest.Wait()
		require.Nil(t, x.State().Live)

		cluster.mu.Lock()
		nodes[0].lost()
		nodes[1].lost()
		state = x.State()
		cluster.mu.Unlock()
		require.Equal(t, []int{1}, state.Live, "with all nodes lost there is nowhere else to go")
		pass(2 * probeEvery)
		require.Nil(t, x.State().Live)
	})
}

func TestNodeDownKept(t *testing.T) {
	clustered(t, ourX, Definition{OnNodeDown: Keep}, func(t *testing.T, top *Topology, _ *fakeCluster, nodes []*fakeBroker) {
		lose(nodes[0])
		synctest.Wait()
		state := exchangeOf(t, top, "x").State()
		require.Equal(t, []int{1}, state.Live)
		require.Equal(t, 0, state.Place(4), "its messages are the broker's to refuse")
		require.Equal(t, 1, exchangeOf(t, top, "x").NextSpread(state))
	})
}

func TestNodeDownNative(t *testing.T) {
	native := ExchangeSpec{Name: "x", Type: ModulusHash, Durable: true}
	for _, policy := range []NodeDown{Reroute, Keep} {
		clustered(t, native, Definition{ShardsPerNode: 2, OnNodeDown: policy}, func(t *testing.T, top *Topology, cluster *fakeCluster, nodes []*fakeBroker) {
			bound := func() (n int) {
				for _, queue := range []string{QueueName("x", "a@h", 0), QueueName("x", "a@h", 1)} {
					n += len(cluster.keys("x", queue))
				}
				return n
			}
			require.Equal(t, 2, bound())
			lose(nodes[0])
			synctest.Wait()
			want := 0
			if policy == Keep {
				want = 2
			}
			require.Equal(t, want, bound())
			require.NotEmpty(t, cluster.keys("x", QueueName("x", "b@h", 1)))
			nodes[0].setDown(false)
			pass(probeEvery)
			require.Equal(t, 2, bound())
			require.Nil(t, exchangeOf(t, top, "x").State().Live)
		})
	}
}

// Without Start, too, a node is found back.
func TestNodeDownIsProbedWithoutStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, cluster, nodes, logs := topology(t, 2, policy(t, "^x$", Definition{}))
		cluster.exchanges["x"] = ourX
		nodes[1].setDown(true)
		x := exchangeOf(t, top, "x")
		state, err := top.Resolve(t.Context(), x, true)
		require.NoError(t, err)
		require.Equal(t, []int{0}, state.Live)
		nodes[1].setDown(false)
		pass(probeEvery)
		state, err = top.Resolve(t.Context(), x, true)
		require.NoError(t, err)
		require.Nil(t, state.Live)
		require.Equal(t, 1, logs.count("node is down"))
		require.Equal(t, 1, logs.count("node is up"))
		synctest.Wait() // for the search for surplus shards
		tried := nodes[1].tried()
		pass(time.Hour)
		require.Equal(t, tried, nodes[1].tried(), "nobody is probed while all are up")
	})
}

// An answer to what was asked before a node was lost does not bring it back.
func TestStaleAnswer(t *testing.T) {
	var n nodes
	n.init(nil)
	asked := n.asking("a")
	require.True(t, n.failed("a"))
	require.False(t, n.failed("a"), "no news")
	require.False(t, n.answered("a", asked))
	require.True(t, n.isDown("a"))
	require.True(t, n.answered("a", n.asking("a")))
	require.False(t, n.isDown("a"))
}

// A State that was made before a node was lost, and comes after, goes without it.
func TestStoreLeavesOutNodesThatAreDown(t *testing.T) {
	top, _, nodes, _ := topology(t, 2, policy(t, "^x$", Definition{ShardsPerNode: 2}))
	x := exchangeOf(t, top, "x")
	made := &State{Mode: Sharded, Set: NewSet("x", []string{"a@h", "b@h"}, 2)}
	lose(nodes[1])
	top.store(x, made)
	require.Equal(t, []int{0, 1}, x.State().Live)
	require.Nil(t, made.Live, "states are not modified")
	top.amend(x, func(s *State) { s.Words = 5 })
	require.Equal(t, uint32(5), x.State().Words)
	require.Equal(t, []int{0, 1}, x.State().Live)
}

// Shards on a node that only others know are used when they are there, and made by
// those who know it.
func TestForeignShards(t *testing.T) {
	top, cluster, _, _ := topology(t, 1, policy(t, "^x$", Definition{}))
	cluster.exchanges["x"] = ourX
	there, missing := QueueName("x", "z@h", 0), QueueName("x", "z@h", 1)
	cluster.queues[there] = fakeQueue{node: "z@h", spec: shardSpec(there, &Definition{}), Count: Count{Exists: true}}
	x := exchangeOf(t, top, "x")
	state := &State{Mode: Sharded, Words: 1, Set: SetOf("x", 1, []Shard{{Queue: QueueName("x", "a@h", 0), Node: "a@h"}, {Queue: there, Node: "z@h"}, {Queue: missing, Node: "z@h", Index: 1}})}
	p := bindingOf(x, state)
	require.NoError(t, top.declareShards(t.Context(), p))
	require.Equal(t, []int{0, 1}, p.live(state))
	require.NotContains(t, cluster.queues, missing, "it would be on the wrong node")
	require.Len(t, cluster.keys("x", there), 1)

	top.store(x, state)
	counts, err := top.Counts(t.Context(), x)
	require.NoError(t, err)
	require.Equal(t, []Count{{Exists: true}, {Exists: true}, {}}, counts)
	require.Equal(t, []int{0, 1}, x.State().Live)
	require.False(t, top.pending(x), "there is nothing this proxy could do")
	require.NoError(t, top.BindWords(t.Context(), x, 2))
	require.Len(t, cluster.keys("x", there), 2)
}

// Replicated shards have no node: any that is up answers for them.
func TestReplicatedShards(t *testing.T) {
	quorum := Definition{Shards: 3, QueueArguments: map[string]any{"x-queue-type": "quorum"}}
	clustered(t, ourX, quorum, func(t *testing.T, top *Topology, cluster *fakeCluster, nodes []*fakeBroker) {
		x := exchangeOf(t, top, "x")
		require.Equal(t, "sharding: x - 2", x.State().Set.At(2).Queue)
		lose(nodes[0])
		synctest.Wait()
		require.Nil(t, x.State().Live)
		counts, err := top.Counts(t.Context(), x)
		require.NoError(t, err)
		require.Equal(t, []Count{{Exists: true}, {Exists: true}, {Exists: true}}, counts)
		require.NotEmpty(t, cluster.keys("x.unsharded", "sharding: x - 0"))
	})
}

func TestFixedShards(t *testing.T) {
	clustered(t, ourX, Definition{Shards: 3}, func(t *testing.T, top *Topology, cluster *fakeCluster, nodes []*fakeBroker) {
		for i, node := range []string{"a@h", "b@h", "a@h"} {
			queue, _ := cluster.queue(QueueNameFixed("x", i))
			require.Equal(t, node, queue.node)
		}
		lose(nodes[0])
		require.Equal(t, []int{1}, exchangeOf(t, top, "x").State().Live)
	})
}
