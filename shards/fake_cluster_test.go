package shards

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeCluster is an in-memory RabbitMQ: exchanges, queues and bindings shared by
// its nodes, with the real one's refusals.
type fakeCluster struct {
	mu        sync.Mutex
	version   string
	exchanges map[string]ExchangeSpec
	queues    map[string]fakeQueue
	bindings  map[[3]string]bool // exchange, key, queue
	refuse    func(op, name string) error
	calls     map[string]int // by operation, and by node, operation and name
	hold      chan struct{}  // non-nil: ExchangeExists waits until it is closed
	held      chan struct{}  // receives when a call waits
}

func newFakeCluster() *fakeCluster {
	return &fakeCluster{
		version: "3.10.8", exchanges: make(map[string]ExchangeSpec), queues: make(map[string]fakeQueue),
		bindings: make(map[[3]string]bool), calls: make(map[string]int), held: make(chan struct{}, 100),
	}
}

// node returns a connection to a node.
func (c *fakeCluster) node(name string) *fakeBroker { return &fakeBroker{cluster: c, name: name} }

func (c *fakeCluster) do(fn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fn()
}

// keys returns the keys a queue is bound to an exchange with.
func (c *fakeCluster) keys(exchange, queue string) map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := make(map[string]bool)
	for b := range c.bindings {
		if b[0] == exchange && b[2] == queue {
			keys[b[1]] = true
		}
	}
	return keys
}

// deleteQueue deletes a queue with its bindings, as somebody at the broker would.
func (c *fakeCluster) deleteQueue(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.queues, name)
	for binding := range c.bindings {
		if binding[2] == name {
			delete(c.bindings, binding)
		}
	}
}

// deleteExchange is deleteQueue for an exchange.
func (c *fakeCluster) deleteExchange(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.exchanges, name)
	for binding := range c.bindings {
		if binding[0] == name {
			delete(c.bindings, binding)
		}
	}
}

// queue returns a queue as it is now, and whether it is there.
func (c *fakeCluster) queue(name string) (q fakeQueue, there bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q, there = c.queues[name]
	return q, there
}

// requireQueues wants these queues there and no others, by name.
func (c *fakeCluster) requireQueues(t *testing.T, names ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.ElementsMatch(t, names, slices.Collect(maps.Keys(c.queues)))
}

// hasExchange reports whether there is an exchange of that name.
func (c *fakeCluster) hasExchange(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, there := c.exchanges[name]
	return there
}

func (c *fakeCluster) declare(spec ExchangeSpec) {
	c.do(func() { c.exchanges[spec.Name] = spec })
}

func (c *fakeCluster) count(op string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[op]
}

// recorder is a Logger that keeps messages.
type recorder struct {
	mu   sync.Mutex
	logs []string
}

func (r *recorder) Info(msg string, kv ...any) { r.add(msg, kv) }
func (r *recorder) Warn(msg string, kv ...any) { r.add(msg, kv) }

func (r *recorder) add(msg string, kv []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs = append(r.logs, fmt.Sprint(msg, kv))
}

func (r *recorder) count(msg string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, l := range r.logs {
		if len(l) >= len(msg) && l[:len(msg)] == msg {
			n++
		}
	}
	return n
}
