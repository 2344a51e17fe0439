package integration

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

// trio is a cluster of three nodes that the cluster tests share. Those that stop or pause a node have it alone.
var trio struct {
	use    sync.RWMutex
	start  sync.Mutex
	nodes  []*rig.Node
	vhosts vhostPool
}

// trioConfig: a minority must not go on by itself, and a node that is silent is given up soon.
const trioConfig = "cluster_partition_handling = pause_minority\nnet_ticktime = 5\n"

// cluster gives the test a vhost of its own in the cluster, whose last node no test's own connections go to.
func cluster(t *testing.T, alone bool) (*env, []*rig.Node) {
	t.Helper()
	if alone {
		trio.use.Lock()
		t.Cleanup(trio.use.Unlock)
		t.Cleanup(func() { mendTrio(t) })
	} else {
		trio.use.RLock()
		t.Cleanup(trio.use.RUnlock)
	}
	trio.start.Lock()
	defer trio.start.Unlock()
	if trio.nodes == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		nodes, err := startTrio(ctx)
		require.NoError(t, err)
		trio.nodes = nodes
	}
	vhost, err := trio.vhosts.take(t.Context(), trio.nodes[0])
	require.NoError(t, err)
	return &env{t: t, broker: trio.nodes[0], vhost: vhost, url: trio.nodes[0].URL + "/" + vhost}, trio.nodes
}

func startTrio(ctx context.Context) ([]*rig.Node, error) {
	nodes, errs := make([]*rig.Node, 3), make([]error, 3)
	var starting sync.WaitGroup
	for i := range nodes {
		starting.Go(func() { nodes[i], errs[i] = rig.StartNode(ctx, rig.NodeOptions{Config: trioConfig}) })
	}
	starting.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	for _, n := range nodes[1:] {
		if err := n.Join(ctx, nodes[0]); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// mendTrio brings back whatever node a test has left down, for the tests to come.
func mendTrio(t *testing.T) {
	if trio.nodes == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	for _, n := range trio.nodes {
		if n.PID() == 0 {
			require.NoError(t, n.Restart(ctx))
		} else {
			require.NoError(t, n.Resume())
		}
	}
	rejoin(t, trio.nodes)
}

// rejoinWithin is far longer than it takes a node that is back to find out what it has missed.
const rejoinWithin = 20 * time.Second

// rejoin waits until the last node is a part of the cluster again. A node that was away for a moment does not always
// find out that it should start anew (the nodes stay partitioned, in RabbitMQ's words): then it is restarted, as its
// operator would do.
func rejoin(t *testing.T, nodes []*rig.Node) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < rejoinWithin; <-tick.C {
		if running(nodes[0]) == len(nodes) && running(nodes[2]) == len(nodes) {
			return
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	require.NoError(t, nodes[2].Restart(ctx))
	awaitRunning(t, nodes[0], len(nodes))
}

// running returns how many nodes a node sees run, itself included; 0 if it does not say.
func running(node *rig.Node) int {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := node.Eval(ctx, "length(rabbit_nodes:all_running())")
	n, _ := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		return 0
	}
	return n
}

// awaitRunning waits until a node sees so many nodes run, itself included.
func awaitRunning(t *testing.T, node *rig.Node, n int) {
	t.Helper()
	eventuallyEvery(t, 200*time.Millisecond, fmt.Sprintf("%d running nodes", n), func() string {
		if got := running(node); got != n {
			return fmt.Sprintf("there are %d", got)
		}
		return ""
	})
}

// quickDial has a proxy try another node soon when one does not answer.
const quickDial = "  dial-timeout: 2s\n"

// clusterLoad is one exchange in the cluster, with two shards on each node unless there is a fixed number of them, under
// load that survives faults.
type clusterLoad struct {
	f   *fleet
	all []string // shards
	w   *watch   // of the shards on the nodes that stay up
	l   *ledger
	c   *crowd
	p   *pump
}

func newClusterLoad(t *testing.T, e *env, o fleetOptions) *clusterLoad {
	t.Helper()
	if o.proxies == 0 {
		o.proxies = 2
	}
	o.exchange, o.heartbeat, o.upstream = "images", 2*time.Second, quickDial
	if o.fixed == 0 {
		o.perNode = 2
	}
	f := e.fleet(o)
	f.faulty.Store(true)
	up := f.shardsOn(o.nodes[:2], 2)
	if o.fixed > 0 {
		up = f.shards(o.fixed, 0)
	}
	r := &clusterLoad{f: f, all: f.shards(o.fixed, o.perNode), w: f.watch(e.url, up), l: newLedger()}
	r.l.nodeFaults = true
	r.c = f.crowd(r.l, 1)
	for i := range 4 {
		r.c.join(i%o.proxies, 50, prompt{})
	}
	r.w.await("a consumer of every shard", covered)
	r.w.wanted.Store(true)
	r.p = f.pump(r.l, pumpOptions{publishers: 3, keys: 12, every: 300 * time.Millisecond, persistent: true, ahead: 5000})
	return r
}

// each tells what is wrong unless every shard has exactly n consumers.
func each(n int) func([]int) string {
	return func(counts []int) string {
		for _, c := range counts {
			if c != n {
				return fmt.Sprintf("they are %v", counts)
			}
		}
		return ""
	}
}

// awaitCovered waits until the shards, on every node, are shared evenly.
func (r *clusterLoad) awaitCovered() {
	t := r.f.t
	t.Helper()
	conn, ch := reopen(r.f.e.url, nil)
	defer func() { _ = conn.Close() }()
	eventually(t, "a consumer of every shard on every node", func() string {
		var counts []int
		for _, name := range r.all {
			q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
			if err != nil {
				conn, ch = reopen(r.f.e.url, conn)
				return fmt.Sprintf("%s: %v", name, err)
			}
			counts = append(counts, q.Consumers)
		}
		return even(len(r.c.here))(counts)
	})
}

// require ends the load and checks that every confirmed message was consumed.
func (r *clusterLoad) require() {
	r.f.t.Helper()
	r.p.stop()
	r.l.awaitConsumed(r.f.t)
	eventually(r.f.t, "empty shards", func() string { return messagesLeft(r.f.e, r.all) })
	r.l.require(r.f, r.w)
	require.LessOrEqual(r.f.t, r.w.longestAlone(), takenWithin, "the longest that a shard on a live node was without a consumer")
}
