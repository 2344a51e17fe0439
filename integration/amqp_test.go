package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// Shorthands for amqp091-go, unmodified as users have it.

const modulusHash = "x-modulus-hash"

func dial(t *testing.T, url string) *amqp.Connection {
	t.Helper()
	conn, err := amqp.Dial(url)
	require.NoError(t, err, "dial %s", url)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// open returns a channel on a connection of its own.
func open(t *testing.T, url string) *amqp.Channel {
	t.Helper()
	return channel(t, dial(t, url))
}

func channel(t *testing.T, conn *amqp.Connection) *amqp.Channel {
	t.Helper()
	ch, err := conn.Channel()
	require.NoError(t, err)
	return ch
}

// confirming returns a channel in confirm mode on a connection of its own.
func confirming(t *testing.T, url string) *amqp.Channel {
	t.Helper()
	ch := open(t, url)
	require.NoError(t, ch.Confirm(false))
	return ch
}

func declareSharded(t *testing.T, ch *amqp.Channel, exchange string) {
	t.Helper()
	require.NoError(t, ch.ExchangeDeclare(exchange, modulusHash, true, false, false, false, nil))
}

// publish sends one mandatory message and waits for its confirm. The channel must be in confirm mode.
func publish(t *testing.T, ch *amqp.Channel, exchange, key string, message amqp.Publishing) {
	t.Helper()
	require.NoError(t, tryPublish(t.Context(), ch, exchange, key, message))
}

func tryPublish(ctx context.Context, ch *amqp.Channel, exchange, key string, message amqp.Publishing) error {
	confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, true, false, message)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	acked, err := confirm.WaitContext(ctx)
	if err != nil {
		return fmt.Errorf("wait for the confirm: %w", err)
	}
	if !acked {
		return errors.New("the message was not acknowledged")
	}
	return nil
}

// publishKeys publishes the keys, each also as the body, and waits for all confirms at the end.
func publishKeys(t *testing.T, ch *amqp.Channel, exchange string, keys []string) {
	t.Helper()
	confirms := make([]*amqp.DeferredConfirmation, 0, len(keys))
	for _, key := range keys {
		c, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), exchange, key, false, false, text(key))
		require.NoError(t, err)
		confirms = append(confirms, c)
	}
	for i, c := range confirms {
		acked, err := c.WaitContext(t.Context())
		require.NoError(t, err)
		require.True(t, acked, "message with key %q", keys[i])
	}
}

func text(s string) amqp.Publishing { return amqp.Publishing{Body: []byte(s)} }

// keys returns prefix-0, prefix-1, ...
func keys(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return list
}

// drain empties a queue by basic.get.
func drain(t *testing.T, ch *amqp.Channel, queue string) []amqp.Delivery {
	t.Helper()
	var all []amqp.Delivery
	for {
		d, ok, err := ch.Get(queue, true)
		require.NoError(t, err, "get from %q", queue)
		if !ok {
			return all
		}
		all = append(all, d)
	}
}

// consumer is a client consumer on a connection of its own that acknowledges what it gets.
type consumer struct {
	conn *amqp.Connection
	ch   *amqp.Channel
	tag  string
	done chan struct{} // closed when no more deliveries can come

	mu  sync.Mutex
	got []amqp.Delivery
}

// consume starts a consumer with the given prefetch (0: unlimited).
func consume(t *testing.T, url, queue string, prefetch int) *consumer {
	t.Helper()
	conn := dial(t, url)
	c := &consumer{conn: conn, ch: channel(t, conn), tag: "test-consumer", done: make(chan struct{})}
	require.NoError(t, c.ch.Qos(prefetch, 0, false))
	deliveries, err := c.ch.Consume(queue, c.tag, false, false, false, false, nil)
	require.NoError(t, err, "consume from %q", queue)
	go c.collect(deliveries)
	return c
}

func (c *consumer) collect(deliveries <-chan amqp.Delivery) {
	defer close(c.done)
	for d := range deliveries {
		c.mu.Lock()
		c.got = append(c.got, d)
		c.mu.Unlock()
		_ = d.Ack(false) // fails only when the channel is gone, which the test sees elsewhere
	}
}

func (c *consumer) received() []amqp.Delivery {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]amqp.Delivery(nil), c.got...)
}

// leave ends the connection.
func (c *consumer) leave(t *testing.T) {
	t.Helper()
	require.NoError(t, c.conn.Close())
	<-c.done
}

// waitBodies waits until the consumers together have received exactly these bodies, each once.
func waitBodies(t *testing.T, want []string, consumers ...*consumer) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d messages at %d consumers", len(want), len(consumers)), func() string {
		n := 0
		for _, c := range consumers {
			n += len(c.received())
		}
		if n < len(want) {
			return fmt.Sprintf("%d arrived", n)
		}
		return ""
	})
	var got []string
	for _, c := range consumers {
		for _, d := range c.received() {
			got = append(got, string(d.Body))
		}
	}
	requireSameBodies(t, want, got)
}

// requireSameBodies wants the same bodies as often, in any order. (ElementsMatch compares each with each.)
func requireSameBodies(t *testing.T, want, got []string) {
	t.Helper()
	require.Equal(t, slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got)))
}

// closed waits for the error with which the broker or the proxy closes a channel or connection.
func closed(t *testing.T, notify <-chan *amqp.Error) *amqp.Error {
	t.Helper()
	err := wait(t, "the close", notify)
	require.NotNil(t, err, "closed without an error")
	return err
}

// wait takes the next value from a channel.
func wait[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	select {
	case v := <-from:
		return v
	case <-deadline.C:
		require.FailNow(t, what+" did not come")
	}
	panic("unreachable")
}
