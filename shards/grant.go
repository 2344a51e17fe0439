package shards

import (
	"slices"

	"github.com/shardmq/shardmq/shards/coordination"
)

// reassign plans anew and grants; it returns whom to tell, without self.
func (g *Group) reassign(self *Member) []notice {
	if g.set == nil {
		return nil
	}
	if notices, done := g.nudge(self); done {
		return notices
	}
	var notices []notice
	members := g.balanced()
	for i, queues := range g.plan(members) {
		m := members[i]
		if g.grant(m, queues) && m != self && m.spec.Notify != nil {
			notices = append(notices, notice{m.spec.Notify, m.target})
		}
	}
	return notices
}

// plan returns what each of the members that share the shards out ought to hold.
func (g *Group) plan(members []*Member) [][]string {
	consumers := make([]coordination.Consumer, len(members))
	for i, m := range members {
		consumers[i] = coordination.Consumer{ID: m.id, Node: m.spec.Node, Held: g.indices(m.target.Shards)}
	}
	plan := make([][]string, len(members))
	for i, shards := range coordination.Assign(g.set.shards, consumers, g.othersPerShard(), false) {
		for _, shard := range shards {
			plan[i] = append(plan[i], g.set.At(shard).Queue)
		}
	}
	return plan
}

// grant gives m these queues and reports whether that is a change.
func (g *Group) grant(m *Member, queues []string) bool {
	if m.target.Version > 0 && slices.Equal(m.target.Shards, queues) {
		return false
	}
	g.tally.all(m, -1)
	m.target = Target{Version: m.target.Version + 1, Shards: queues}
	g.tally.all(m, 1)
	m.single = g.singleOf(queues)
	return true
}

// singleOf returns the place of the only one of queues, or -1.
func (g *Group) singleOf(queues []string) int {
	if len(queues) == 1 {
		if i, ok := g.set.Index(queues[0]); ok {
			return i
		}
	}
	return -1
}

// one reports whether m holds one shard for good.
func (g *Group) one(m *Member) bool { return m.spec.Mode == One && !m.spec.Exclusive }

// balanced returns the members that share the shards out. An exclusive one is
// alone, so its share is all of them.
func (g *Group) balanced() []*Member {
	return slices.DeleteFunc(slices.Clone(g.members), g.one)
}

// indices returns the places of those queues that are in the set.
func (g *Group) indices(queues []string) []int {
	var held []int
	for _, queue := range queues {
		if i, ok := g.set.Index(queue); ok {
			held = append(held, i)
		}
	}
	return held
}

// othersPerShard counts the consumers outside the balanced ones: other
// connections' and those that never move.
func (g *Group) othersPerShard() []uint32 {
	others := make([]uint32, g.set.Len())
	for i := range others {
		others[i] = g.external.last[g.set.At(i).Queue]
	}
	for _, m := range g.members {
		if g.one(m) && m.single >= 0 {
			others[m.single]++
		}
	}
	return others
}

// leastConsumed returns the shard for a member that never moves: the least
// consumed on its node, or of all if the node has none; of equals the first.
func (g *Group) leastConsumed(node string) string {
	load := g.othersPerShard()
	for _, m := range g.members {
		switch {
		case g.one(m): // counted already
		case m.single >= 0:
			load[m.single]++
		default:
			for _, i := range g.indices(m.target.Shards) {
				load[i]++
			}
		}
	}
	best, bestLocal := -1, false
	for i := range load {
		local := node != "" && g.set.At(i).Node == node
		if best < 0 || local && !bestLocal || local == bestLocal && load[i] < load[best] {
			best, bestLocal = i, local
		}
	}
	return g.set.At(best).Queue
}

// tell notifies; no lock may be held.
func tell(notices []notice) {
	for _, n := range notices {
		n.notify(n.target)
	}
}
