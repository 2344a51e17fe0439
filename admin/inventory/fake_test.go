package inventory

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/shardmq/shardmq/shards"
	"github.com/shardmq/shardmq/shards/coordination"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files in testdata anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is what all fake brokers of a test share.
type cluster struct {
	mu      sync.Mutex
	queues  map[string]*queue
	asked   []string // names of queues that were counted, "NODE NAME"
	unbound []string // "QUEUE KEY EXCHANGE"
	deleted []string
	refused int // deletions on a condition, of replicated queues
	// onUnbind happens at the first unbinding.
	onUnbind func()
}

// queue is one of a fake cluster.
type queue struct {
	ready, consumers uint32
	grows            uint32 // by which ready grows at each count
	replicated       bool
	dormant          bool  // its node is down, or it has crashed
	fails            error // what asking about it fails with
}

// node is a fake broker's connection to one node.
type node struct {
	*cluster
	name string
	down bool
}

var _ Broker = (*node)(nil)

func (n *node) Node() string { return n.name }

func (n *node) NodeName(context.Context) (string, error) { return n.name, nil }

func (n *node) ExchangeExists(context.Context, string) (bool, error) {
	if n.down {
		return false, shards.ErrUnreachable
	}
	return true, nil
}

func (n *node) QueueCounts(_ context.Context, names []string) ([]shards.Count, error) {
	if n.down {
		return nil, shards.ErrUnreachable
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]shards.Count, len(names))
	for i, name := range names {
		n.asked = append(n.asked, n.name+" "+name)
		if len(name) > 255 {
			return nil, shards.ErrUnreachable // it cannot even be sent
		}
		if q := n.queues[name]; q != nil {
			if q.fails != nil {
				return nil, q.fails
			}
			if out[i].Dormant = q.dormant; q.dormant {
				continue
			}
			out[i] = shards.Count{Exists: true, Messages: q.ready, Consumers: q.consumers}
			q.ready += q.grows
		}
	}
	return out, nil
}

func (n *node) UnbindQueue(_ context.Context, queue, key, exchange string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if fn := n.onUnbind; fn != nil {
		n.onUnbind = nil
		fn()
	}
	if exchange == "gone" || exchange == "gone.unsharded" {
		return &shards.BrokerError{Code: 404, Text: "NOT_FOUND"}
	}
	n.unbound = append(n.unbound, queue+" "+key+" "+exchange)
	return nil
}

func (n *node) DeleteQueue(_ context.Context, name string, ifUnused, ifEmpty bool) (uint32, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	q := n.queues[name]
	switch {
	case q == nil:
		return 0, nil
	case q.replicated && (ifUnused || ifEmpty):
		n.refused++
		return 0, &shards.BrokerError{Code: 540, Text: "NOT_IMPLEMENTED"}
	case ifUnused && q.consumers > 0, ifEmpty && q.ready > 0:
		return 0, &shards.BrokerError{Code: 406, Text: "PRECONDITION_FAILED"}
	}
	delete(n.queues, name)
	n.deleted = append(n.deleted, name)
	return q.ready, nil
}

// policies are one that matches "images" with two shards per node, and what else
// is given.
func policies(t *testing.T, more ...*shards.Policy) *shards.Policies {
	t.Helper()
	return shards.NewPolicies(append(more, policy(t, "images", shards.Definition{ShardsPerNode: 2})))
}

func policy(t *testing.T, name string, d shards.Definition) *shards.Policy {
	t.Helper()
	p, err := shards.NewPolicy(name, "/", "^"+name+"$", 0, d)
	require.NoError(t, err)
	return p
}

// options look at two nodes, of which b may be down.
func (c *cluster) options(t *testing.T, down bool) Options {
	return Options{Vhost: "/", Policies: policies(t), Brokers: []Broker{
		&node{cluster: c, name: "rabbit@a"}, &node{cluster: c, name: "rabbit@b", down: down},
	}}
}

func shardOf(exchange, node string, i int) coordination.Shard {
	return coordination.Shard{Queue: shards.QueueName(exchange, node, i), Node: node, Index: i}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *rewrite {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

func statuses(x Exchange) map[string]Status {
	out := map[string]Status{}
	for _, s := range x.Shards {
		out[s.Queue] = s.Status
	}
	return out
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }
