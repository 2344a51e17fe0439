package integration

import (
	"math/rand/v2"
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
// shards of the other nodes (reroute) or are refused (keep); shards that are quorum queues go on without it; no confirmed
// message is lost. Consumers that come meanwhile get their share.
func TestClusterNodeKilled(t *testing.T) {
	t.Parallel()
	withoutNode(t, func(node *rig.Node) error { return node.Kill() },
		func(node *rig.Node) error { return node.Restart(t.Context()) })
}

// TestClusterNodePaused: a node hangs, so that only heartbeats tell, long enough for the others to go on without it;
// when it comes round it finds itself in the minority and starts anew.
func TestClusterNodePaused(t *testing.T) {
	t.Parallel()
	withoutNode(t, (*rig.Node).Pause, (*rig.Node).Resume)
}

// withoutNode puts load on an exchange with on-node-down: reroute, on one with keep and on one of quorum queues, has a
// node go and come back, and checks all of them.
func withoutNode(t *testing.T, leave, comeBack func(*rig.Node) error) {
	t.Helper()
	e, nodes := cluster(t, true)
	var loads []*clusterLoad
	for _, o := range []fleetOptions{
		{more: ", on-node-down: reroute"},
		{more: ", on-node-down: keep"},
		{fixed: 4, more: ", queue-arguments: {x-queue-type: quorum}"},
	} {
		own := *e
		var err error
		own.vhost, err = trio.vhosts.take(t.Context(), nodes[0])
		require.NoError(t, err)
		own.url = nodes[0].URL + "/" + own.vhost
		o.nodes = nodes
		loads = append(loads, newClusterLoad(t, &own, o))
	}
	for _, r := range loads {
		r.awaitCovered()
		r.p.everyKey(3)
	}
	require.NoError(t, leave(nodes[2]))
	awaitRunning(t, nodes[0], 2)
	for _, r := range []*clusterLoad{loads[0], loads[2]} {
		r.p.everyKey(5)
	}
	loads[1].l.progress(t, 50)
	for _, r := range loads {
		r.w.await("a consumer of every shard on the other nodes", covered)
		r.c.join(1, 50, prompt{})
	}
	require.NoError(t, comeBack(nodes[2]))
	rejoin(t, nodes)
	for _, r := range loads {
		r.awaitCovered()
		r.p.everyKey(3)
		r.require()
	}
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
	r.w.goOn(12 * time.Second) // two heartbeats of the control connection, and more
	r.p.everyKey(5)
	path.hold(false)
	r.awaitCovered()
	r.p.everyKey(3)
	r.require()
}
