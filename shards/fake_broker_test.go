package shards

import (
	"context"
	"fmt"
	"sync"
	"time"
)

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
