package shards

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var ourX = ExchangeSpec{Name: "x", Type: "direct", Durable: true, AlternateExchange: "x.unsharded"}

// watched runs fn with a started topology where x has four shards on each node,
// bound for one and three words.
func watched(t *testing.T, nodes int, fn func(*testing.T, *Topology, *fakeCluster, []*fakeBroker)) {
	synctest.Test(t, func(t *testing.T) {
		top, cluster, fakes, _ := topology(t, nodes, policy(t, "^x$", Definition{ShardsPerNode: 4}))
		cluster.exchanges["x"] = ourX
		top.Start(t.Context())
		synctest.Wait()
		require.NoError(t, top.BindWords(t.Context(), exchangeOf(t, top, "x"), 3))
		requireWhole(t, top, cluster)
		fn(t, top, cluster, fakes)
	})
}

// requireWhole wants every shard of x there with all its keys, and the catch-all.
func requireWhole(t *testing.T, top *Topology, cluster *fakeCluster) {
	t.Helper()
	state := exchangeOf(t, top, "x").State()
	require.Equal(t, Sharded, state.Mode)
	require.Nil(t, state.Live)
	require.Equal(t, uint32(0b101), state.Words)
	for i := range state.Set.Len() {
		queue := state.Set.At(i).Queue
		require.Contains(t, cluster.queues, queue)
		require.Equal(t, map[string]bool{state.Set.Key(i, 1): true, state.Set.Key(i, 3): true}, cluster.keys("x", queue))
		if i == 0 {
			require.Equal(t, map[string]bool{"": true}, cluster.keys("x.unsharded", queue))
		} else {
			require.Empty(t, cluster.keys("x.unsharded", queue))
		}
	}
}

// pass lets a time pass, and what is due after it happen.
func pass(d time.Duration) {
	advance(d)
	synctest.Wait()
}

func TestWatchDeletedShard(t *testing.T) {
	for shard := range 4 { // the catch-all points to the first
		watched(t, 1, func(t *testing.T, top *Topology, cluster *fakeCluster, _ []*fakeBroker) {
			cluster.deleteQueue(QueueName("x", "a@h", shard))
			pass(lookEvery)
			requireWhole(t, top, cluster)
			require.Equal(t, 1, top.log.(*recorder).count("a shard was gone"), "an operator is told")
		})
	}
}

func TestWatchDeletedExchange(t *testing.T) {
	watched(t, 1, func(t *testing.T, top *Topology, cluster *fakeCluster, _ []*fakeBroker) {
		cluster.deleteExchange("x")
		pass(lookEvery)
		require.Equal(t, &State{Mode: Missing}, exchangeOf(t, top, "x").State())
		pass(time.Hour)
		require.NotContains(t, cluster.exchanges, "x", "a look must not create it")
		cluster.declare(ourX)
		pass(lookEvery)
		requireWhole(t, top, cluster)
	})
}

// TestWatchRedeclaredExchange: its bindings are gone, which cannot be seen.
func TestWatchRedeclaredExchange(t *testing.T) {
	watched(t, 1, func(t *testing.T, top *Topology, cluster *fakeCluster, _ []*fakeBroker) {
		cluster.deleteExchange("x")
		cluster.deleteExchange("x.unsharded")
		cluster.declare(ourX)
		pass(fullEvery * lookEvery)
		requireWhole(t, top, cluster)
		cluster.deleteExchange("x")
		cluster.declare(ExchangeSpec{Name: "x", Type: "topic"})
		pass(fullEvery * lookEvery)
		require.Equal(t, Plain, exchangeOf(t, top, "x").State().Mode)
	})
}

func TestWatchReconnect(t *testing.T) {
	watched(t, 2, func(t *testing.T, top *Topology, cluster *fakeCluster, nodes []*fakeBroker) {
		cluster.do(func() { clear(cluster.bindings) })
		nodes[1].again()
		synctest.Wait()
		requireWhole(t, top, cluster)
	})
}

func TestWatchIsCheap(t *testing.T) {
	watched(t, 1, func(t *testing.T, _ *Topology, cluster *fakeCluster, _ []*fakeBroker) {
		cluster.do(func() { clear(cluster.calls) })
		pass((fullEvery - 1) * lookEvery)
		require.Equal(t, fullEvery-1, cluster.count("exchange exists"))
		require.Equal(t, 4*(fullEvery-1), cluster.count("queue count"))
		require.Equal(t, fullEvery-1, cluster.count("declare exchange"), "as it is, which the broker does not complain of")
		require.Zero(t, cluster.count("bind")+cluster.count("declare queue"))
	})
}

