package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
	"github.com/shardmq/shardmq/shards/internal/parallel"
)

// do runs one request on a channel of its own. It returns at the deadline even
// if the broker does not answer; the channel is then given up until it does. A
// request that lost its connection is tried once more on the next one, and one
// that got no answer in time on another channel, if the caller's deadline leaves
// the time: all of them can be repeated without harm.
//
// The broker has RequestTimeout to answer. Waiting for a free channel comes on
// top, but only for callers that set a deadline themselves.
func do[T any](ctx context.Context, c *Client, r request, fn func(*amqp.Channel) (T, error)) (T, error) {
	if _, ok := ctx.Deadline(); !ok {
		bounded, cancel := context.WithTimeout(ctx, c.o.RequestTimeout)
		defer cancel()
		ctx = bounded
	}
	v, err, again := once(ctx, c, r, fn)
	if deadline, _ := ctx.Deadline(); again && ctx.Err() == nil && time.Until(deadline) > 0 {
		v, err, _ = once(ctx, c, r, fn)
	}
	return v, err
}

type outcome[T any] struct {
	value T
	err   error
}

// once tries a request once, and reports whether another try may go better.
func once[T any](ctx context.Context, c *Client, r request, fn func(*amqp.Channel) (T, error)) (T, error, bool) {
	var zero T
	l, err := c.connected(ctx, r.op)
	if err != nil {
		return zero, err, false
	}
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return zero, &UnreachableError{Address: c.o.Address, Op: r.op, Err: context.Cause(ctx)}, false
	}
	asked, cancel := context.WithTimeout(ctx, c.o.RequestTimeout)
	defer cancel()
	done := make(chan outcome[T], 1)
	if !c.spawn(func() { done <- call(l, fn) }) {
		<-l.slots
		return zero, ErrClosed, false
	}
	select {
	case o := <-done:
		if o.err == nil {
			return o.value, nil, false
		}
		if c.ctx.Err() != nil {
			return zero, ErrClosed, false
		}
		err, lost := c.fail(r, o.err)
		return zero, err, lost
	case <-asked.Done():
		return zero, &UnreachableError{Address: c.o.Address, Op: r.op, Err: context.Cause(asked)}, true
	}
}

// call runs fn on a channel and frees the slot.
func call[T any](l *link, fn func(*amqp.Channel) (T, error)) (o outcome[T]) {
	defer func() { <-l.slots }()
	ch, err := l.channel()
	if err != nil {
		o.err = err
		return o
	}
	o.value, o.err = fn(ch)
	l.release(ch)
	return o
}

// exec is do for requests that only succeed or fail.
func exec(ctx context.Context, c *Client, r request, fn func(*amqp.Channel) error) error {
	_, err := do(ctx, c, r, func(ch *amqp.Channel) (struct{}, error) { return struct{}{}, fn(ch) })
	return err
}

// absent reports a 404, and returns any other error.
func absent(err error) (bool, error) {
	if refused, ok := errors.AsType[*shards.BrokerError](err); ok && frames.Code(refused.Code) == frames.NotFound {
		return true, nil
	}
	return false, err
}

// Node implements shards.Broker.
func (c *Client) Node() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.name
}

// NodeName implements shards.Broker.
func (c *Client) NodeName(ctx context.Context) (string, error) {
	if name := c.Node(); name != "" {
		return name, nil
	}
	l, err := c.connected(ctx, "learn the node's name")
	if err != nil {
		return "", err
	}
	return l.name, nil
}

// Version implements shards.Broker.
func (c *Client) Version(ctx context.Context) (string, error) {
	l, err := c.connected(ctx, "read the broker's version")
	if err != nil {
		return "", err
	}
	return l.version, nil
}

// connected returns the live connection; op is for the error.
func (c *Client) connected(ctx context.Context, op string) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.RequestTimeout)
	defer cancel()
	l, err := c.acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return l, nil
}

// DeclareExchange implements shards.Broker.
func (c *Client) DeclareExchange(ctx context.Context, s shards.ExchangeSpec) error {
	var args amqp.Table
	if s.AlternateExchange != "" {
		args = amqp.Table{"alternate-exchange": s.AlternateExchange}
	}
	r := request{fmt.Sprintf("declare exchange '%s'", s.Name), func(_, name string) string {
		switch {
		case name != s.Name:
			return "write" // on the alternate exchange
		case s.AlternateExchange != "":
			return "configure and read" // 3.x does not say which of the two
		}
		return "configure"
	}}
	return exec(ctx, c, r, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(s.Name, s.Type, s.Durable, s.AutoDelete, s.Internal, false, args)
	})
}

