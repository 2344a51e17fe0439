package proxy

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards"
)

// testExchange is sharded, with testShards shards.
const (
	testExchange = "images"
	testShards   = 4
)

// fakeControl is a control connection to a broker where the sharded exchange and its shards exist, each with messages.
type fakeControl struct {
	gate atomic.Pointer[chan struct{}] // not nil: counting waits until it is closed
}

var _ shards.Broker = (*fakeControl)(nil)

func (*fakeControl) Node() string                                                    { return "rabbit@fake" }
func (*fakeControl) NodeName(context.Context) (string, error)                        { return "rabbit@fake", nil }
func (*fakeControl) Version(context.Context) (string, error)                         { return "3.10.8", nil }
func (*fakeControl) DeclareExchange(context.Context, shards.ExchangeSpec) error      { return nil }
func (*fakeControl) ExchangeExists(context.Context, string) (bool, error)            { return true, nil }
func (*fakeControl) DeleteExchange(context.Context, string) error                    { return nil }
func (*fakeControl) DeclareQueue(context.Context, shards.QueueSpec) error            { return nil }
func (*fakeControl) BindQueue(context.Context, string, string, string) error         { return nil }
func (*fakeControl) UnbindQueue(context.Context, string, string, string) error       { return nil }
func (*fakeControl) DeleteQueue(context.Context, string, bool, bool) (uint32, error) { return 0, nil }
func (*fakeControl) Close() error                                                    { return nil }

func (*fakeControl) QueueCount(_ context.Context, name string) (shards.Count, error) {
	for i := range testShards {
		if name == shards.QueueName(testExchange, "rabbit@fake", i) {
			return shards.Count{Exists: true, Messages: 10}, nil
		}
	}
	return shards.Count{}, nil
}

func (c *fakeControl) QueueCounts(ctx context.Context, names []string) ([]shards.Count, error) {
	if gate := c.gate.Load(); gate != nil {
		select {
		case <-*gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	out := make([]shards.Count, len(names))
	for i, name := range names {
		out[i], _ = c.QueueCount(ctx, name)
	}
	return out, nil
}

// hold makes requests for counts wait until release is called.
func (c *fakeControl) hold() (release func()) {
	gate := make(chan struct{})
	c.gate.Store(&gate)
	return func() { close(gate) }
}

// testPolicies shard the test exchange.
func testPolicies(t testing.TB) *shards.Policies {
	t.Helper()
	p, err := shards.NewPolicy("p", "/", "^"+testExchange+"$", 0, shards.Definition{ShardsPerNode: testShards})
	require.NoError(t, err)
	return shards.NewPolicies([]*shards.Policy{p})
}

// testTopology is what the proxy knows of the fake broker; the test exchange's shards are set up.
func testTopology(t testing.TB, c *fakeControl) *shards.Topology {
	t.Helper()
	topology := shards.NewTopology("/", testPolicies(t), []shards.Broker{c}, nil)
	x := topology.Lookup([]byte(testExchange)).Exchange
	state, err := topology.Resolve(t.Context(), x, false)
	require.NoError(t, err)
	require.Equal(t, shards.Sharded, state.Mode)
	require.NoError(t, topology.BindWords(t.Context(), x, 2)) // "some.key"
	return topology
}

// startSharded runs a proxy whose control connection is c.
func startSharded(t *testing.T, c *fakeControl) *rig {
	t.Helper()
	topology := testTopology(t, c)
	return startPrepared(t, func(o *Options) { o.Policies = testPolicies(t) },
		func(s *server) { s.vhosts["/"] = &vhost{name: "/", topology: topology} })
}
