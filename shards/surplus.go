package shards

import (
	"context"
	"strings"

	"github.com/shardmq/shardmq/shards/coordination"
)

// surplusMisses is how many indexes in a row without a queue end the search.
const surplusMisses = 2

// surplus is what was found of an exchange's shards that no plan knows: left by
// RabbitMQ's sharding plugin, which removes none when it is to have fewer, or from
// before this proxy's cluster lost its state. Guarded by work.mu.
type surplus struct {
	looked bool // once is enough: what comes to be later is in the plans
	found  []Shard
}

// report returns what the leader is still to be told of.
func (s *surplus) report(p *coordination.Plan) []Shard {
	if p == nil || len(s.found) == 0 {
		return nil
	}
	known := SetOf("", 0, p.All())
	var found []Shard
	for _, shard := range s.found {
		if !known.Has(shard.Queue) {
			found = append(found, shard)
		}
	}
	s.found = found // once known it goes the way of a former set's shards, and is not to come back
	return found
}

// lookForSurplus begins to look for such shards, once per exchange, when this proxy
// leads and all nodes answer: it takes questions about queues that do not exist,
// which the broker logs.
func (t *Topology) lookForSurplus(p *binding) {
	w := &p.x.work
	w.mu.Lock()
	looked := w.surplus.looked
	w.mu.Unlock()
	if looked || len(p.down) > 0 || !t.leads() {
		return
	}
	w.mu.Lock()
	w.surplus.looked = true
	w.mu.Unlock()
	t.spawn(func() {
		ctx, cancel := context.WithTimeout(t.ctx, resolveTimeout)
		defer cancel()
		found, err := t.findSurplus(ctx, p.x)
		w.mu.Lock()
		w.surplus.looked = err == nil
		w.surplus.found = found
		w.mu.Unlock()
		if len(found) == 0 {
			return
		}
		names := make([]string, len(found))
		for i, shard := range found {
			names[i] = shard.Queue
		}
		t.log.Info("surplus shards found: they are consumed, and removed once they are empty", "exchange", p.x.Name, "vhost", t.vhost, "queues", names)
		t.restate(p.x)
	})
}

// findSurplus returns the shards at the broker that are in no plan, as far as they
// are numbered without a gap.
func (t *Topology) findSurplus(ctx context.Context, x *Exchange) (found []Shard, err error) {
	plan := x.work.planned()
	nodes, err := t.nodeNames(ctx)
	if plan == nil || err != nil {
		return nil, err
	}
	known := SetOf(x.Name, 0, plan.All())
	for _, node := range nodes {
		more, err := t.findNumbered(ctx, known, func(index int) Shard {
			return Shard{Queue: QueueName(x.Name, node, index), Node: node, Index: index}
		})
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	if strings.Contains(x.Name, " - ") {
		return found, nil // shards of a fixed total would be named as another exchange's on one of its nodes
	}
	def := x.Policy().Definition
	fixed := ShardsFor(x.Name, &Definition{Shards: MaxShards, QueueArguments: def.QueueArguments}, nodes, nil)
	at := SetOf(x.Name, 0, fixed)
	more, err := t.findNumbered(ctx, known, func(index int) Shard {
		i, _ := at.Index(QueueNameFixed(x.Name, index%MaxShards))
		return at.At(i)
	})
	return append(found, more...), err
}

// findNumbered looks for shards that are not known, counting up.
func (t *Topology) findNumbered(ctx context.Context, known *Set, shard func(index int) Shard) (found []Shard, err error) {
	misses := 0
	for index := 0; misses < surplusMisses && index < max(MaxShards, MaxShardsPerNode); index++ {
		s := shard(index)
		if known.Has(s.Queue) {
			continue
		}
		count, err := t.countOne(ctx, known.exchange, s)
		switch {
		case err != nil:
			return nil, err
		case count.Exists:
			found, misses = append(found, s), 0
		default:
			misses++
		}
	}
	return found, nil
}
