package integration

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

// TestClusterRandomBalancer: 24 consumers, each at any of three proxies, whose connections go to any of three nodes,
// end with exactly three on each of 8 shards, and stay.
func TestClusterRandomBalancer(t *testing.T) {
	t.Parallel()
	e, nodes := cluster(t, false)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	order := [][]int{rng.Perm(3), rng.Perm(3), rng.Perm(3)}
	f := e.fleet(fleetOptions{
		proxies: 3, nodes: nodes, exchange: "images", fixed: 8, upstream: "  prefer: list-order\n",
		nodesOf: func(proxy int) []upstreamNode {
			var list []upstreamNode
			for _, i := range order[proxy] {
				list = append(list, upstreamNode{nodes[i].Name, nodes[i].Addr})
			}
			return list
		},
	})
	w := f.watch(e.url, f.shards(8, 0))
	l := newLedger()
	c := f.crowd(l, seed)
	for range 24 {
		c.join(f.anyone(rng), 20, prompt{})
	}
	w.wanted.Store(true)
	took := w.settle(24)
	require.Empty(t, each(3)(w.now()))
	p := f.pump(l, pumpOptions{publishers: 3, keys: 10, every: 80 * time.Millisecond})
	l.progress(t, 400)
	requireNoMoves(t, f, w)
	p.stop()
	l.awaitConsumed(t)
	l.require(f, w)
	t.Logf("24 consumers were three on each of 8 shards %s after the last one had come", took)
}

// TestClusterNodeKilled: a node is killed and comes back. Its shards' messages wait for it; new messages go to the
// shards of the other nodes (reroute) or are refused (keep); no confirmed message is lost.
func TestClusterNodeKilled(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, loads []*clusterLoad, nodes []*rig.Node) {
		require.NoError(t, nodes[2].Kill())
		whileDown(t, loads)
		require.NoError(t, nodes[2].Restart(t.Context()))
	})
}

// TestClusterNodePaused: a node hangs, so that only heartbeats tell, long enough for the others to go on without it;
// when it comes round it finds itself in the minority and starts anew.
func TestClusterNodePaused(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, loads []*clusterLoad, nodes []*rig.Node) {
		require.NoError(t, nodes[2].Pause())
		awaitRunning(t, nodes[0], 2)
		whileDown(t, loads)
		require.NoError(t, nodes[2].Resume())
		awaitRunning(t, nodes[0], 3)
	})
}

// bothWays puts load on an exchange with on-node-down: reroute and on one with keep, has a node fail and come back, and
// checks both.
func bothWays(t *testing.T, fail func(*testing.T, []*clusterLoad, []*rig.Node)) {
	t.Helper()
	e, nodes := cluster(t, true)
	var loads []*clusterLoad
	for _, word := range []string{"reroute", "keep"} {
		own := *e
		var err error
		own.vhost, err = trio.vhosts.take(t.Context(), nodes[0])
		require.NoError(t, err)
		own.url = nodes[0].URL + "/" + own.vhost
		loads = append(loads, newClusterLoad(t, &own, fleetOptions{nodes: nodes, more: ", on-node-down: " + word}))
	}
	for _, r := range loads {
		r.awaitCovered()
		r.p.everyKey(3)
	}
	fail(t, loads, nodes)
	for _, r := range loads {
		r.awaitCovered()
		r.p.everyKey(3)
		r.require()
	}
}

// whileDown: with a node down, reroute takes every key; with both, the other nodes' shards are consumed.
func whileDown(t *testing.T, loads []*clusterLoad) {
	t.Helper()
	loads[0].p.everyKey(5)
	for _, r := range loads {
		r.w.await("a consumer of every shard on the other nodes", each(1))
	}
	loads[1].l.progress(t, 50)
}

// TestClusterLinkHeld: one proxy of two cannot reach one node of three; connections to it hang. What it gives up, the
// other proxy may still use.
func TestClusterLinkHeld(t *testing.T) {
	t.Parallel()
	e, nodes := cluster(t, false)
	path := newLink(t, nodes[2].Addr)
	r := newClusterLoad(t, e, fleetOptions{nodes: nodes, nodesOf: func(proxy int) []upstreamNode {
		last := upstreamNode{nodes[2].Name, nodes[2].Addr}
		if proxy == 0 {
			last.addr = path.addr
		}
		return []upstreamNode{{nodes[0].Name, nodes[0].Addr}, {nodes[1].Name, nodes[1].Addr}, last}
	}})
	r.awaitCovered()
	r.p.everyKey(3)
	path.hold(true)
	r.w.more(int(12 * time.Second / lookEvery)) // two heartbeats of the control connection, and more
	r.p.everyKey(5)
	path.hold(false)
	r.awaitCovered()
	r.p.everyKey(3)
	r.require()
}

// TestClusterNewcomers: consumers that come while a node is down get their share, and keep it fair when it is back.
func TestClusterNewcomers(t *testing.T) {
	t.Parallel()
	e, nodes := cluster(t, true)
	r := newClusterLoad(t, e, fleetOptions{nodes: nodes})
	r.awaitCovered()
	require.NoError(t, nodes[2].Kill())
	r.p.everyKey(3)
	var coming sync.WaitGroup
	var failed error
	coming.Go(func() { failed = nodes[2].Restart(t.Context()) })
	for i := range 2 {
		r.c.join(i, 20, prompt{})
	}
	coming.Wait()
	require.NoError(t, failed)
	awaitRunning(t, nodes[0], 3)
	r.awaitCovered()
	r.p.everyKey(3)
	r.require()
}
