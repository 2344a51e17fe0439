package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards/coordination"
)

// fakeCounts is the broker's side of a group: consumer counts per queue.
type fakeCounts struct {
	x *Exchange

	mu        sync.Mutex
	consumers map[string]int
	most      map[string]int // highest count there was
	reads     int
	err       error
}

func newFakeCounts(x *Exchange) *fakeCounts {
	return &fakeCounts{x: x, consumers: make(map[string]int), most: make(map[string]int)}
}

func (f *fakeCounts) add(queue string, delta int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.consumers[queue] += delta
	f.most[queue] = max(f.most[queue], f.consumers[queue])
}

func (f *fakeCounts) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fakeCounts) readCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads
}

func (f *fakeCounts) counts(context.Context) ([]Count, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	if f.err != nil {
		return nil, f.err
	}
	set := f.x.State().Covered()
	counts := make([]Count, set.Len())
	for i := range counts {
		counts[i] = Count{Consumers: uint32(f.consumers[set.At(i).Queue]), Exists: true}
	}
	return counts, nil
}

// perShard returns the broker's counts in the order of the covered shards.
func (f *fakeCounts) perShard() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	set := f.x.State().Covered()
	n := make([]int, set.Len())
	for i := range n {
		n[i] = f.consumers[set.At(i).Queue]
	}
	return n
}

// mostEver returns the highest count that any queue ever had.
func (f *fakeCounts) mostEver() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	most := 0
	for _, n := range f.most {
		most = max(most, n)
	}
	return most
}

// newTestGroup returns a group of a proxy that decides alone.
func newTestGroup(t require.TestingT, nodes, perNode int) (*Group, *fakeCounts) {
	return newGroupOf(t, nodes, Definition{ShardsPerNode: perNode})
}

func newGroupOf(t require.TestingT, nodes int, def Definition) (*Group, *fakeCounts) {
	p, err := NewPolicy("images", "/", "^images$", 0, def)
	require.NoError(t, err)
	cluster := newFakeCluster()
	cluster.declare(ExchangeSpec{Name: "images", Type: "direct", Durable: true, AlternateExchange: "images.unsharded"})
	var brokers []Broker
	for _, name := range nodeNames(nodes) {
		brokers = append(brokers, cluster.node(name))
	}
	top := NewTopology("/", NewPolicies([]*Policy{p}), brokers, nil)
	if c, ok := t.(interface{ Cleanup(func()) }); ok {
		c.Cleanup(func() { _ = top.Close() })
	}
	x := top.Lookup([]byte("images")).Exchange
	_, err = top.Resolve(context.Background(), x, true)
	require.NoError(t, err)
	g := top.Group(x)
	f := newFakeCounts(x)
	g.seat.counts = f.counts
	return g, f
}

// newPlannedGroup returns a group that gets its plans from the test; changed
// counts how often it had something to say.
func newPlannedGroup(queues ...string) (g *Group, changed *int) {
	x := newExchange("images", "/", nil)
	x.state.Store(&State{Mode: Sharded, Set: setOfQueues(queues...)})
	changed = new(int)
	g = newGroup(x, seat{
		counts: newFakeCounts(x).counts, changed: func() { *changed++ }, alone: true,
		spawn: func(fn func()) bool { fn(); return true },
	})
	x.group.Store(g)
	return g, changed
}

func setOfQueues(queues ...string) *Set {
	var all []Shard
	for i, queue := range queues {
		all = append(all, Shard{Queue: queue, Node: "rabbit@a", Index: i})
	}
	return SetOf("images", 1, all)
}

// grants is a plan that gives members 1, 2, ... these queues.
func grants(queues ...[]string) *coordination.Plan {
	p := &coordination.Plan{Targets: make(map[uint64][]string)}
	for i, q := range queues {
		p.Targets[uint64(i+1)] = q
	}
	return p
}

// heldOf returns what the group reports as held by the member with that ID, and
// whether it reports the member.
func heldOf(g *Group, id uint64) ([]string, bool) {
	consumers, _ := g.report()
	for _, c := range consumers {
		if c.ID == id {
			return c.Held, true
		}
	}
	return nil, false
}

// without returns what is in list and not in the other, both sorted.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}

// requireShared checks that clients have been told to share the shards out.
func requireShared(t require.TestingT, set *Set, clients []*fakeClient) {
	if len(clients) == 0 {
		return
	}
	perShard, perClient := make([]int, set.Len()), make([]int, len(clients))
	for i, c := range clients {
		for _, queue := range c.shards() {
			shard, ok := set.Index(queue)
			require.True(t, ok, queue)
			perShard[shard]++
			perClient[i]++
		}
	}
	told := fmt.Sprintf("per shard %v, per client %v", perShard, perClient)
	require.LessOrEqual(t, slices.Max(perShard)-slices.Min(perShard), 1, told)
	require.LessOrEqual(t, slices.Max(perClient)-slices.Min(perClient), 1, told)
	require.Positive(t, slices.Min(perShard), told)
	require.Positive(t, slices.Min(perClient), told)
	require.Equal(t, 1, min(slices.Max(perShard), slices.Max(perClient)), told)
}

// joinAll has n clients join at once.
func joinAll(t *testing.T, g *Group, f *fakeCounts, n int, manual bool, spec JoinSpec) []*fakeClient {
	clients := make([]*fakeClient, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range clients {
		clients[i] = &fakeClient{broker: f, manual: manual}
		wg.Go(func() {
			<-start
			errs[i] = clients[i].tryJoin(g, spec)
		})
	}
	close(start)
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	return clients
}

// setState does to an exchange and its group what Topology does with a new state.
func (x *Exchange) setState(s *State) {
	x.state.Store(s)
	if g := x.group.Load(); g != nil {
		g.setChanged()
	}
}
