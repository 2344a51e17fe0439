package coordination

import (
	"slices"
	"strings"
)

// union returns the shards of all lists, each queue once, in name order. Of two
// with one name the earlier list's counts.
func union(lists ...[]Shard) []Shard {
	all := slices.Concat(lists...)
	slices.SortStableFunc(all, func(a, b Shard) int { return strings.Compare(a.Queue, b.Queue) })
	return slices.CompactFunc(all, func(a, b Shard) bool { return a.Queue == b.Queue })
}
