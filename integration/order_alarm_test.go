package integration

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

// TestOrderAlarm: while the broker takes no messages, proxies cannot talk to each other. Consumers that come then, at
// two proxies, share an ordered exchange all the same: all that waits is consumed in order, by one consumer of each
// shard. Once the alarm is over a leader shares the shards out again.
func TestOrderAlarm(t *testing.T) {
	t.Parallel()
	e := newNodeEnv(t, rig.NodeOptions{})
	const shards, keys, each = 4, 12, 20
	f := e.fleet(fleetOptions{
		proxies: 2, exchange: "images", fixed: shards, more: ", max-consumers-per-shard: 1", heartbeat: time.Minute,
	})
	w := f.watch(e.url, f.shards(shards, 0))
	l := newLedger()
	c := f.crowd(l, 1)
	for i := range 2 {
		c.join(i, 5, prompt{})
	}
	w.settle(shards)
	c.leaveAll()
	w.await("nobody", even(0))

	ch := confirming(t, f.url(0))
	for n := range each {
		for k := range keys {
			message := fmt.Sprintf("backlog-%d/%d", k, n)
			publish(t, ch, "images", fmt.Sprintf("backlog-%d", k), amqp.Publishing{Body: []byte(message + "/0")})
			l.confirm(message)
		}
	}
	e.ctl("set_vm_memory_high_watermark", "0.0001")
	w.goOn(8 * time.Second) // no leader is heard any more
	for i := range 4 {
		c.join(i%2, 5, prompt{})
	}
	took := w.await("a consumer of every shard without the proxies' talking", even(shards))
	l.awaitConsumed(t)
	require.Empty(t, l.inversions, "first deliveries after a later message of their key")
	require.Equal(t, 1, w.mostAtOnce(), "consumers of one shard")
	e.ctl("set_vm_memory_high_watermark", "0.4")

	p := f.pump(l, pumpOptions{publishers: 2, keys: 8, every: 100 * time.Millisecond})
	p.everyKey(3)
	w.settle(shards)
	_, perChannel := e.attachments("sharding: images")
	require.Len(t, perChannel, 4, "every consumer has its shard: %v", perChannel)
	p.everyKey(3)
	p.stop()
	l.awaitConsumed(t)
	l.require(f, w)
	require.Empty(t, l.inversions, "first deliveries after a later message of their key")
	require.Equal(t, 1, w.mostAtOnce(), "consumers of one shard")
	t.Logf("during the alarm all shards were taken within %s", took)
}
