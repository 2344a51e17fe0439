package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

// TestBrokerKilled: the broker is killed under confirmed load, twice, and restarted. The proxy serves again without a
// restart, and every confirmed message is delivered.
func TestBrokerKilled(t *testing.T) {
	t.Parallel()
	e := newNodeEnv(t, rig.NodeOptions{})
	p := e.proxy(map[string]int{"images": 4})
	declareSharded(t, open(t, p.URL), "images")
	shards := e.probe("images", 4)

	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	l := &traffic{url: p.URL, confirmed: map[string]bool{}, consumed: map[string]bool{}}
	var running sync.WaitGroup
	for range 2 {
		running.Go(func() { l.consume(ctx) })
	}
	const publishers, each = 3, 1500
	var publishing sync.WaitGroup
	for i := range publishers {
		publishing.Go(func() { l.publish(ctx, keys(fmt.Sprintf("publisher-%d", i), each)) })
	}
	for _, after := range []int{500, 2500} {
		l.await(t, fmt.Sprintf("%d confirms", after), func() int { return after - len(l.confirmed) })
		require.NoError(t, e.broker.Kill())
		require.NoError(t, e.broker.Restart(t.Context()))
	}
	publishing.Wait()
	require.NoError(t, ctx.Err(), "publishing has not come to its end")
	l.await(t, "the consumption of every confirmed message", func() int { return len(l.lost()) })
	cancel()
	running.Wait()
	require.Len(t, l.confirmed, publishers*each)
	require.Positive(t, l.reconnects)
	t.Logf("%d reconnects, %d deliveries of %d messages", l.reconnects, l.deliveries, len(l.consumed))
	shards.ch = open(t, e.url) // its connection was killed too
	shards.waitConsumers(0, 0, 0, 0)
	shards.waitMessages(0)
}

// traffic publishes and consumes and comes back after every loss of its connections, as an application does.
type traffic struct {
	url string

	mu                     sync.Mutex
	confirmed, consumed    map[string]bool
	deliveries, reconnects int
}

// await waits until nothing is left to wait for. left is called with mu held.
func (l *traffic) await(t *testing.T, what string, left func() int) {
	t.Helper()
	eventually(t, what, func() string {
		l.mu.Lock()
		defer l.mu.Unlock()
		if n := left(); n > 0 {
			return fmt.Sprintf("%d are missing; %d confirmed, %d consumed, %d reconnects", n, len(l.confirmed), len(l.consumed), l.reconnects)
		}
		return ""
	})
}

// lost returns what was confirmed and not consumed. Called with mu held.
func (l *traffic) lost() []string {
	var lost []string
	for id := range l.confirmed {
		if !l.consumed[id] {
			lost = append(lost, id)
		}
	}
	return lost
}

// publish sends the messages, persistent, in batches. What was not confirmed, for whatever reason, is sent again.
func (l *traffic) publish(ctx context.Context, ids []string) {
	for len(ids) > 0 {
		l.connected(ctx, func(ch *amqp.Channel) error {
			if err := ch.Confirm(false); err != nil {
				return err
			}
			for len(ids) > 0 {
				rest, err := l.batch(ctx, ch, ids[:min(50, len(ids))])
				ids = append(rest, ids[min(50, len(ids)):]...)
				if err != nil {
					return err
				}
			}
			return nil
		})
		if ctx.Err() != nil {
			return
		}
	}
}

// batch publishes the messages and returns those that were not confirmed.
func (l *traffic) batch(ctx context.Context, ch *amqp.Channel, ids []string) (rest []string, err error) {
	confirms := make([]*amqp.DeferredConfirmation, len(ids))
	for i, id := range ids {
		m := amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: id, Body: []byte(id)}
		if confirms[i], err = ch.PublishWithDeferredConfirmWithContext(ctx, "images", id, true, false, m); err != nil {
			break
		}
	}
	for i, id := range ids {
		if confirms[i] != nil {
			if acked, werr := confirms[i].WaitContext(ctx); acked && werr == nil {
				l.mu.Lock()
				l.confirmed[id] = true
				l.mu.Unlock()
				continue
			}
		}
		rest = append(rest, id)
	}
	if err == nil && len(rest) > 0 {
		err = errors.New("not everything was confirmed")
	}
	return rest, err
}

// consume takes messages until the context ends.
func (l *traffic) consume(ctx context.Context) {
	for ctx.Err() == nil {
		l.connected(ctx, func(ch *amqp.Channel) error {
			if err := ch.Qos(50, 0, false); err != nil {
				return err
			}
			deliveries, err := ch.ConsumeWithContext(ctx, "images", "", false, false, false, false, nil)
			if err != nil {
				return err
			}
			for d := range deliveries {
				l.mu.Lock()
				l.consumed[string(d.Body)] = true
				l.deliveries++
				l.mu.Unlock()
				_ = d.Ack(false)
			}
			return nil
		})
	}
}

// connected runs a session on a fresh connection. After a failure it waits a moment, as applications do.
func (l *traffic) connected(ctx context.Context, session func(*amqp.Channel) error) {
	err := func() error {
		conn, err := amqp.Dial(l.url)
		if err != nil {
			return err
		}
		defer conn.Close()
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		return session(ch)
	}()
	if err == nil {
		return
	}
	l.mu.Lock()
	l.reconnects++
	l.mu.Unlock()
	retry := time.NewTimer(50 * time.Millisecond)
	defer retry.Stop()
	select {
	case <-retry.C:
	case <-ctx.Done():
	}
}
