package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

// TestCoverageAlarm: while the broker takes no messages, proxies cannot talk to each other. What a consumer leaves then
// is taken all the same, and once the alarm is over the shares are even.
func TestCoverageAlarm(t *testing.T) {
	t.Parallel()
	e := newNodeEnv(t, rig.NodeOptions{})
	const shards = 4
	f := e.fleet(fleetOptions{proxies: 2, exchange: "images", fixed: shards})
	w := f.watch(e.url, f.shards(shards, 0))
	l := newLedger()
	c := f.crowd(l, 1)
	for i := range 4 {
		c.join(i%2, 20, prompt{})
	}
	w.settle(4)
	p := f.pump(l, pumpOptions{publishers: 2, keys: 8, every: 100 * time.Millisecond})
	p.everyKey(3)

	e.ctl("set_vm_memory_high_watermark", "0.000001")
	eventually(t, "a silent publisher", func() string {
		before := l.confirms()
		w.more(20)
		if l.confirms() > before {
			return "confirms still come"
		}
		return ""
	})
	c.here[0].leave(byConnection)
	c.here[0].leave(byCancel)
	took := w.await("a consumer of every shard without the proxies' talking", covered)
	c.join(0, 20, prompt{})
	e.ctl("set_vm_memory_high_watermark", "0.4")

	p.everyKey(3)
	w.settle(3)
	_, perChannel := e.attachments("sharding: images")
	require.Len(t, perChannel, 3, "every consumer has a share: %v", perChannel)
	requireNoMoves(t, f, w)
	p.stop()
	l.awaitConsumed(t)
	l.require(f, w)
	t.Logf("during the alarm a leaver's shards were taken within %s", took)
}