// ExchangeExists implements shards.Broker.
func (c *Client) ExchangeExists(ctx context.Context, name string) (bool, error) {
	r := request{op: fmt.Sprintf("look for exchange '%s'", name)}
	err := exec(ctx, c, r, func(ch *amqp.Channel) error {
		// A passive declare compares nothing but the name.
		return ch.ExchangeDeclarePassive(name, amqp.ExchangeDirect, false, false, false, false, nil)
	})
	if missing, err := absent(err); missing || err != nil {
		return false, err
	}
	return true, nil
}

// DeleteExchange implements shards.Broker.
func (c *Client) DeleteExchange(ctx context.Context, name string) error {
	r := request{fmt.Sprintf("delete exchange '%s'", name), always("configure")}
	return exec(ctx, c, r, func(ch *amqp.Channel) error { return ch.ExchangeDelete(name, false, false) })
}

// DeclareQueue implements shards.Broker. The queue's node is the one this
// connection goes to, unless a policy of the broker places it elsewhere.
func (c *Client) DeclareQueue(ctx context.Context, s shards.QueueSpec) error {
	r := request{fmt.Sprintf("declare queue '%s'", s.Name), always("configure")}
	return exec(ctx, c, r, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(s.Name, s.Durable, false, false, false, amqp.Table(s.Arguments))
		return err
	})
}

// DeleteQueue deletes the queue and returns how many ready messages went with
// it. A queue that is not there is no error. With ifUnused it is refused (406)
// while the queue has consumers, with ifEmpty while it has ready messages;
// quorum queues take neither (540). Messages that are delivered and not yet
// acknowledged do not count for ifEmpty: RabbitMQ deletes them too.
func (c *Client) DeleteQueue(ctx context.Context, name string, ifUnused, ifEmpty bool) (messages uint32, err error) {
	r := request{fmt.Sprintf("delete queue '%s'", name), always("configure")}
	return do(ctx, c, r, func(ch *amqp.Channel) (uint32, error) {
		n, err := ch.QueueDelete(name, ifUnused, ifEmpty, false)
		return uint32(n), err
	})
}

// noQueue begins the text of the one 404 that says that there is no such queue.
// Others say that its home node is down, that its process has been stopped, or that
// it does not answer.
const noQueue = "NOT_FOUND - no queue "

// QueueCount implements shards.Broker. A queue whose home node is down counts as
// absent: the broker answers 404 for it too. So does a name that the broker takes
// for another queue's, as it does with the rabbitmq_sharding plugin, which answers
// for an exchange's name with its first shard.
func (c *Client) QueueCount(ctx context.Context, name string) (shards.Count, error) {
	r := request{op: fmt.Sprintf("look for queue '%s'", name)}
	q, err := do(ctx, c, r, func(ch *amqp.Channel) (amqp.Queue, error) {
		return ch.QueueDeclarePassive(name, false, false, false, false, nil)
	})
	if missing, other := absent(err); other != nil {
		return shards.Count{}, other
	} else if missing {
		refused, _ := errors.AsType[*shards.BrokerError](err)
		return shards.Count{Dormant: !strings.HasPrefix(refused.Text, noQueue)}, nil
	}
	if q.Name != name {
		return shards.Count{}, nil
	}
	return shards.Count{Messages: uint32(q.Messages), Consumers: uint32(q.Consumers), Exists: true}, nil
}

// QueueCounts implements shards.Broker, with as many requests at the same time
// as there are channels.
func (c *Client) QueueCounts(ctx context.Context, names []string) ([]shards.Count, error) {
	counts := make([]shards.Count, len(names))
	err := parallel.Do(ctx, len(names), c.o.Channels, func(ctx context.Context, i int) (err error) {
		counts[i], err = c.QueueCount(ctx, names[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// BindQueue implements shards.Broker.
func (c *Client) BindQueue(ctx context.Context, queue, key, exchange string) error {
	r := request{fmt.Sprintf("bind queue '%s' to exchange '%s'", queue, exchange), bindRight}
	return exec(ctx, c, r, func(ch *amqp.Channel) error { return ch.QueueBind(queue, key, exchange, false, nil) })
}

// UnbindQueue implements shards.Broker.
func (c *Client) UnbindQueue(ctx context.Context, queue, key, exchange string) error {
	r := request{fmt.Sprintf("unbind queue '%s' from exchange '%s'", queue, exchange), bindRight}
	return exec(ctx, c, r, func(ch *amqp.Channel) error { return ch.QueueUnbind(queue, key, exchange, nil) })
}

// bindRight is the right bindings take: they write to the queue what they read
// from the exchange.
func bindRight(kind, _ string) string {
	if kind == "queue" {
		return "write"
	}
	return "read"
}

func always(right string) func(string, string) string {
	return func(string, string) string { return right }
}
