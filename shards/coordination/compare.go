package coordination

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
)

// Key names a spec: two have the same key if they mean the same shards, consumed in
// the same way.
func (s Spec) Key() string {
	h := sha256.New()
	write := func(text string) {
		h.Write([]byte(text))
		h.Write([]byte{0})
	}
	for _, shard := range s.Shards {
		write(shard.Queue)
		write(shard.Node)
	}
	if s.Ordered {
		write("ordered")
	}
	if s.Barrier {
		write("barrier")
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

func (s Spec) equal(o Spec) bool {
	return s.Ordered == o.Ordered && s.Barrier == o.Barrier && s.Placement == o.Placement && slices.Equal(s.Shards, o.Shards)
}

func (r ConsumerReport) equal(o ConsumerReport) bool {
	return r.ID == o.ID && r.Node == o.Node && r.Exclusive == o.Exclusive && r.Left == o.Left &&
		slices.Equal(r.Held, o.Held)
}

func (r ExchangeReport) equal(o ExchangeReport) bool {
	return r.Prepared == o.Prepared && r.Routing == o.Routing && r.Fenced == o.Fenced && r.Want.equal(o.Want) &&
		slices.EqualFunc(r.Consumers, o.Consumers, ConsumerReport.equal) && maps.Equal(r.Unsettled, o.Unsettled) &&
		slices.Equal(r.Found, o.Found)
}

// sortedKeys returns a map's keys in order: the core must not depend on the order
// of maps.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func sameShards(a, b []Shard) bool { return slices.Equal(a, b) }

func hasQueue(shards []Shard, queue string) bool {
	return slices.ContainsFunc(shards, func(s Shard) bool { return s.Queue == queue })
}

// without returns the shards whose queues are in none of lists.
func without(shards []Shard, lists ...[]Shard) []Shard {
	return slices.DeleteFunc(slices.Clone(shards), func(s Shard) bool {
		return slices.ContainsFunc(lists, func(l []Shard) bool { return hasQueue(l, s.Queue) })
	})
}
