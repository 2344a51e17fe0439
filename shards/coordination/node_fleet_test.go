package coordination_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards/coordination"
	"github.com/shardmq/shardmq/shards/coordination/coordtest"
)

// fleetProxy is a proxy whose consumers let go at once of what is taken from them.
type fleetProxy struct {
	node *coordination.Node
	tr   *coordtest.Transport

	mu        sync.Mutex
	want      coordination.Spec
	consumers []uint64
	plan      *coordination.Plan
	removed   []string
}

func shards(n int) []coordination.Shard {
	set := make([]coordination.Shard, n)
	for i := range set {
		set[i] = coordination.Shard{Queue: fmt.Sprintf("q%d", i), Index: i}
	}
	return set
}

func startProxy(t *testing.T, b *coordtest.Broker, id string, want int) *fleetProxy {
	p := &fleetProxy{tr: b.Connect(id), want: coordination.Spec{Shards: shards(want)}}
	p.node = coordination.NewNode(coordination.NodeOptions{
		Transport: p.tr, Participant: p, Topologist: p,
		Timing: coordination.Timing{Grace: time.Second, Drain: 2 * time.Second},
	})
	p.node.Start(context.Background())
	t.Cleanup(func() { require.NoError(t, p.node.Close()) })
	return p
}

func (p *fleetProxy) Report() map[string]coordination.ExchangeReport {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := coordination.ExchangeReport{Want: p.want}
	if p.plan != nil {
		r.Prepared, r.Routing = p.plan.Generation, p.plan.Generation
		if p.plan.Next != nil {
			r.Prepared++
		}
	}
	for _, id := range p.consumers {
		c := coordination.ConsumerReport{ID: id}
		if p.plan != nil {
			c.Held = p.plan.Targets[id]
		}
		r.Consumers = append(r.Consumers, c)
	}
	return map[string]coordination.ExchangeReport{"x": r}
}

func (p *fleetProxy) Apply(_ string, plan *coordination.Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan = plan
}

func (p *fleetProxy) Prepare(context.Context, string, []coordination.Shard) error { return nil }
func (p *fleetProxy) Retire(context.Context, string, []coordination.Shard) error  { return nil }
func (p *fleetProxy) Idle(context.Context, string, coordination.Shard) (bool, error) {
	return true, nil
}

func (p *fleetProxy) Remove(_ context.Context, _ string, s coordination.Shard) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removed = append(p.removed, s.Queue)
	return true, nil
}

func (p *fleetProxy) Uncovered(context.Context, string, []coordination.Shard) ([]string, error) {
	return nil, errors.New("nobody knows")
}

func (p *fleetProxy) Loads(_ context.Context, _ string, of []coordination.Shard) ([]coordination.Load, error) {
	return make([]coordination.Load, len(of)), nil
}

func (p *fleetProxy) join(id uint64) {
	p.mu.Lock()
	p.consumers = append(p.consumers, id)
	p.mu.Unlock()
	p.node.Changed("x")
}

func (p *fleetProxy) leave(id uint64) {
	p.mu.Lock()
	p.consumers = slices.DeleteFunc(p.consumers, func(o uint64) bool { return o == id })
	p.mu.Unlock()
	p.node.Changed("x")
}

func (p *fleetProxy) reload(n int) {
	p.mu.Lock()
	p.want = coordination.Spec{Shards: shards(n)}
	p.mu.Unlock()
	p.node.Changed("x")
}

// load is how many shards the proxy's consumers have.
func (p *fleetProxy) load() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	if p.plan != nil {
		for _, queues := range p.plan.Targets {
			n += len(queues)
		}
	}
	return n
}

func loads(proxies ...*fleetProxy) []int {
	var n []int
	for _, p := range proxies {
		n = append(n, p.load())
	}
	return n
}

func TestFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := coordtest.NewBroker()
		proxies := []*fleetProxy{startProxy(t, b, "a", 8), startProxy(t, b, "b", 8), startProxy(t, b, "c", 8)}
		plan, err := proxies[1].node.Plan(context.Background(), "x")
		require.NoError(t, err)
		require.Equal(t, uint64(1), plan.Generation)
		require.Len(t, plan.Set, 8)

		proxies[0].join(1)
		proxies[1].join(1)
		time.Sleep(2 * time.Second)
		require.Equal(t, []int{4, 4, 0}, loads(proxies...))
		proxies[2].join(1)
		proxies[2].join(2)
		time.Sleep(time.Second)
		require.Equal(t, []int{2, 2, 4}, loads(proxies...))
		proxies[2].leave(1)
		proxies[2].leave(2)
		time.Sleep(time.Second)
		require.Equal(t, []int{4, 4, 0}, loads(proxies...))

		status := proxies[1].node.Status()
		require.Equal(t, []string{"a", "b", "c"}, status.Proxies)
		require.Equal(t, b.Leader(), status.Leader)
		require.Empty(t, status.Exchanges["x"].Uncovered)
		require.Len(t, status.Exchanges["x"].Owners, 8)
		moves := proxies[0].node.Status().Moves
		time.Sleep(time.Minute)
		require.Equal(t, moves, proxies[0].node.Status().Moves, "nothing moves in peace")
	})
}

// The leader's process dies: another one leads, and shares its shards out.
func TestFleetLeaderDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := coordtest.NewBroker()
		first, second := startProxy(t, b, "a", 4), startProxy(t, b, "b", 4)
		first.join(1)
		second.join(1)
		time.Sleep(2 * time.Second)
		require.Equal(t, []int{2, 2}, loads(first, second))
		term := second.node.Status().Term
		require.Equal(t, "a", b.Leader())
		first.tr.Cut()
		time.Sleep(2500 * time.Millisecond)
		require.Equal(t, "b", b.Leader())
		require.Equal(t, 4, second.load())
		require.Greater(t, second.node.Status().Term, term)
		require.Equal(t, 2, first.load(), "it keeps what it has")
		first.tr.Restore()
		time.Sleep(2500 * time.Millisecond)
		require.Equal(t, []int{2, 2}, loads(first, second))
	})
}

func TestFleetResizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := coordtest.NewBroker()
		first, second := startProxy(t, b, "a", 4), startProxy(t, b, "b", 4)
		first.join(1)
		second.join(1)
		time.Sleep(2 * time.Second)
		first.reload(2)
		time.Sleep(3 * time.Second)
		second.reload(2)
		time.Sleep(10 * time.Second)
		plan, err := second.node.Plan(context.Background(), "x")
		require.NoError(t, err)
		require.Equal(t, uint64(2), plan.Generation)
		require.Len(t, plan.All(), 2)
		require.Equal(t, []int{1, 1}, loads(first, second))
		require.ElementsMatch(t, []string{"q2", "q3"}, slices.Concat(first.removed, second.removed))
	})
}

// Without a leader a proxy decides for itself after three seconds, and takes up
// what a leader says later.
func TestPlanWithoutLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := coordtest.NewBroker()
		p := startProxy(t, b, "a", 4)
		p.tr.Cut()
		began := time.Now()
		plan, err := p.node.Plan(context.Background(), "x")
		require.NoError(t, err)
		require.InDelta(t, 3, time.Since(began).Seconds(), 0.5)
		require.Zero(t, plan.Generation)
		require.Len(t, plan.Set, 4)
		p.tr.Restore()
		time.Sleep(2 * time.Second)
		plan, err = p.node.Plan(context.Background(), "x")
		require.NoError(t, err)
		require.Equal(t, uint64(1), plan.Generation)
	})
}

// Good-bye saves the others from waiting until a proxy is silent.
func TestCloseSaysGoodbye(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := coordtest.NewBroker()
		first, second := startProxy(t, b, "a", 4), startProxy(t, b, "b", 4)
		first.join(1)
		second.join(1)
		time.Sleep(2 * time.Second)
		require.NoError(t, second.node.Close())
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, 4, first.load())
	})
}

// Changed calls that come faster than they can be dealt with are dealt with all
// the same.
func TestManyConsumers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := coordtest.NewBroker()
		first, second := startProxy(t, b, "a", 20), startProxy(t, b, "b", 20)
		time.Sleep(2 * time.Second)
		for id := range uint64(200) {
			first.join(id)
			second.join(id)
		}
		time.Sleep(5 * time.Second)
		require.Equal(t, []int{200, 200}, loads(first, second))
		for id := range uint64(195) {
			first.leave(id)
			second.leave(id)
		}
		time.Sleep(5 * time.Second)
		require.Equal(t, []int{10, 10}, loads(first, second))
	})
}
