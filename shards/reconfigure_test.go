package shards

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func brokersOf(fakes ...*fakeBroker) (list []Broker) {
	for _, b := range fakes {
		list = append(list, b)
	}
	return list
}

func TestReconfigurePolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, cluster, _, logs := topology(t, 1, policy(t, "^x$", Definition{}), policy(t, "^y$", Definition{FedBy: []string{"feed"}}))
		for _, name := range []string{"x", "y", "z", "p1"} {
			cluster.exchanges[name] = ExchangeSpec{Name: name, Type: "direct", AlternateExchange: name + ".unsharded"}
		}
		top.Start(t.Context())
		synctest.Wait()
		x, y := exchangeOf(t, top, "x"), exchangeOf(t, top, "y")
		require.Equal(t, Sharded, y.State().Mode)

		changed := policy(t, "^x$", Definition{ShardsPerNode: 1, OnNodeDown: Keep, Hash: HashPhash2, FedBy: []string{"new feed"}})
		top.Reconfigure(NewPolicies([]*Policy{changed, policy(t, "^z$", Definition{}), policy(t, "^p", Definition{})}), nil)
		require.Same(t, x, exchangeOf(t, top, "x"), "it stays the same exchange")
		require.Same(t, changed, x.Policy())
		require.True(t, x.State().Keep, "at once")
		require.Equal(t, Sharded, x.State().Mode)
		require.Equal(t, []*Exchange{x}, top.Lookup([]byte("new feed")).Feeds)
		require.Nil(t, top.Lookup([]byte("feed")))
		require.Nil(t, top.Lookup([]byte("y")), "it is an ordinary exchange now")
		require.NotNil(t, exchangeOf(t, top, "p1"))
		require.Equal(t, 1, logs.count("messages with the same key go to other shards"))
		require.Equal(t, 1, logs.count("no policy is for the exchange any more"))
		synctest.Wait()
		require.Equal(t, Sharded, exchangeOf(t, top, "z").State().Mode, "new ones are set up")
		_, there := cluster.queue(QueueName("y", "a@h", 0))
		require.True(t, there, "shards stay")

		top.Reconfigure(NewPolicies([]*Policy{changed}), nil)
		require.Nil(t, top.Lookup([]byte("p1")))
		require.Nil(t, top.routes.cache.Load(), "literal policies need to remember no names")
		require.Equal(t, 1, logs.count("messages with the same key go to other shards"), "no news")
	})
}

// Consumers of an exchange stay in one group while policies come and go.
func TestReconfigureKeepsConsumers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, cluster, _, _ := topology(t, 1, policy(t, "^x", Definition{ShardsPerNode: 2}))
		cluster.exchanges["x"] = ourX
		top.Start(t.Context())
		x := exchangeOf(t, top, "x")
		_, err := top.Resolve(t.Context(), x, true)
		require.NoError(t, err)
		group := top.Group(x)
		member, target, err := group.Join(t.Context(), JoinSpec{})
		require.NoError(t, err)
		require.Len(t, target.Shards, 2)
		defer member.Leave()

		for _, again := range []string{"^x$", "x"} {
			top.Reconfigure(NewPolicies(nil), nil)
			require.Nil(t, top.Lookup([]byte("x")))
			require.Same(t, group, top.Group(x))
			require.Equal(t, 1, group.Len())
			top.Reconfigure(NewPolicies([]*Policy{policy(t, again, Definition{ShardsPerNode: 2})}), nil)
			require.Same(t, x, exchangeOf(t, top, "x"))
			require.Same(t, group, top.Group(exchangeOf(t, top, "x")))
			synctest.Wait()
			top.routes.unpin(x) // as when the exchange is gone
			require.Same(t, x, exchangeOf(t, top, "x"))
		}
		for range 20 { // with none, nothing piles up
			top.Reconfigure(NewPolicies([]*Policy{policy(t, "^y$", Definition{})}), nil)
			top.Reconfigure(NewPolicies(nil), nil)
		}
		require.Len(t, top.routes.former, 1)
	})
}

func TestReconfigureNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPolicies([]*Policy{policy(t, "^x$", Definition{ShardsPerNode: 2})})
		top, cluster, nodes, _ := topology(t, 1, p.All()...)
		cluster.exchanges["x"] = ourX
		top.Start(t.Context())
		synctest.Wait()
		x := exchangeOf(t, top, "x")
		more := cluster.node("b@h")
		top.Reconfigure(p, brokersOf(nodes[0], more))
		pass(retryMost)
		state := x.State()
		require.Equal(t, 4, state.Set.Len())
		require.Nil(t, state.Live)
		queue, _ := cluster.queue(QueueName("x", "b@h", 1))
		require.Equal(t, "b@h", queue.node)
		require.False(t, nodes[0].isClosed())

		lose(more) // wired as the first ones were
		require.Equal(t, []int{0, 1}, x.State().Live)
		more.setDown(false)
		more.again()
		synctest.Wait()
		require.Nil(t, x.State().Live)

		top.Reconfigure(p, brokersOf(more))
		synctest.Wait()
		require.True(t, nodes[0].isClosed(), "nobody needs it any more")
		require.False(t, more.isClosed())
		pass(retryMost)
		for i := range x.State().Set.Len() {
			require.Equal(t, "b@h", x.State().Set.At(i).Node)
		}
		require.NoError(t, top.Close())
		require.True(t, more.closed)

		late := cluster.node("c@h")
		top.Reconfigure(p, brokersOf(late))
		require.True(t, late.closed, "a closed topology keeps no connection")
	})
}

// A resize by reload: more shards are used, fewer are drained and go.
func TestReconfigureResizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, cluster, _, _ := topology(t, 1, policy(t, "^x$", Definition{ShardsPerNode: 2}))
		cluster.exchanges["x"] = ourX
		top.Start(t.Context())
		synctest.Wait()
		x := exchangeOf(t, top, "x")
		resize := func(n int) {
			top.Reconfigure(NewPolicies([]*Policy{policy(t, "^x$", Definition{ShardsPerNode: n})}), nil)
			pass(lookEvery)
		}
		resize(4)
		require.Equal(t, 4, x.State().Set.Len())
		require.Len(t, cluster.keys("x", QueueName("x", "a@h", 3)), 1)
		resize(2)
		require.Equal(t, 2, x.State().Set.Len())
		require.Equal(t, 4, x.State().Covered().Len(), "what has messages is consumed")
		pass(3 * retryMost)
		require.Empty(t, cluster.keys("x", QueueName("x", "a@h", 3)), "and gets no more")
		pass(fullEvery * lookEvery)
		require.Empty(t, cluster.keys("x", QueueName("x", "a@h", 3)), "no look binds it again")
	})
}

func TestReconfigureIsConcurrent(t *testing.T) {
	top, cluster, nodes, _ := topology(t, 2, policy(t, "^x$", Definition{}))
	cluster.exchanges["x"] = ourX
	sets := []*Policies{
		NewPolicies([]*Policy{policy(t, "^x$", Definition{})}),
		NewPolicies([]*Policy{policy(t, "x", Definition{FedBy: []string{"f"}})}),
		NewPolicies(nil),
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 50 {
				switch g {
				case 0:
					top.Reconfigure(sets[i%3], brokersOf(nodes...))
				default:
					if r := top.Lookup([]byte("x")); r != nil && r.Exchange != nil {
						_, _ = top.Resolve(t.Context(), r.Exchange, g == 1)
						top.Group(r.Exchange)
					}
					top.Lookup([]byte("f"))
				}
			}
		})
	}
	wg.Wait()
	top.Reconfigure(sets[0], nil)
	require.Same(t, exchangeOf(t, top, "x"), exchangeOf(t, top, "x"))
}
