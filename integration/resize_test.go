package integration

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
)

// resizeRig is a fleet whose exchange is resized under load.
type resizeRig struct {
	f *fleet
	w *watch // of the shards that are there all the time
	l *ledger
	c *crowd
	p *pump

	placed int // numbers what misplaced publishes
}

func newResizeRig(t *testing.T) *resizeRig {
	t.Helper()
	e := newCtlEnv(t)
	f := e.fleet(fleetOptions{proxies: 3, exchange: "images", perNode: 2})
	r := &resizeRig{f: f, w: f.watch(e.url, f.shards(0, 2)), l: newLedger()}
	r.c = f.crowd(r.l, 1)
	for i := range 3 {
		r.c.join(i, 50, prompt{})
	}
	r.w.await("owners", covered)
	r.w.wanted.Store(true)
	r.p = f.pump(r.l, pumpOptions{publishers: 3, keys: 12, every: 120 * time.Millisecond})
	return r
}

// resize has the proxies reload one after the other, with load in between.
func (r *resizeRig) resize(shards int) {
	t := r.f.t
	t.Helper()
	for i := range r.f.proxies {
		require.NoError(t, r.f.proxies[i].Configure(r.f.config(i, r.f.definition(0, shards))))
		require.NoError(t, r.f.proxies[i].Signal(syscall.SIGHUP))
		r.l.progress(t, 500) // about two seconds
	}
}

// awaitPlaced waits until what is published through every proxy lies where that many shards put it, nobody consuming.
func (r *resizeRig) awaitPlaced(shards int) {
	t := r.f.t
	t.Helper()
	names := r.f.shards(0, shards)
	r.p.hold()
	defer r.p.release()
	r.l.awaitConsumed(t)
	r.w.wanted.Store(false)
	r.c.leaveAll()
	eventually(t, fmt.Sprintf("placement on %d shards by every proxy", shards), func() string {
		for i := range r.f.proxies {
			if wrong := r.misplaced(i, names); wrong != "" {
				return wrong
			}
		}
		return ""
	})
	for i := range 3 {
		r.c.join(i, 50, prompt{})
	}
	r.w.await("owners", covered)
	r.w.wanted.Store(true)
}

// misplaced publishes through one proxy, takes the messages out of the shards again and tells which were elsewhere.
func (r *resizeRig) misplaced(proxy int, names []string) (wrong string) {
	t := r.f.t
	t.Helper()
	conn, _, err := r.f.dial(proxy)
	require.NoError(t, err)
	defer conn.Close()
	ch := channel(t, conn)
	require.NoError(t, ch.Confirm(false))
	var copies []string
	for i := range 40 {
		copies = append(copies, fmt.Sprintf("placed-%d/%d/0", i, r.placed))
	}
	r.placed++
	publishBodies(t, ch, "images", copies)
	direct := open(t, r.f.e.url)
	defer direct.Close()
	found := 0
	for i, name := range names {
		if !r.f.e.exists(name) {
			return name + " is not there"
		}
		for _, d := range drain(t, direct, name) {
			found++
			if want := int(xxhash.Sum64String(d.RoutingKey) % uint64(len(names))); want != i {
				wrong = fmt.Sprintf("%s is on shard %d by proxy %d, not on %d", d.Body, i, proxy, want)
			}
		}
	}
	if found != 40 && wrong == "" {
		wrong = fmt.Sprintf("%d of 40 messages lie in the shards by proxy %d", found, proxy)
	}
	return wrong
}

// awaitConsumers waits until exactly these shards, and no more of the exchange, have consumers.
func (r *resizeRig) awaitConsumers(shards int) {
	t := r.f.t
	t.Helper()
	eventually(t, fmt.Sprintf("consumers of %d shards", shards), func() string {
		ch := open(t, r.f.e.url)
		defer ch.Close()
		var counts []int
		for _, name := range r.f.shards(0, shards) {
			q, err := ch.QueueDeclarePassive(name, false, false, false, false, nil)
			if err != nil {
				return err.Error()
			}
			counts = append(counts, q.Consumers)
		}
		return even(len(r.c.here))(counts)
	})
}

// TestResize: an exchange goes from 2 to 4 shards and back to 2 under load, by proxies that reload seconds apart.
// Nothing is lost. A proxy that starts with the old configuration does not turn it back. The surplus shards are
// consumed until they are empty, then nobody consumes them any more, and they go.
func TestResize(t *testing.T) {
	t.Parallel()
	r := newResizeRig(t)
	r.resize(4)
	r.awaitPlaced(4)
	r.awaitConsumers(4)
	late := r.f.add(r.f.definition(0, 2))
	r.l.progress(t, 500)
	r.awaitPlaced(4)
	require.NoError(t, r.f.proxies[late].Configure(r.f.config(late, r.f.definition(0, 4))))
	require.NoError(t, r.f.proxies[late].Signal(syscall.SIGHUP))

	r.resize(2)
	r.awaitPlaced(2)
	surplus := r.f.shards(0, 4)[2:]
	start := r.w.elapsed()
	r.awaitGone(surplus)
	t.Logf("the surplus shards were gone %s after messages had stopped to go there", r.w.elapsed()-start)
	r.w.settle(3)
	r.l.progress(t, 300)
	r.p.stop()
	r.l.awaitConsumed(t)
	r.l.require(r.f, r.w)
	require.LessOrEqual(t, r.w.longestAlone(), takenWithin, "the longest that a shard that stays was without a consumer")
}

// awaitGone waits until the queues are gone: they are unbound for a minute at least before.
func (r *resizeRig) awaitGone(queues []string) {
	r.f.t.Helper()
	for tries := 0; tries < 90 && gone(r.f.e, queues) != ""; tries++ {
		r.w.goOn(time.Second)
	}
	eventually(r.f.t, "the end of the surplus shards", func() string { return gone(r.f.e, queues) })
}

func gone(e *env, queues []string) string {
	for _, name := range queues {
		if e.exists(name) {
			return name + " is still there"
		}
	}
	return ""
}

// TestResizeBadFile: a file with a mistake changes nothing; the log says why.
func TestResizeBadFile(t *testing.T) {
	t.Parallel()
	r := newResizeRig(t)
	p := r.f.proxies[0]
	require.NoError(t, p.Configure(r.f.config(0, "{shards-per-node: minus-one}")))
	require.NoError(t, p.Signal(syscall.SIGHUP))
	logged(t, p, "shards-per-node")
	r.l.progress(t, 200)
	r.awaitPlaced(2)
	r.p.stop()
	r.l.awaitConsumed(t)
	r.l.require(r.f, r.w)
}
