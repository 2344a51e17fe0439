package integration

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestClusterNewNode: the proxies get to know a third node by a reload. Its shards appear, are consumed, and take their
// part of new messages, with no restart and nothing lost.
func TestClusterNewNode(t *testing.T) {
	t.Parallel()
	e, nodes := cluster(t, false)
	known := 2
	f := e.fleet(fleetOptions{proxies: 2, nodes: nodes, exchange: "images", perNode: 2, nodesOf: func(int) []upstreamNode {
		var list []upstreamNode
		for _, n := range nodes[:known] {
			list = append(list, upstreamNode{n.Name, n.Addr})
		}
		return list
	}})
	w := f.watch(e.url, f.shardsOn(nodes[:2], 2))
	l := newLedger()
	c := f.crowd(l, 1)
	for i := range 3 {
		c.join(i%2, 50, prompt{})
	}
	w.await("owners", even(3))
	w.wanted.Store(true)
	p := f.pump(l, pumpOptions{publishers: 2, keys: 12, every: 100 * time.Millisecond})
	p.everyKey(3)
	known = 3
	for i := range f.proxies {
		require.NoError(t, f.proxies[i].Configure(f.config(i, f.definition(0, 2))))
		require.NoError(t, f.proxies[i].Signal(syscall.SIGHUP))
		p.everyKey(5)
	}
	onNew := f.watch(e.url, f.shardsOn(nodes[2:], 2))
	onNew.await("consumers of the new node's shards", covered)
	p.hold()
	l.awaitConsumed(t)
	number := 0
	w.wanted.Store(false)
	c.leaveAll()
	eventually(t, "new messages on the new node's shards", func() string {
		publisher := confirming(t, f.url(1))
		defer publisher.Close()
		publishBodies(t, publisher, "images", fresh(&number, 40))
		if messagesLeft(e, f.shardsOn(nodes[2:], 2)) == "" {
			return "there are none"
		}
		return ""
	})
	c.join(0, 50, prompt{})
	p.release()
	p.everyKey(3)
	p.stop()
	l.awaitConsumed(t)
	eventually(t, "empty shards", func() string { return messagesLeft(e, f.shards(0, 2)) })
	l.require(f, w)
	require.LessOrEqual(t, w.longestAlone(), takenWithin)
}

// fresh returns n copies of messages that are not yet known, of as many keys.
func fresh(number *int, n int) []string {
	var copies []string
	for i := range n {
		*number++
		copies = append(copies, fmt.Sprintf("fresh-%d/%d/0", i, *number))
	}
	return copies
}

// TestClusterSpread: by default a proxy's clients are spread over the nodes; with a preference they are where it says.
func TestClusterSpread(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		upstream string
		want     []int
	}{
		"least connections": {"", []int{3, 3, 3}},
		"list order":        {"  prefer: list-order\n", []int{9, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			e, nodes := cluster(t, false)
			e.t = t
			f := e.fleet(fleetOptions{proxies: 1, nodes: nodes, exchange: "images", perNode: 3, upstream: tt.upstream, undeclared: true})
			first := open(t, f.url(0))
			declareSharded(t, first, "images")
			l := newLedger()
			c := f.crowd(l, 1)
			w := f.watch(e.url, f.shards(0, 3))
			for range 9 {
				c.join(0, 0, prompt{})
			}
			w.settle(9)
			_, perChannel := e.attachments("sharding: images")
			got := make([]int, len(nodes))
			for channel := range perChannel {
				for i, n := range nodes {
					if strings.HasPrefix(channel, "<"+n.Name+".") {
						got[i]++
					}
				}
			}
			spread := 0
			for i := range got {
				spread += max(got[i]-tt.want[i], tt.want[i]-got[i])
			}
			require.LessOrEqual(t, spread, 2, "consumers' connections to the nodes: %v; they share them with one publisher", got)
			l.require(f, w)
		})
	}
}