func TestWatchNodeDown(t *testing.T) {
	connecting := &BrokerError{Code: 530, Text: "NOT_ALLOWED - vhost '/' is down", Connecting: true}
	for name, down := range map[string]error{"unreachable": ErrUnreachable, "starting": connecting} {
		t.Run(name, func(t *testing.T) {
			watched(t, 2, func(t *testing.T, top *Topology, cluster *fakeCluster, nodes []*fakeBroker) {
				x := exchangeOf(t, top, "x")
				cluster.do(func() { clear(cluster.calls) })
				nodes[0].setFailing(down)
				pass(lookEvery)
				require.Equal(t, []int{4, 5, 6, 7}, x.State().Live)
				for range 8 {
					require.GreaterOrEqual(t, x.NextSpread(x.State()), 4)
				}
				// Known to be down, it still gets its words when it is back.
				require.NoError(t, top.BindWords(t.Context(), x, 2))
				require.Len(t, cluster.keys("x", QueueName("x", "a@h", 0)), 2)
				_, err := top.Resolve(t.Context(), x, true)
				require.NoError(t, err)
				require.Equal(t, []int{4, 5, 6, 7}, x.State().Live)
				require.Empty(t, cluster.keys("x.unsharded", QueueName("x", "a@h", 0)), "the catch-all goes to a live shard")
				for i := range 4 {
					require.Zero(t, cluster.count("b@h queue count "+QueueName("x", "a@h", i)), "no other node is asked")
				}
				nodes[0].setFailing(nil)
				pass(lookEvery)
				require.Nil(t, x.State().Live)
				require.Len(t, cluster.keys("x", QueueName("x", "a@h", 0)), 3)
				require.Equal(t, map[string]bool{"": true}, cluster.keys("x.unsharded", QueueName("x", "a@h", 0)))
				require.Empty(t, cluster.keys("x.unsharded", QueueName("x", "b@h", 0)))
			})
		})
	}
}

// A shard that cannot be made again gets no publishes meanwhile.
func TestWatchShardRefused(t *testing.T) {
	watched(t, 1, func(t *testing.T, top *Topology, cluster *fakeCluster, _ []*fakeBroker) {
		cluster.deleteQueue(QueueName("x", "a@h", 2))
		cluster.do(func() {
			cluster.refuse = func(op, _ string) error {
				if op == "declare queue" {
					return &BrokerError{Code: 403, Text: "ACCESS_REFUSED"}
				}
				return nil
			}
		})
		pass(lookEvery)
		require.Equal(t, []int{0, 1, 3}, exchangeOf(t, top, "x").State().Live)
		cluster.do(func() { cluster.refuse = nil })
		pass(retryMost)
		requireWhole(t, top, cluster)
	})
}

func TestRefusedIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, cluster, nodes, logs := topology(t, 1, policy(t, "^x$", Definition{}))
		cluster.exchanges["x"] = ourX
		nodes[0].setFailing(&BrokerError{Code: 530, Text: "NOT_ALLOWED - vhost '/' is down", Connecting: true})
		top.Start(t.Context())
		pass(time.Minute)
		require.Equal(t, 1, logs.count("exchange cannot be set up"), "once per text")
		nodes[0].setFailing(&BrokerError{Code: 403, Text: "ACCESS_REFUSED", Connecting: true})
		pass(time.Minute)
		require.Equal(t, 2, logs.count("exchange cannot be set up"))
		nodes[0].setFailing(nil)
		pass(retryMost)
		require.Equal(t, Sharded, exchangeOf(t, top, "x").State().Mode)
	})
}

func TestStartTwice(t *testing.T) {
	tries := func(starts int) (n int) {
		synctest.Test(t, func(t *testing.T) {
			top, cluster, _, _ := topology(t, 1, policy(t, "^x$", Definition{}))
			cluster.exchanges["x"] = ourX
			for range starts {
				top.Start(t.Context())
			}
			pass(time.Minute)
			n = cluster.count("exchange exists")
		})
		return n
	}
	require.Equal(t, tries(1), tries(20))
}

// An exchange declared anew as another type, past this proxy.
func TestWatchOtherType(t *testing.T) {
	watched(t, 1, func(t *testing.T, top *Topology, cluster *fakeCluster, _ []*fakeBroker) {
		mode := func() Mode { return exchangeOf(t, top, "x").State().Mode }
		redeclare := func(spec ExchangeSpec) {
			cluster.deleteExchange("x")
			cluster.declare(spec)
		}
		redeclare(ExchangeSpec{Name: "x", Type: ModulusHash})
		pass(lookEvery)
		require.Equal(t, Native, mode())
		require.Len(t, cluster.keys("x", QueueName("x", "a@h", 0)), 1)
		redeclare(ourX)
		pass(noisyEvery + lookEvery) // without the type of its own the broker logs an error for each look
		requireWhole(t, top, cluster)
		for _, kind := range []string{"topic", "fanout", "headers"} {
			redeclare(ExchangeSpec{Name: "x", Type: kind, AlternateExchange: "own", AutoDelete: true})
			pass(lookEvery)
			require.Equal(t, Plain, mode())
			require.Equal(t, kind, exchangeOf(t, top, "x").State().Type)
		}
		cluster.do(func() { cluster.version = "4.3.6" })
		redeclare(ExchangeSpec{Name: "x", Type: ModulusHash})
		pass(lookEvery)
		require.Equal(t, Native, mode())
		redeclare(ourX)
		pass(lookEvery)
		require.Equal(t, Sharded, mode())
	})
}
