package shards

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardmq/shardmq/shards/internal/parallel"
)

// errKnownDown is the answer of a node that is not asked, because it is down.
var errKnownDown = fmt.Errorf("node is known to be down: %w", ErrUnreachable)

// asking is a walk over the nodes of some shards.
type asking struct {
	set   *Set
	round *round          // nil, or what is known of nodes without asking
	down  map[string]bool // out: nodes that did not answer
}

// eachNode runs fn for every node with the shards it has, on all nodes at the same
// time. A node that does not answer is left out, as long as another one does: its
// shards keep their places, for otherwise nearly every key would change its shard.
// They are set up when a look finds the node back. No other node is asked about
// them: it may block.
func (t *Topology) eachNode(ctx context.Context, a *asking, fn func(context.Context, Broker, []int) error) error {
	var nodes []string
	indexes := make(map[string][]int)
	for i := range a.set.Len() {
		node := a.set.At(i).Node
		if indexes[node] == nil {
			nodes = append(nodes, node)
		}
		indexes[node] = append(indexes[node], i)
	}
	lost := make([]error, len(nodes))
	err := parallel.Do(ctx, len(nodes), len(nodes), func(ctx context.Context, i int) error {
		err := t.askNode(ctx, nodes[i], a.round, func(b Broker) error { return fn(ctx, b, indexes[nodes[i]]) })
		if nodeDown(err) && len(nodes) > 1 {
			lost[i], err = err, nil
		}
		return err
	})
	if err != nil {
		return err
	}
	a.down = make(map[string]bool)
	for i, err := range lost {
		if err != nil {
			a.down[nodes[i]] = true
		}
	}
	if len(a.down) == len(nodes) && len(nodes) > 0 {
		return errors.Join(lost...)
	}
	return nil
}

// askNode runs fn with the connection to a node, and notes whether the node
// answers. One that is known to be down is not asked while others are up: what it
// takes to find it back is probeDown's.
//
// A shard without a node is replicated, and any node answers for it. A node this
// proxy has no connection to is known from a proxy with a newer configuration; one
// of the others has to answer for it, and if it does not, that says nothing of the
// one that was asked.
func (t *Topology) askNode(ctx context.Context, node string, r *round, fn func(Broker) error) error {
	if node == "" {
		return t.onAny(ctx, fn)
	}
	if err := r.downErr(node); err != nil {
		return err
	}
	if t.nodes.isDown(node) && t.nodes.usable(node) {
		return errKnownDown
	}
	asked := t.nodes.asking(node)
	b := t.nodes.broker(node)
	if b == nil {
		b = t.nodes.anyUp()
	}
	if b == nil {
		return ErrUnreachable
	}
	err := fn(b)
	switch {
	case !nodeDown(err):
		if err == nil {
			t.nodeAnswered(node, asked)
		}
	case ctx.Err() == nil: // else it was not given the time
		r.noteDown(node, err)
		t.nodeFailed(node, err)
	}
	return err
}

// foreign reports whether the shard is on a node this proxy has no connection to.
// Such a shard is used, but never declared: it would be placed wrongly.
func (t *Topology) foreign(shard Shard) bool {
	return shard.Node != "" && t.nodes.broker(shard.Node) == nil
}
