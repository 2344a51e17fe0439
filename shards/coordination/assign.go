package coordination

import (
	"cmp"
	"slices"
)

// Consumer is one client consumer, as Assign sees it.
type Consumer struct {
	ID   uint64 // for the caller; Assign goes by the order of consumers
	Node string // cluster node of the consumer's upstream connection, "" = unknown
	Held []int  // shards it holds now; what is not in the set is ignored
}

// Assign computes which consumer consumes which shards: deterministic, balanced,
// and with as few moves as balance allows.
//
//   - At most as many consumers as shards: every shard has exactly one owner, and
//     consumers' counts differ by at most one.
//   - More consumers than shards: every consumer has exactly one shard, and
//     shards' counts differ by at most one. But if ordered, every shard still has
//     exactly one owner, and consumers that are too many have none.
//
// consumers are in join order; external is the number of other consumers per
// shard, nil for none, and only breaks ties when there are more consumers than
// shards. The result is parallel to consumers, each sorted. What has to move goes
// to shards on the consumer's own node first, then to the least loaded, then by
// name.
func Assign(set []Shard, consumers []Consumer, external []uint32, ordered bool) [][]int {
	result := make([][]int, len(consumers))
	if len(set) == 0 || len(consumers) == 0 {
		return result
	}
	if ordered || len(consumers) <= len(set) {
		for shard, owner := range assignShards(set, consumers, nil, nil) {
			result[owner] = append(result[owner], shard)
		}
		return result
	}
	for i, shard := range assignConsumers(set, consumers, external) {
		result[i] = []int{shard}
	}
	return result
}

// assignShards gives every shard an owner: items are shards, bins are consumers.
// base is how many shards consumers have besides, extra what breaks ties; both nil
// for nothing.
func assignShards(set []Shard, consumers []Consumer, base, extra []int) []int {
	shards := len(set)
	p := newPacking(shards, len(consumers))
	if base != nil {
		p.preload(base)
	}
	if extra != nil {
		p.extra = extra
	}
	for c, consumer := range consumers {
		p.binNode[c] = consumer.Node
		for _, shard := range heldIn(set, consumer) {
			p.held[shard] = append(p.held[shard], c)
		}
	}
	for shard := range shards {
		p.itemNode[shard] = set[shard].Node
		p.preferLocal(shard)
	}
	p.retain(retainOrder(set, consumers, p))
	p.fill()
	return p.bin
}

// retainOrder lists the shards, those that had better stay where they are first:
// local to a holder; else not local to a consumer that is short of shards.
func retainOrder(set []Shard, consumers []Consumer, p *packing) []int {
	short := make(map[string]bool)
	for c, consumer := range consumers {
		if p.base[c]+len(heldIn(set, consumer)) < p.floor {
			short[consumer.Node] = true
		}
	}
	rank := func(shard int) int {
		switch {
		case slices.ContainsFunc(p.held[shard], func(c int) bool { return p.local(shard, c) }):
			return 0
		case !short[p.itemNode[shard]]:
			return 1
		}
		return 2
	}
	order := make([]int, len(p.bin))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank(a), rank(b)) })
	return order
}

// assignConsumers gives every consumer a shard: items are consumers, bins are
// shards.
func assignConsumers(set []Shard, consumers []Consumer, external []uint32) []int {
	p := newPacking(len(consumers), len(set))
	for shard := range set {
		p.binNode[shard] = set[shard].Node
		if shard < len(external) {
			p.extra[shard] = int(external[shard])
		}
	}
	order := make([]int, len(consumers))
	for c, consumer := range consumers {
		order[c] = c
		p.itemNode[c] = consumer.Node
		p.held[c] = heldIn(set, consumer)
		p.preferLocal(c)
	}
	// Local holders stay; of the others those that joined last move.
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(p.farness(a), p.farness(b))
	})
	p.retain(order)
	p.fill()
	return p.bin
}

// heldIn returns the shards a consumer holds that are in the set, sorted, each
// once.
func heldIn(set []Shard, c Consumer) []int {
	held := slices.DeleteFunc(slices.Clone(c.Held), func(i int) bool { return i < 0 || i >= len(set) })
	slices.Sort(held)
	return slices.Compact(held)
}
