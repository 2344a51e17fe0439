package shards

import (
	"context"
	"time"

	"github.com/shardmq/shardmq/shards/internal/parallel"
)

// probeEvery is how often a node that is down is asked whether it is back.
const probeEvery = time.Second

// probeDown asks nodes that are down, again and again while there are any, whether
// they are back: other requests leave them out.
func (t *Topology) probeDown() {
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for !t.nodes.stopProbing() {
		select {
		case <-ticker.C:
		case <-t.ctx.Done():
			return
		}
		down := t.nodes.downNames()
		_ = parallel.Do(t.ctx, len(down), len(down), func(ctx context.Context, i int) error {
			t.probeNode(ctx, down[i])
			return nil
		})
	}
}

// probeNode asks a node for something that takes no right.
func (t *Topology) probeNode(ctx context.Context, node string) {
	asked := t.nodes.asking(node)
	var err error
	if b := t.nodes.broker(node); b != nil {
		_, err = b.ExchangeExists(ctx, "amq.direct")
	} else if shard, known := t.shardOn(node); known {
		err = t.onAny(ctx, func(b Broker) error {
			_, err := b.QueueCount(ctx, shard.Queue)
			return err
		})
	}
	if err == nil || refusedBy(err) {
		t.nodeAnswered(node, asked)
	}
}

// shardOn returns some shard on that node.
func (t *Topology) shardOn(node string) (Shard, bool) {
	for _, x := range t.routes.exchanges() {
		covered := x.State().Covered()
		for i := range covered.Len() {
			if covered.At(i).Node == node {
				return covered.At(i), true
			}
		}
	}
	return Shard{}, false
}
