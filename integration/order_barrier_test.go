package integration

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

// stream publishes messages of some keys one after the other, without waiting for anything, over one channel, until ctx
// ends. With confirms, a message counts once it is confirmed; without, once it is sent.
func (f *fleet) stream(ctx context.Context, l *ledger, proxy, publisher int, confirms bool) error {
	conn, _, err := f.dial(proxy)
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if confirms {
		if err := ch.Confirm(false); err != nil {
			return err
		}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for n := 1; ; {
		select {
		case <-ctx.Done():
			return conn.Close() // in order: what was sent arrives
		case <-tick.C:
		}
		if l.backlog() > 300 {
			continue
		}
		for k := range 5 {
			message := fmt.Sprintf("%s/%d", keyName(publisher, k), n)
			confirm, err := ch.PublishWithDeferredConfirm(f.o.exchange, keyName(publisher, k), true, false, amqp.Publishing{Body: []byte(message + "/0")})
			switch {
			case err != nil:
				return err
			case confirm == nil:
				l.confirm(message)
			default:
				go func() {
					if confirm.Wait() {
						l.confirm(message)
					}
				}()
			}
		}
		n++
	}
}

// streams runs streams of both kinds through every proxy; stop ends them.
func (f *fleet) streams(l *ledger) (stop func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan error)
	n := 0
	for i := range f.o.proxies {
		for _, confirms := range []bool{true, false} {
			own := n
			go func() { ended <- f.stream(ctx, l, i, own, confirms) }()
			n++
		}
	}
	return func() {
		cancel()
		for range n {
			require.NoError(f.t, <-ended)
		}
	}
}

// reload has the proxies take over another number of shards, one after the other, and waits until all publish by it.
func (f *fleet) reload(l *ledger, perNode int) {
	f.t.Helper()
	for i := range f.proxies {
		require.NoError(f.t, f.proxies[i].Configure(f.config(i, f.definition(0, perNode))))
		require.NoError(f.t, f.proxies[i].Signal(syscall.SIGHUP))
		l.progress(f.t, 200)
	}
	eventually(f.t, fmt.Sprintf("publishes over %d shards", perNode), func() string {
		if live := f.metric("shardmq_shards_live"); live != perNode*len(f.proxies) {
			return fmt.Sprintf("%d shards of %d proxies", live, len(f.proxies))
		}
		return ""
	})
	l.progress(f.t, 500)
}

// logged counts a text in the logs of all proxies.
func (f *fleet) logged(text string) (n int) {
	for _, p := range f.proxies {
		n += strings.Count(p.Logs(), text)
	}
	return n
}

// testOrderBarrier resizes an exchange to and fro under load, with consumers that keep messages for a while: no message
// is delivered before an earlier one of its key, whether or not publishers wait for confirms.
func testOrderBarrier(t *testing.T, e *env) {
	f := e.fleet(fleetOptions{proxies: 3, exchange: "images", perNode: 2, more: ", max-consumers-per-shard: 1, order-barrier: true"})
	w := f.watch(e.url, f.shards(0, 2))
	l := newLedger()
	c := f.crowd(l, 1)
	c.join(0, 50, prompt{})
	c.join(1, 10, &unhurried{})
	c.join(2, 0, &unhurried{})
	w.await("owners", covered)
	stop := f.streams(l)
	l.progress(t, 300)
	for _, shards := range []int{4, 2, 3} {
		f.reload(l, shards)
	}
	stop()
	l.awaitConsumed(t)
	l.require(f, w)
	require.Empty(t, l.inversions, "first deliveries after a later message of their key")
	require.Equal(t, 3, f.logged("publishes go by other shards now, and go on"))
	require.Zero(t, f.logged("cannot be changed in order yet"))
}

func TestOrderBarrier(t *testing.T) {
	t.Parallel()
	testOrderBarrier(t, newCtlEnv(t))
}

func TestOrderBarrierVersions(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		testOrderBarrier(t, newNodeEnv(t, rig.NodeOptions{Version: version}))
	}, "4.0", "4.3")
}

// TestOrderBarrierWaits: a message that a consumer keeps holds publishes up, and no other exchange's; when it is
// acknowledged they go on.
func TestOrderBarrierWaits(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	f := e.fleet(fleetOptions{proxies: 1, exchange: "images", perNode: 2, more: ", max-consumers-per-shard: 1, order-barrier: true"})
	conn, _, err := f.dial(0)
	require.NoError(t, err)
	defer conn.Close()
	consumer, publisher, other := channel(t, conn), channel(t, conn), channel(t, conn)
	require.NoError(t, publisher.Confirm(false))
	require.NoError(t, other.Confirm(false))
	deliveries, err := consumer.Consume("images", "", false, false, false, false, nil)
	require.NoError(t, err)
	publish(t, publisher, "images", "k", amqp.Publishing{Body: []byte("first")})
	first := <-deliveries

	require.NoError(t, f.proxies[0].Configure(f.config(0, f.definition(0, 4))))
	require.NoError(t, f.proxies[0].Signal(syscall.SIGHUP))
	eventually(t, "the pause", func() string { return atLeast(f.logged("publishes pause until all shards are empty"), 1) })
	var second *amqp.DeferredConfirmation
	eventually(t, "a publish that waits", func() string {
		confirm, err := publisher.PublishWithDeferredConfirm("images", "k", true, false, amqp.Publishing{Body: []byte("second")})
		require.NoError(t, err)
		publish(t, other, "", "nowhere-"+e.suffix, amqp.Publishing{})
		select {
		case <-confirm.Done():
			require.True(t, confirm.Acked())
			next := <-deliveries
			require.NoError(t, next.Ack(false))
			return "not yet"
		default:
			second = confirm
			return ""
		}
	})
	require.NotNil(t, second)
	require.NoError(t, first.Ack(false))
	require.True(t, second.Wait())
	require.Equal(t, "second", string((<-deliveries).Body))
	require.Equal(t, 4, f.metric("shardmq_shards_live"))
}

// TestCatchAllMetric: messages that did not come through a proxy are counted, as far as they can be told.
func TestCatchAllMetric(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	f := e.fleet(fleetOptions{proxies: 1, exchange: "images", perNode: 4})
	client, past := confirming(t, f.url(0)), confirming(t, e.url)
	deliveries, err := client.Consume("images", "", true, false, false, false, nil)
	require.NoError(t, err)
	want := 0
	for i := range 60 {
		key := fmt.Sprintf("key-%d", i)
		publish(t, client, "images", key, amqp.Publishing{})
		publish(t, past, "images", key, amqp.Publishing{})
		if xxhash.Sum64String(key)%4 != 0 {
			want++
		}
	}
	for range 120 {
		<-deliveries
	}
	require.Equal(t, want, f.metric("shardmq_catch_all_messages_total"))
}
