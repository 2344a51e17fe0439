package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCoverageComeAndGo: consumers come and go at random at three proxies under load. No shard is ever alone for long,
// the shares are even whenever things are quiet, and then nothing moves; nothing is lost, and no client sees anything
// of it. SOAK=5m makes it long.
func TestCoverageComeAndGo(t *testing.T) {
	t.Parallel()
	length, _ := soak(t, 20*time.Second)
	e := newCtlEnv(t)
	const shards = 8
	f := e.fleet(fleetOptions{proxies: 3, exchange: "images", fixed: shards})
	w := f.watch(e.url, f.shards(shards, 0))
	l := newLedger()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := f.crowd(l, seed)
	c.join(0, 0, prompt{})
	w.await("the first consumer on every shard", even(1))
	w.wanted.Store(true)
	p := f.pump(l, pumpOptions{publishers: 3, keys: 6, every: 80 * time.Millisecond, seed: seed})
	quiet := time.Duration(0)
	for phase := 0; w.elapsed() < length; phase++ {
		for range 4 + c.rng.IntN(8) {
			c.step([]int{4, 12}[phase%2])
			w.more(1 + c.rng.IntN(15))
		}
		quiet = max(quiet, w.settle(len(c.here)))
		requireNoMoves(t, f, w)
	}
	p.stop()
	l.awaitConsumed(t)
	l.require(f, w)
	t.Logf("shares were even again within %s", quiet)
	require.LessOrEqual(t, w.longestAlone(), takenWithin, "the longest that a shard was without a consumer")
	require.LessOrEqual(t, quiet, takenWithin, "until shares were even after the last coming or going")
}

// requireNoMoves checks that nothing moves while nobody comes or goes, and that each client has a fair share.
func requireNoMoves(t *testing.T, f *fleet, w *watch) {
	t.Helper()
	moves := f.moves()
	before, perChannel := f.e.attachments("sharding: " + f.o.exchange)
	fewest, most := len(before), 0
	for _, n := range perChannel {
		fewest, most = min(fewest, n), max(most, n)
	}
	require.LessOrEqual(t, most-fewest, 1, "shards of the consumers: %v", perChannel)
	w.requireStill(1500 * time.Millisecond)
	after, _ := f.e.attachments("sharding: " + f.o.exchange)
	require.Equal(t, before, after, "who consumes what, when nobody comes or goes")
	require.Equal(t, moves, f.moves(), "moves when nobody comes or goes")
}

// TestCoverageProxyKilled: a proxy is killed while its consumers hold shards and unacknowledged messages. The shards
// are taken over, and what comes again is marked.
func TestCoverageProxyKilled(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	const shards = 8
	f := e.fleet(fleetOptions{proxies: 3, exchange: "images", fixed: shards})
	w := f.watch(e.url, f.shards(shards, 0))
	l := newLedger()
	c := f.crowd(l, 7)
	for i := range 6 {
		// Each share of the prefetch is larger than the window: none of them is ever full, so none is lent (decision 5).
		c.join(i%3, 200, &windowed{size: 5})
	}
	w.await("6 consumers on 8 shards", even(6))
	w.wanted.Store(true)
	p := f.pump(l, pumpOptions{publishers: 3, keys: 8, every: 80 * time.Millisecond})
	for _, victim := range []int{0, 1} { // the one that came first, and leads, and then another
		l.progress(t, 300)
		f.kill(victim)
		w.settle(6) // its clients come back at another proxy
	}
	l.progress(t, 300)
	requireNoMoves(t, f, w)
	p.stop()
	for _, m := range c.here {
		m.flush()
	}
	l.awaitConsumed(t)
	l.require(f, w)
	require.Positive(t, l.reconnects)
	require.LessOrEqual(t, w.longestAlone(), takenWithin, "the longest that a shard was without a consumer")
}
