package integration

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

// orderRig is a fleet with max-consumers-per-shard: 1, under load of many keys.
type orderRig struct {
	f *fleet
	w *watch
	l *ledger
	c *crowd
	p *pump

	narrow bool // some have a prefetch of 1: they consume one of their shards at a time
}

const orderShards = 4

func newOrderRig(t *testing.T, seed uint64) *orderRig {
	t.Helper()
	return newOrderRigIn(newCtlEnv(t), seed)
}

func newOrderRigIn(e *env, seed uint64) *orderRig {
	e.t.Helper()
	f := e.fleet(fleetOptions{
		proxies: 3, exchange: "images", fixed: orderShards, more: ", max-consumers-per-shard: 1", heartbeat: time.Minute,
	})
	r := &orderRig{f: f, w: f.watch(e.url, f.shards(orderShards, 0)), l: newLedger()}
	r.c = f.crowd(r.l, seed)
	for i := range 3 {
		r.join(i)
	}
	r.w.await("an owner of every shard", even(3))
	r.w.wanted.Store(true)
	r.p = f.pump(r.l, pumpOptions{publishers: 4, keys: 6, every: 120 * time.Millisecond, seed: seed})
	return r
}

func (r *orderRig) join(proxy int) *member {
	prefetch := 5
	if r.narrow {
		prefetch = 1
	}
	return r.c.join(proxy, []int{0, 4, 50, prefetch}[r.c.rng.IntN(4)], &unhurried{})
}

// owned waits until every shard has its one consumer and nothing changes any more.
func (r *orderRig) owned() {
	r.f.t.Helper()
	r.w.settle(min(len(r.c.here), orderShards))
}

// require ends the load and checks that no message was delivered for the first time after a later one of its key, and
// that no shard ever had two consumers.
func (r *orderRig) require() {
	t := r.f.t
	t.Helper()
	r.p.stop()
	r.l.awaitConsumed(t)
	r.l.require(r.f, r.w)
	require.Empty(t, r.l.inversions, "first deliveries after a later message of their key")
	require.LessOrEqual(t, r.w.mostAtOnce(), 1, "consumers of one shard")
	require.LessOrEqual(t, r.w.longestAlone(), takenWithin, "the longest that a shard was without a consumer")
}

// TestOrderComeAndGo: each key's messages are consumed in their order, while consumers come and go in every way.
func TestOrderComeAndGo(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	length, _ := soak(t, 12*time.Second)
	r := newOrderRig(t, seed)
	r.narrow = true
	r.w.wanted.Store(false)
	for r.w.elapsed() < length {
		r.l.progress(t, 100)
		if len(r.c.here) > 1 && r.c.rng.IntN(6) < len(r.c.here) {
			r.c.here[r.c.rng.IntN(len(r.c.here))].leave(r.c.rng.IntN(waysToLeave))
		} else {
			r.join(r.f.anyone(r.c.rng))
		}
	}
	r.require()
}

// TestOrderWaiting: consumers beyond one for each shard hold nothing at the broker, and take over from those that leave.
func TestOrderWaiting(t *testing.T) {
	t.Parallel()
	r := newOrderRig(t, 3)
	for i := range 4 {
		r.join(i % 3)
	}
	r.owned()
	all, perChannel := r.f.e.attachments("sharding: images")
	require.Len(t, all, orderShards, "consumers at the broker")
	require.Len(t, perChannel, orderShards, "channels that consume, one shard each")
	for len(r.c.here) > 2 {
		r.c.here[0].leave(len(r.c.here) % waysToLeave)
		r.owned()
		r.l.progress(t, 50)
	}
	for _, m := range r.c.here {
		before := m.received()
		eventually(t, fmt.Sprintf("messages at client %d", m.id), func() string { return atLeast(m.received(), before+10) })
	}
	r.require()
}

// TestOrderProxyKilled: order survives the death of proxies, whose clients come back at another.
func TestOrderProxyKilled(t *testing.T) {
	t.Parallel()
	r := newOrderRig(t, 4)
	for i := range 3 {
		r.join(i)
	}
	for _, victim := range []int{0, 2} {
		r.l.progress(t, 300)
		r.f.kill(victim)
		r.owned()
	}
	r.l.progress(t, 300)
	r.require()
	require.Positive(t, r.l.reconnects)
}

// TestOrderProxyPaused: order survives a proxy that does nothing for longer than the others wait for it, and then goes
// on where it was. No client loses anything. With SOAK the broker gives up its coordination meanwhile.
func TestOrderProxyPaused(t *testing.T) {
	t.Parallel()
	pause := 8 * time.Second // the others wait 3 s
	if _, long := soak(t, 0); long {
		pause = 25 * time.Second
	}
	r := newOrderRig(t, 6)
	for i := range 3 {
		r.join(i)
	}
	r.owned()
	for _, paused := range []int{0, 2} {
		r.l.progress(t, 200)
		require.NoError(t, r.f.proxies[paused].Signal(syscall.SIGSTOP))
		r.w.goOn(pause)
		require.NoError(t, r.f.proxies[paused].Signal(syscall.SIGCONT))
		r.p.everyKey(3)
		r.owned()
	}
	r.l.progress(t, 200)
	r.require()
}

// TestOrderVersions: order holds on other releases of RabbitMQ too, whose single active consumers behave differently,
// while consumers come and go and a proxy is killed.
func TestOrderVersions(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		r := newOrderRigIn(newNodeEnv(t, rig.NodeOptions{Version: version}), 8)
		for i := range 3 {
			r.join(i)
		}
		for i := range 9 {
			r.l.progress(t, 60)
			switch {
			case i == 4:
				r.f.kill(1)
			case i%2 == 0:
				r.c.here[r.c.rng.IntN(len(r.c.here))].leave(r.c.rng.IntN(waysToLeave))
			default:
				r.join(r.f.anyone(r.c.rng))
			}
		}
		r.owned()
		r.require()
	}, "4.0", "4.3")
}
