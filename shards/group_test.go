package shards

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// fakeCounts is the broker's side of a group: consumer counts per queue, of the
// exchange's current set.
type fakeCounts struct {
	x *Exchange

	mu        sync.Mutex
	consumers map[string]int
	reads     int
	err       error
}

func (f *fakeCounts) add(queue string, delta int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.consumers[queue] += delta
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
	set := f.x.State().Set
	counts := make([]Count, set.Len())
	for i := range counts {
		counts[i] = Count{Consumers: uint32(f.consumers[set.At(i).Queue]), Exists: true}
	}
	return counts, nil
}

// perShard returns the broker's counts in set order.
func (f *fakeCounts) perShard() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	set := f.x.State().Set
	n := make([]int, set.Len())
	for i := range n {
		n[i] = f.consumers[set.At(i).Queue]
	}
	return n
}

// setState does to a group what Topology does with a new state.
func (x *Exchange) setState(s *State) {
	x.state.Store(s)
	if g := x.group.Load(); g != nil {
		g.setChanged()
	}
}

func newTestGroup(nodes, perNode int) (*Group, *fakeCounts) {
	x := newExchange("images", "/", nil)
	x.setState(&State{Mode: Sharded, Set: NewSet("images", nodeNames(nodes), perNode)})
	f := &fakeCounts{x: x, consumers: make(map[string]int)}
	return x.groupOf(f.counts), f
}

// fakeClient is a session's consumer: it attaches to what its target says and
// reports it.
type fakeClient struct {
	broker *fakeCounts
	manual bool // attach only when asked to

	mu       sync.Mutex
	member   *Member
	latest   Target
	attached []string
}

func (c *fakeClient) join(t require.TestingT, g *Group, spec JoinSpec) *fakeClient {
	require.NoError(t, c.tryJoin(g, spec))
	return c
}

func (c *fakeClient) tryJoin(g *Group, spec JoinSpec) error {
	spec.Notify = c.notify
	m, target, err := g.Join(context.Background(), spec)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.member = m
	c.mu.Unlock()
	c.notify(target)
	return nil
}

func (c *fakeClient) notify(target Target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if target.Version > c.latest.Version {
		c.latest = target
	}
	if !c.manual {
		c.attach(c.latest.Shards)
	}
}

// attach makes the attachments these; c.mu is held.
func (c *fakeClient) attach(want []string) {
	if c.member == nil {
		return // Join has not returned
	}
	for _, queue := range c.attached {
		if !slices.Contains(want, queue) {
			c.broker.add(queue, -1)
			c.member.Attached(queue, -1)
		}
	}
	for _, queue := range want {
		if !slices.Contains(c.attached, queue) {
			c.broker.add(queue, 1)
			c.member.Attached(queue, 1)
		}
	}
	c.attached = want
}

func (c *fakeClient) leave() {
	c.member.Leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attach(nil)
	c.member = nil
}

func (c *fakeClient) shards() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest.Shards
}

// requireAtRest checks that what clients were told is balanced.
func requireAtRest(t require.TestingT, g *Group, clients []*fakeClient) {
	set := g.x.State().Set
	got := make([][]int, len(clients))
	for i, c := range clients {
		for _, queue := range c.shards() {
			shard, ok := set.Index(queue)
			require.True(t, ok, queue)
			got[i] = append(got[i], shard)
		}
	}
	requireBalanced(t, set, got, len(clients))
	require.Equal(t, len(clients), g.Len())
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

func TestGroupBurst(t *testing.T) {
	for _, mode := range []ConsumerMode{Balanced, One} {
		for _, slow := range []bool{false, true} {
			t.Run(mode.String(), func(t *testing.T) {
				g, f := newTestGroup(1, 4)
				clients := joinAll(t, g, f, 16, slow, JoinSpec{Node: "rabbit@a", Mode: mode})
				if slow { // nothing was attached while they joined
					require.Equal(t, []int{0, 0, 0, 0}, f.perShard())
					for _, c := range clients {
						c.attach(c.shards())
					}
				}
				require.Equal(t, []int{4, 4, 4, 4}, f.perShard())
				for _, c := range clients {
					c.leave()
				}
				require.Equal(t, []int{0, 0, 0, 0}, f.perShard())
				require.Zero(t, g.Len())
			})
		}
	}
}

func TestGroupConcurrentJoinsAndLeaves(t *testing.T) {
	g, f := newTestGroup(3, 2)
	const workers, rounds = 8, 40
	stay := make([]*fakeClient, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			spec := JoinSpec{Node: nodeNames(4)[w%4]}
			for range rounds {
				c := &fakeClient{broker: f}
				if c.tryJoin(g, spec) == nil {
					c.leave()
				}
			}
			stay[w] = (&fakeClient{broker: f}).join(t, g, spec)
		})
	}
	wg.Go(func() {
		for i := range rounds {
			g.x.setState(&State{Mode: Sharded, Set: NewSet("images", nodeNames(3), 1+i%3)})
		}
		g.x.setState(&State{Mode: Sharded, Set: NewSet("images", nodeNames(3), 2)})
	})
	wg.Wait()
	requireAtRest(t, g, stay)
}

func TestGroupRandomSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, f := newTestGroup(rapid.IntRange(1, 3).Draw(t, "nodes"), rapid.IntRange(1, 3).Draw(t, "per_node"))
		var clients []*fakeClient
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				node := rapid.SampledFrom(append(nodeNames(4), "")).Draw(t, "node")
				manual := rapid.Bool().Draw(t, "manual")
				c := &fakeClient{broker: f, manual: manual}
				clients = append(clients, c.join(t, g, JoinSpec{Node: node}))
			},
			"leave": func(t *rapid.T) {
				if len(clients) == 0 {
					t.Skip("nobody")
				}
				i := rapid.IntRange(0, len(clients)-1).Draw(t, "who")
				clients[i].leave()
				clients = slices.Delete(clients, i, i+1)
			},
			"resize": func(t *rapid.T) {
				perNode := rapid.IntRange(1, 3).Draw(t, "per_node")
				g.x.setState(&State{Mode: Sharded, Set: NewSet("images", nodeNames(2), perNode)})
			},
			"external": func(t *rapid.T) {
				set := g.x.State().Set
				f.add(set.At(rapid.IntRange(0, set.Len()-1).Draw(t, "shard")).Queue, 1)
			},
			"": func(t *rapid.T) { requireAtRest(t, g, clients) },
		})
	})
}

func TestGroupOneNeverMoves(t *testing.T) {
	g, f := newTestGroup(1, 2)
	first := (&fakeClient{broker: f}).join(t, g, JoinSpec{Mode: One})
	second := (&fakeClient{broker: f}).join(t, g, JoinSpec{Mode: One})
	third := (&fakeClient{broker: f}).join(t, g, JoinSpec{Mode: One})
	require.Equal(t, []int{2, 1}, f.perShard())
	second.leave()
	require.Equal(t, []int{2, 0}, f.perShard())
	require.Equal(t, uint64(1), first.latest.Version)
	require.Equal(t, uint64(1), third.latest.Version)
	fourth := (&fakeClient{broker: f}).join(t, g, JoinSpec{Mode: One})
	require.Equal(t, []int{2, 1}, f.perShard())
	g.x.setState(&State{Mode: Sharded, Set: NewSet("images", nodeNames(1), 4)})
	require.Equal(t, []int{2, 1, 0, 0}, f.perShard())
	require.Equal(t, uint64(1), fourth.latest.Version)
}

func TestGroupOneLeastConsumed(t *testing.T) {
	tests := []struct {
		name     string
		node     string
		external []int // a0 a1 b0 b1
		want     []int // where the next ones go
	}{
		{"local only, in name order", "rabbit@b", []int{0, 0, 0, 0}, []int{2, 3, 2}},
		{"local even when distant ones are idle", "rabbit@a", []int{5, 3, 0, 0}, []int{1, 1, 0}},
		{"all when none is local", "rabbit@z", []int{1, 0, 1, 0}, []int{1, 3, 0}},
		{"all when the node is unknown", "", []int{1, 1, 1, 0}, []int{3, 0, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, f := newTestGroup(2, 2)
			for i, n := range tt.external {
				f.add(g.x.State().Set.At(i).Queue, n)
			}
			for _, want := range tt.want {
				c := (&fakeClient{broker: f}).join(t, g, JoinSpec{Mode: One, Node: tt.node})
				require.Equal(t, []string{g.x.State().Set.At(want).Queue}, c.shards())
			}
		})
	}
}

// Members of both kinds on one exchange: those that never move count as others.
func TestGroupMixedModes(t *testing.T) {
	g, f := newTestGroup(1, 2)
	set := g.x.State().Set
	fixed := (&fakeClient{broker: f}).join(t, g, JoinSpec{Mode: One})
	require.Equal(t, []string{set.At(0).Queue}, fixed.shards())
	balanced := joinAll(t, g, f, 2, false, JoinSpec{})
	require.Equal(t, []int{2, 1}, f.perShard())
	third := (&fakeClient{broker: f}).join(t, g, JoinSpec{})
	require.Equal(t, []string{set.At(1).Queue}, third.shards())
	(&fakeClient{broker: f}).join(t, g, JoinSpec{Mode: One})
	require.Equal(t, []int{3, 2}, f.perShard(), "the first of equals")
	balanced[0].leave()
	require.Equal(t, uint64(1), fixed.latest.Version)
}

func TestGroupSetChange(t *testing.T) {
	g, f := newTestGroup(1, 4)
	clients := joinAll(t, g, f, 2, false, JoinSpec{})
	version := clients[0].latest.Version

	state := *g.x.State()
	state.Words = 3
	g.x.setState(&state)
	state.Set = NewSet("images", nodeNames(1), 4).WithGeneration(9)
	g.x.setState(&state)
	require.Equal(t, version, clients[0].latest.Version, "the same queues")

	g.x.setState(&State{Mode: Unknown})
	require.Equal(t, []string{"2", "2"}, []string{count(clients[0]), count(clients[1])}, "queues outlive the exchange")

	g.x.setState(&State{Mode: Sharded, Set: NewSet("images", nodeNames(2), 4)})
	requireAtRest(t, g, clients)
	require.Equal(t, []int{1, 1, 1, 1, 1, 1, 1, 1}, f.perShard())
	g.x.setState(&State{Mode: Sharded, Set: NewSet("images", nodeNames(1), 1)})
	requireAtRest(t, g, clients)
}

func count(c *fakeClient) string { return string(rune('0' + len(c.shards()))) }
