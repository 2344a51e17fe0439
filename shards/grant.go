package shards

import (
	"cmp"
	"maps"
	"slices"

	"github.com/shardmq/shardmq/shards/coordination"
)

// reported is what the coordination was told last of a group. Its values are
// never modified, only replaced.
type reported struct {
	stale     bool
	consumers []coordination.ConsumerReport
	unsettled map[string]int
}

// report returns the members that the coordination decides on, in join order,
// then those that left and still hold shards; and per queue how much was claimed
// and is not released. Neither is to be modified.
func (g *Group) report() ([]coordination.ConsumerReport, map[string]int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.reported.stale {
		return g.reported.consumers, g.reported.unsettled
	}
	consumers := make([]coordination.ConsumerReport, 0, len(g.members)+len(g.gone))
	for _, m := range g.members {
		if !m.one() {
			consumers = append(consumers, g.reportOf(m))
		}
	}
	gone := slices.SortedFunc(maps.Keys(g.gone), func(a, b *Member) int { return cmp.Compare(a.id, b.id) })
	for _, m := range gone {
		if !m.one() && len(g.heldBy(m)) > 0 {
			consumers = append(consumers, g.reportOf(m))
		}
	}
	g.reported = reported{consumers: consumers, unsettled: maps.Clone(g.claimed)}
	return g.reported.consumers, g.reported.unsettled
}

func (g *Group) reportOf(m *Member) coordination.ConsumerReport {
	return coordination.ConsumerReport{
		ID: m.id, Node: m.spec.Node, Exclusive: m.spec.Exclusive, Left: m.left, Held: g.heldBy(m),
	}
}

// apply hands a plan down to the members. It does not block, and no Notify is
// called before it returns.
func (g *Group) apply(p *coordination.Plan) {
	g.mu.Lock()
	ordered := g.ordered()
	g.plan = p
	g.adoptSet()
	if ordered != p.Ordered { // what is overdue counts in one case only
		for _, m := range slices.Concat(g.members, slices.Collect(maps.Keys(g.gone))) {
			g.touch(m)
		}
	}
	g.aimAll()
	owed := len(g.owed) > 0
	g.mu.Unlock()
	if owed && g.deciding.Load() == 0 {
		g.seat.spawn(g.tell)
	}
}

// begin gives a new group the present plan, unless a later one has been applied.
func (g *Group) begin(p *coordination.Plan) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.plan == nil {
		g.plan = p
	}
}

// setChanged takes over which shards the exchange has now.
func (g *Group) setChanged() {
	g.mu.Lock()
	if g.adoptSet() && g.plan != nil {
		g.aimAll()
	}
	g.mu.Unlock()
	g.tell()
}

// aimAll gives the members what the plan grants them.
func (g *Group) aimAll() {
	for _, m := range g.members {
		if m.one() {
			continue
		}
		g.aim(m, g.plan.Targets[m.id], g.plan.Ordered)
		if !m.begun && (len(m.target.Shards) > 0 || g.taken()) {
			m.begun = true
			close(m.first)
		}
	}
}

// aim gives m those of the queues that are there to be consumed: a plan may be
// quicker than the declaring of new shards.
func (g *Group) aim(m *Member, queues []string, ordered bool) {
	if !slices.Equal(m.granted, queues) {
		m.granted = queues
		g.touch(m)
	}
	shards := queues
	if !g.coversAll(queues) {
		shards = slices.DeleteFunc(slices.Clone(queues), func(queue string) bool { return !g.covers(queue) })
	}
	if slices.Equal(m.target.Shards, shards) && m.target.Ordered == ordered {
		return
	}
	g.tally.all(m, -1)
	former := m.target
	m.target = Target{Version: former.Version + 1, Shards: shards, Ordered: ordered}
	g.tally.all(m, 1)
	m.leaves(former.Shards)
	g.touch(m)
	if !m.joining && !m.owed && m.spec.Notify != nil {
		m.owed = true
		g.owed = append(g.owed, m)
	}
}

// leaves notes which of those queues the target has no longer.
func (m *Member) leaves(queues []string) {
	for _, queue := range queues {
		if _, still := slices.BinarySearch(m.target.Shards, queue); still {
			continue
		}
		if m.holds.former == nil {
			m.holds.former = make(map[string]uint64)
		}
		m.holds.former[queue] = m.target.Version
	}
}

func (g *Group) coversAll(queues []string) bool {
	for _, queue := range queues {
		if !g.covers(queue) {
			return false
		}
	}
	return true
}

func (g *Group) covers(queue string) bool {
	if g.covered == nil {
		return false
	}
	_, ok := g.covered.Index(queue)
	return ok
}

// adoptSet takes over the exchange's shards and reports whether others than
// before may be consumed. An exchange without shards changes nothing: the queues
// outlive the exchange, and who consumes them goes on.
func (g *Group) adoptSet() bool {
	state := g.x.State()
	if state.Set == nil || state.Set.Len() == 0 {
		return false
	}
	before := g.covered
	g.set, g.covered = state.Set, state.Covered()
	return before != g.covered && !g.covered.Same(before)
}

// leastConsumed returns the shard for a member that never moves: the least
// consumed on its node, or of all if the node has none; of equals the first.
func (g *Group) leastConsumed(node string) string {
	load := make([]uint32, g.set.Len())
	for i := range load {
		load[i] = g.external.last[g.set.At(i).Queue]
	}
	for _, m := range g.members {
		for _, queue := range m.target.Shards {
			if i, ok := g.set.Index(queue); ok {
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

// changed has the coordination look at the group's report, and tells the members
// what comes of it. No lock of the group's may be held.
func (g *Group) changed() {
	func() {
		g.deciding.Add(1)
		defer g.deciding.Add(-1)
		g.seat.changed()
	}()
	g.tell()
}

// tell notifies the members that are owed it; no lock may be held.
func (g *Group) tell() {
	type notice struct {
		notify func(Target)
		target Target
	}
	g.mu.Lock()
	owed := g.owed
	g.owed = nil
	notices := make([]notice, 0, len(owed))
	for _, m := range owed {
		if m.owed = false; !m.left {
			notices = append(notices, notice{m.spec.Notify, m.target})
		}
	}
	g.mu.Unlock()
	for _, n := range notices {
		n.notify(n.target)
	}
}
