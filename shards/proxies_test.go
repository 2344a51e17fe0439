package shards

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards/coordination/coordtest"
)

// proxies are several topologies over one broker that coordinate.
type proxies struct {
	t       *testing.T
	cluster *fakeCluster
	hub     *coordtest.Broker
	def     Definition
	nodes   []string // of proxies to start
	started int
	counts  *fakeCounts
	all     []*testProxy
}

type testProxy struct {
	top *Topology
	tr  *coordtest.Transport
	x   *Exchange
	g   *Group
}

func newProxies(t *testing.T, n int, def Definition) *proxies {
	ps := &proxies{t: t, cluster: newFakeCluster(), hub: coordtest.NewBroker(), def: def, nodes: nodeNames(1)}
	ps.cluster.declare(ExchangeSpec{Name: "images", Type: "direct", Durable: true, AlternateExchange: "images.unsharded"})
	for range n {
		ps.start()
	}
	return ps
}

func (ps *proxies) policy() *Policy {
	p, err := NewPolicy("images", "/", "^images$", 0, ps.def)
	require.NoError(ps.t, err)
	return p
}

// start adds a proxy with the present definition.
func (ps *proxies) start() *testProxy {
	var brokers []Broker
	for _, node := range ps.nodes {
		brokers = append(brokers, ps.cluster.node(node))
	}
	ps.started++
	p := &testProxy{
		top: NewTopology("/", NewPolicies([]*Policy{ps.policy()}), brokers, nil),
		tr:  ps.hub.Connect("proxy" + strconv.Itoa(ps.started)),
	}
	p.top.Coordinate(p.tr)
	p.top.Start(ps.t.Context())
	p.x = p.top.Lookup([]byte("images")).Exchange
	_, err := p.top.Resolve(ps.t.Context(), p.x, true)
	require.NoError(ps.t, err)
	p.g = p.top.Group(p.x)
	if ps.counts == nil {
		ps.counts = newFakeCounts(p.x)
	}
	p.g.seat.counts = ps.counts.counts
	ps.all = append(ps.all, p)
	return p
}

// close ends all proxies; the bubble needs that before it ends.
func (ps *proxies) close() {
	for _, p := range ps.all {
		require.NoError(ps.t, p.top.Close())
	}
}

// kill ends a proxy as SIGKILL does: nothing of it is heard any more, and the
// broker drops its clients' consumers.
func (ps *proxies) kill(p *testProxy, clients ...*fakeClient) {
	p.tr.Cut()
	for _, c := range clients {
		c.mu.Lock()
		for _, queue := range c.attached {
			ps.counts.add(queue, -1)
		}
		c.member, c.attached = nil, nil
		c.mu.Unlock()
	}
}

func (ps *proxies) join(p *testProxy) *fakeClient {
	return (&fakeClient{broker: ps.counts}).join(ps.t, p.g, JoinSpec{})
}

// within lets time pass until the condition holds, d at most.
func within(t *testing.T, d time.Duration, cond func() bool, what string) {
	t.Helper()
	for deadline := time.Now().Add(d); !cond(); time.Sleep(10 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), what)
	}
}

// shared reports whether each shard has one consumer and each client its share.
func (ps *proxies) shared(clients ...*fakeClient) func() bool {
	return func() bool {
		n := make([]int, len(clients))
		for i, c := range clients {
			n[i] = len(c.shards())
		}
		per := ps.counts.perShard()
		return slices.Min(per) == 1 && slices.Max(per) == 1 && slices.Max(n)-slices.Min(n) <= 1
	}
}

func TestProxiesShare(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ps := newProxies(t, 2, Definition{ShardsPerNode: 8, Ordered: ordered})
			defer ps.close()
			a, b := ps.all[0], ps.all[1]
			require.Equal(t, uint64(1), b.x.State().Set.Generation())
			first := ps.join(a)
			within(t, time.Second, ps.shared(first), "one has them all")
			second := ps.join(b)
			require.Len(t, second.shards(), 4, "Join waited for the others to let go")
			within(t, time.Second, ps.shared(first, second), "4 each")

			third := ps.join(ps.start())
			within(t, time.Second, ps.shared(first, second, third), "a joiner gets its share")
			first.leave()
			within(t, 5*time.Second, ps.shared(second, third), "a leaver's shards are taken")
			fourth := ps.join(a)
			within(t, time.Second, ps.shared(second, third, fourth), "and given back")

			moves := a.top.Snapshot()[0].Moves
			time.Sleep(time.Minute)
			require.True(t, ps.shared(second, third, fourth)())
			require.Equal(t, moves, a.top.Snapshot()[0].Moves, "what is stable stays")

			ps.kill(b, second)
			within(t, 5*time.Second, ps.shared(third, fourth), "a dead proxy's shards are taken")
			ps.kill(a, fourth) // the leader
			within(t, 5*time.Second, ps.shared(third), "also the leader's")
			require.Equal(t, 1, ps.counts.mostEver(), "never two on one shard")
		})
	}
}

func TestProxiesExclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newProxies(t, 2, Definition{ShardsPerNode: 2})
		defer ps.close()
		a, b := ps.all[0].g, ps.all[1].g
		owner := (&fakeClient{broker: ps.counts}).join(t, b, JoinSpec{Exclusive: true})
		require.Len(t, owner.shards(), 2)
		requireInExclusiveUse(t, new(fakeClient).tryJoin(a, JoinSpec{}))
		requireInExclusiveUse(t, new(fakeClient).tryJoin(a, JoinSpec{Exclusive: true}))
		owner.leave()
		time.Sleep(time.Second)
		other := ps.join(ps.all[0])
		require.Len(t, other.shards(), 2)
		requireInExclusiveUse(t, new(fakeClient).tryJoin(b, JoinSpec{Exclusive: true}))
	})
}

// Of two exclusive consumers that join at the same time one gets in.
func TestProxiesExclusiveRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newProxies(t, 2, Definition{ShardsPerNode: 2})
		defer ps.close()
		errs := make(chan error, 2)
		for _, p := range ps.all {
			go func() { errs <- (&fakeClient{broker: ps.counts, manual: true}).tryJoin(p.g, JoinSpec{Exclusive: true}) }()
		}
		first, second := <-errs, <-errs
		if first != nil {
			first, second = second, first
		}
		require.NoError(t, first)
		requireInExclusiveUse(t, second)
	})
}

// Consumers come and go at random; whenever that stops, all is shared out.
func TestProxiesChurn(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			ps := newProxies(t, 3, Definition{ShardsPerNode: 6, Ordered: seed%2 == 1})
			defer ps.close()
			clients := []*fakeClient{ps.join(ps.all[0])}
			for range 20 {
				for range random.IntN(6) {
					if len(clients) > 1 && (random.IntN(2) == 0 || len(clients) == 6) {
						i := random.IntN(len(clients))
						clients[i].leave()
						clients = slices.Delete(clients, i, i+1)
					} else {
						clients = append(clients, ps.join(ps.all[random.IntN(3)]))
					}
					time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
				}
				within(t, 5*time.Second, ps.shared(clients...), "shared out")
			}
			require.Equal(t, 1, ps.counts.mostEver(), "never two on one shard")
		})
	}
}

// What one proxy has declared the others know at once.
func TestProxiesSeeADeclaration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newProxies(t, 0, Definition{ShardsPerNode: 2})
		defer ps.close()
		ps.cluster.deleteExchange("images")
		a, b := ps.start(), ps.start()
		time.Sleep(time.Second)
		require.Equal(t, Missing, b.x.State().Mode)
		ps.cluster.declare(ExchangeSpec{Name: "images", Type: "direct", Durable: true, AlternateExchange: "images.unsharded"})
		_, err := a.top.Resolve(t.Context(), a.x, true)
		require.NoError(t, err)
		within(t, 100*time.Millisecond, func() bool { return b.x.State().Mode == Sharded }, "looked again")
	})
}

// Two proxies that reload seconds apart go over to the new shards together; what
// is unbound is drained first.
func TestProxiesResize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newProxies(t, 2, Definition{ShardsPerNode: 2})
		defer ps.close()
		a, b := ps.all[0], ps.all[1]
		client := ps.join(a)
		resize := func(perNode int) {
			ps.def.ShardsPerNode = perNode
			for _, p := range ps.all {
				p.x.policy.Store(ps.policy())
				_, err := p.top.Resolve(context.Background(), p.x, true)
				require.NoError(t, err)
				time.Sleep(3 * time.Second)
			}
		}
		at := func(generation uint64, set, covered int) func() bool {
			return func() bool {
				for _, p := range ps.all {
					s := p.x.State()
					if s.Set.Generation() != generation || s.Set.Len() != set || s.Covered().Len() != covered || s.Next != nil {
						return false
					}
				}
				return len(client.shards()) >= set
			}
		}
		resize(4)
		within(t, 10*time.Second, at(2, 4, 4), "grown")
		require.Len(t, client.shards(), 4)
		queue := QueueName("images", "rabbit@a", 3)
		require.Equal(t, map[string]bool{a.x.State().Set.Key(3, 1): true}, ps.cluster.keys("images", queue))

		b.top.Unsettled(b.x, queue, 1)
		resize(2)
		within(t, 10*time.Second, at(3, 2, 4), "shrunk, the rest is drained")
		require.Len(t, client.shards(), 4)
		within(t, 10*time.Second, func() bool { return len(ps.cluster.keys("images", queue)) == 0 }, "unbound")
		// One message fetched over b is not settled: its shard stays.
		within(t, 2*time.Minute, at(3, 2, 2), "drained")
		removed := func(queue string) func() bool {
			return func() (gone bool) {
				ps.cluster.do(func() { _, there := ps.cluster.queues[queue]; gone = !there })
				return gone
			}
		}
		within(t, 10*time.Second, removed(QueueName("images", "rabbit@a", 2)), "an idle one is removed")
		time.Sleep(5 * time.Minute)
		require.False(t, removed(queue)())
		b.top.Unsettled(b.x, queue, -1)
		within(t, 10*time.Second, removed(queue), "removed")
		require.Len(t, client.shards(), 2)
		require.True(t, ps.shared(client)())
	})
}
