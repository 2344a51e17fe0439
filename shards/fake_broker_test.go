package shards

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

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

type fakeBroker struct {
	cluster *fakeCluster
	name    string
	mu      sync.Mutex
	down    bool
	failing error // what every request fails with
	tries   int   // requests, answered or not
	closed  bool
	again   func() // tells of a new connection
	lost    func() // tells of a lost one
}

var (
	_ Broker       = (*fakeBroker)(nil)
	_ Reconnector  = (*fakeBroker)(nil)
	_ Disconnector = (*fakeBroker)(nil)
)

func (b *fakeBroker) OnReconnect(fn func())  { b.again = fn }
func (b *fakeBroker) OnDisconnect(fn func()) { b.lost = fn }

func (b *fakeBroker) setFailing(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failing = err
}

// tried returns how many requests there were, answered or not.
func (b *fakeBroker) tried() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tries
}

func (b *fakeBroker) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

func (b *fakeBroker) setDown(down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = down
}

// enter counts a request and says whether it fails; the cluster is locked when
// it does not, until leave.
func (b *fakeBroker) enter(ctx context.Context, op, name string) (leave func(), err error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w", op, ctx.Err())
	}
	b.mu.Lock()
	down, failing := b.down, b.failing
	b.tries++
	b.mu.Unlock()
	if down {
		return nil, fmt.Errorf("%s: %s: %w", op, b.name, ErrUnreachable)
	}
	if failing != nil {
		return nil, failing
	}
	b.cluster.mu.Lock()
	b.cluster.calls[op]++
	b.cluster.calls[b.name+" "+op+" "+name]++
	if b.cluster.refuse != nil {
		if err := b.cluster.refuse(op, name); err != nil {
			b.cluster.mu.Unlock()
			return nil, err
		}
	}
	return b.cluster.mu.Unlock, nil
}

func (b *fakeBroker) Node() string                             { return b.name }
func (b *fakeBroker) NodeName(context.Context) (string, error) { return b.name, nil }

func (b *fakeBroker) Version(ctx context.Context) (string, error) {
	leave, err := b.enter(ctx, "version", "")
	if err != nil {
		return "", err
	}
	defer leave()
	return b.cluster.version, nil
}

func (b *fakeBroker) DeclareExchange(ctx context.Context, s ExchangeSpec) error {
	leave, err := b.enter(ctx, "declare exchange", s.Name)
	if err != nil {
		return err
	}
	defer leave()
	is, exists := b.cluster.exchanges[s.Name]
	if !exists {
		b.cluster.exchanges[s.Name] = s
		return nil
	}
	differs := func(arg, received, current string) error {
		return &BrokerError{Code: 406, Text: fmt.Sprintf(
			"PRECONDITION_FAILED - inequivalent arg '%s' for exchange '%s' in vhost '/': received %s but current is %s",
			arg, s.Name, received, current)}
	}
	switch {
	case is.Type != s.Type:
		return differs("type", quoteType(s.Type), quoteType(is.Type))
	case is.Durable != s.Durable:
		return differs("durable", fmt.Sprintf("'%t'", s.Durable), fmt.Sprintf("'%t'", is.Durable))
	case is.AutoDelete != s.AutoDelete:
		return differs("auto_delete", fmt.Sprintf("'%t'", s.AutoDelete), fmt.Sprintf("'%t'", is.AutoDelete))
	case is.Internal != s.Internal:
		return differs("internal", fmt.Sprintf("'%t'", s.Internal), fmt.Sprintf("'%t'", is.Internal))
	case is.AlternateExchange == "" && s.AlternateExchange != "":
		return differs("alternate-exchange", fmt.Sprintf("the value '%s' of type 'longstr'", s.AlternateExchange), "none")
	case is.AlternateExchange != s.AlternateExchange:
		return differs("alternate-exchange", "'"+s.AlternateExchange+"'", "'"+is.AlternateExchange+"'")
	}
	return nil
}

func (b *fakeBroker) ExchangeExists(ctx context.Context, name string) (bool, error) {
	b.cluster.mu.Lock()
	hold := b.cluster.hold
	b.cluster.mu.Unlock()
	if hold != nil {
		b.cluster.held <- struct{}{}
		<-hold
	}
	leave, err := b.enter(ctx, "exchange exists", name)
	if err != nil {
		return false, err
	}
	defer leave()
	_, exists := b.cluster.exchanges[name]
	return exists, nil
}

func (b *fakeBroker) DeleteExchange(ctx context.Context, name string) error {
	leave, err := b.enter(ctx, "delete exchange", name)
	if err != nil {
		return err
	}
	defer leave()
	b.cluster.mu.Unlock()
	b.cluster.deleteExchange(name)
	b.cluster.mu.Lock()
	return nil
}

func (b *fakeBroker) BindQueue(ctx context.Context, queue, key, exchange string) error {
	leave, err := b.enter(ctx, "bind", queue)
	if err != nil {
		return err
	}
	defer leave()
	_, haveQueue := b.cluster.queues[queue]
	if _, ok := b.cluster.exchanges[exchange]; !ok || !haveQueue {
		return &BrokerError{Code: 404, Text: "NOT_FOUND"}
	}
	b.cluster.bindings[[3]string{exchange, key, queue}] = true
	return nil
}

func (b *fakeBroker) UnbindQueue(ctx context.Context, queue, key, exchange string) error {
	leave, err := b.enter(ctx, "unbind", queue)
	if err != nil {
		return err
	}
	defer leave()
	delete(b.cluster.bindings, [3]string{exchange, key, queue})
	return nil
}

func (b *fakeBroker) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
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

// nodeNames returns rabbit@a, rabbit@b, ...
func nodeNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "rabbit@" + string(rune('a'+i))
	}
	return names
}

// advance lets time pass in a synctest bubble.
func advance(d time.Duration) { <-time.After(d) }
