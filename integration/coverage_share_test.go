package integration

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// TestCoverageTwoOnEight: two consumers, at two proxies, receive all of 10,000 messages in 8 shards, each half of the
// shards.
func TestCoverageTwoOnEight(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	f := e.fleet(fleetOptions{proxies: 2, exchange: "images", perNode: 8})
	w := f.watch(e.url, f.shards(0, 8))
	l := newLedger()
	c := f.crowd(l, 1)
	first, second := c.join(0, 0, prompt{}), c.join(1, 0, prompt{})
	w.wanted.Store(true)
	w.await("two consumers on 8 shards", even(2))

	const n = 10_000
	publisher := confirming(t, f.url(0))
	var batch []string
	for i := range n {
		batch = append(batch, fmt.Sprintf("key-%d/%d/0", i%997, i))
		if len(batch) < 500 {
			continue
		}
		for _, name := range batch {
			message, _, _ := messageOf(name)
			l.confirm(message) // publishBodies fails the test if one is not
		}
		publishBodies(t, publisher, "images", batch)
		batch = nil
	}
	l.awaitConsumed(t)
	_, perChannel := e.attachments("sharding: images")
	require.Len(t, perChannel, 2, "channels that consume")
	for channel, shards := range perChannel {
		require.Equal(t, 4, shards, "shards of %s", channel)
	}
	t.Logf("the two received %d and %d", first.received(), second.received())
	require.Equal(t, n, first.received()+second.received())
	require.Positive(t, first.received())
	require.Positive(t, second.received())
	l.require(f, w)
}

// TestCoverageDeclaredElsewhere: what one proxy declares, a client of another can consume from and publish to at once,
// and its messages go where their keys belong.
func TestCoverageDeclaredElsewhere(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	f := e.fleet(fleetOptions{proxies: 2, exchange: "images", fixed: 4, undeclared: true})
	publisher := confirming(t, f.url(1))
	declareSharded(t, open(t, f.url(0)), "images")
	var copies []string
	for i := range 60 {
		copies = append(copies, fmt.Sprintf("key-%d/1/0", i))
	}
	publishBodies(t, publisher, "images", copies)
	direct := open(t, e.url)
	for i, name := range f.shards(4, 0) {
		for _, d := range drain(t, direct, name) {
			require.Equal(t, xxhash.Sum64String(d.RoutingKey)%4, uint64(i), "shard of %s", d.RoutingKey)
		}
	}
	l := newLedger()
	w := f.watch(e.url, f.shards(4, 0))
	c := f.crowd(l, 1)
	c.join(1, 0, prompt{})
	c.join(0, 0, prompt{})
	w.settle(2)
	l.require(f, w)
}

// publishBodies publishes copies as the ledger names them, by their keys, and waits for their confirms.
func publishBodies(t *testing.T, ch *amqp.Channel, exchange string, copies []string) {
	t.Helper()
	confirms := make([]*amqp.DeferredConfirmation, len(copies))
	for i, name := range copies {
		_, key, _ := messageOf(name)
		var err error
		confirms[i], err = ch.PublishWithDeferredConfirmWithContext(t.Context(), exchange, key, true, false, text(name))
		require.NoError(t, err)
	}
	for i, c := range confirms {
		acked, err := c.WaitContext(t.Context())
		require.NoError(t, err)
		require.True(t, acked, copies[i])
	}
}

// TestCoverageThousand: 1,000 consumers at three proxies settle on 100 shards, ten on each, and stay. It runs by itself,
// as TestCoverageBacklog does: they keep the broker busy.
func TestCoverageThousand(t *testing.T) {
	e := newCtlEnv(t)
	const shards, connections, each = 100, 50, 20
	f := e.fleet(fleetOptions{proxies: 3, exchange: "images", fixed: shards})
	w := f.watch(e.url, f.shards(shards, 0))
	var coming sync.WaitGroup
	errs := make([]error, connections)
	start := w.elapsed()
	for i := range connections {
		conn, _, err := f.dial(i % 3)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		coming.Go(func() { errs[i] = consumeOften(conn, "images", each) })
	}
	coming.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	joined := w.elapsed() - start
	w.wanted.Store(true)
	w.await("1,000 consumers on 100 shards", even(connections*each))
	t.Logf("1,000 consumers came within %s and were even after %s", joined, w.elapsed()-start)
	moves := f.moves()
	w.requireStill(4 * time.Second)
	require.Equal(t, moves, f.moves(), "moves when nobody comes or goes")
	require.Equal(t, slices.Repeat([]int{connections * each / shards}, shards), w.now())
	t.Logf("summary: moves %d, longest uncovered time %s", moves, w.longestAlone())
}

// consumeOften starts consumers, each on a channel of its own.
func consumeOften(conn *amqp.Connection, queue string, n int) error {
	for range n {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		if _, err := ch.Consume(queue, "", false, false, false, false, nil); err != nil {
			return err
		}
	}
	return nil
}
