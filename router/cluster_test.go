package router_test

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/shardmq/shardmq/shards"
)

// cluster is what the control connections see: the exchanges and queues of an in-memory broker.
type cluster struct {
	mu        sync.Mutex
	version   string
	exchanges map[string]shards.ExchangeSpec
	queues    map[string]shards.Count
	bound     map[string]string // queue by exchange and binding key, joined by a zero octet
}

func newCluster() *cluster {
	return &cluster{version: "3.10.8", exchanges: map[string]shards.ExchangeSpec{}, queues: map[string]shards.Count{}, bound: map[string]string{}}
}

// use runs fn with the cluster locked.
func (c *cluster) use(fn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fn()
}

// addExchange declares an exchange unless it is there already.
func (c *cluster) addExchange(s shards.ExchangeSpec) {
	c.use(func() {
		if _, ok := c.exchanges[s.Name]; !ok {
			c.exchanges[s.Name] = s
		}
	})
}

// route finds the queue that a binding key of an exchange leads to, "" for none.
func (c *cluster) route(exchange, key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bound[exchange+"\x00"+key]
}

// control is the control connection to one node of a cluster.
type control struct {
	of   *cluster
	name string
}

var _ shards.Broker = control{}

func (b control) Node() string                             { return b.name }
func (b control) NodeName(context.Context) (string, error) { return b.name, nil }
func (b control) Version(context.Context) (string, error)  { return b.of.version, nil }
func (b control) Close() error                             { return nil }

func (b control) DeclareExchange(_ context.Context, s shards.ExchangeSpec) error {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	is, ok := b.of.exchanges[s.Name]
	if !ok {
		b.of.exchanges[s.Name] = s
		return nil
	}
	alternate := func(name string) string {
		if name == "" {
			return "none"
		}
		return "the value '" + name + "' of type 'longstr'"
	}
	for _, p := range [][3]string{
		{"type", quoted(s.Type), quoted(is.Type)},
		{"durable", fmt.Sprintf("'%t'", s.Durable), fmt.Sprintf("'%t'", is.Durable)},
		{"auto_delete", fmt.Sprintf("'%t'", s.AutoDelete), fmt.Sprintf("'%t'", is.AutoDelete)},
		{"internal", fmt.Sprintf("'%t'", s.Internal), fmt.Sprintf("'%t'", is.Internal)},
		{"alternate-exchange", alternate(s.AlternateExchange), alternate(is.AlternateExchange)},
	} {
		if p[1] != p[2] {
			return &shards.BrokerError{Code: 406, Op: "declare exchange", Text: fmt.Sprintf(
				"PRECONDITION_FAILED - inequivalent arg '%s' for exchange '%s' in vhost '/': received %s but current is %s", p[0], s.Name, p[1], p[2])}
		}
	}
	return nil
}

// quoted is an exchange type as an Erlang atom in RabbitMQ's texts.
func quoted(kind string) string {
	if strings.Contains(kind, "-") {
		return "''" + kind + "''"
	}
	return "'" + kind + "'"
}

func (b control) ExchangeExists(_ context.Context, name string) (ok bool, _ error) {
	b.of.use(func() { _, ok = b.of.exchanges[name] })
	return ok, nil
}

func (b control) DeleteExchange(_ context.Context, name string) error {
	b.of.use(func() { delete(b.of.exchanges, name) })
	return nil
}

func (b control) DeclareQueue(_ context.Context, s shards.QueueSpec) error {
	b.of.use(func() {
		q := b.of.queues[s.Name]
		q.Exists = true
		b.of.queues[s.Name] = q
	})
	return nil
}

func (b control) DeleteQueue(_ context.Context, name string, _, _ bool) (n uint32, _ error) {
	b.of.use(func() {
		n = b.of.queues[name].Messages
		delete(b.of.queues, name)
	})
	return n, nil
}

func (b control) QueueCount(_ context.Context, name string) (n shards.Count, _ error) {
	b.of.use(func() { n = b.of.queues[name] })
	return n, nil
}

func (b control) QueueCounts(ctx context.Context, names []string) ([]shards.Count, error) {
	counts := make([]shards.Count, len(names))
	for i, name := range names {
		counts[i], _ = b.QueueCount(ctx, name)
	}
	return counts, nil
}

func (b control) BindQueue(_ context.Context, queue, key, exchange string) error {
	b.of.use(func() { b.of.bound[exchange+"\x00"+key] = queue })
	return nil
}

func (b control) UnbindQueue(_ context.Context, queue, key, exchange string) error {
	b.of.use(func() {
		if b.of.bound[exchange+"\x00"+key] == queue {
			delete(b.of.bound, exchange+"\x00"+key)
		}
	})
	return nil
}
