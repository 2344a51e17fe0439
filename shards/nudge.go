package shards

import "slices"

// nudge does what plan and grant do, for the usual case of many consumers: each
// has one shard, there are more of them than shards, and one has joined or left.
// Then at most one has to move, and it takes no more than a look at each. It
// reports false, having done nothing, in any other case. The outcome is Assign's.
func (g *Group) nudge(self *Member) (notices []notice, done bool) {
	load, members, newcomer, ok := g.loads()
	if !ok || members <= len(load) {
		return nil, false
	}
	low, high := slices.Min(load), slices.Max(load)
	mover, shard := newcomer, -1
	switch {
	case high-low <= 1 && newcomer == nil:
		return nil, true
	case high-low <= 1:
		shard = g.roomiest(load, members, newcomer.spec.Node)
	case newcomer == nil && high-low == 2 && times(load, low) == 1:
		mover, shard = g.farthestOn(load, high), slices.Index(load, low)
	}
	if shard < 0 {
		return nil, false
	}
	if g.grant(mover, []string{g.set.At(shard).Queue}) && mover != self && mover.spec.Notify != nil {
		notices = append(notices, notice{mover.spec.Notify, mover.target})
	}
	return notices, true
}

// loads counts the balanced members, in all and per shard. It is not ok unless
// each has exactly one shard, save one newcomer that has none.
func (g *Group) loads() (load []int, members int, newcomer *Member, ok bool) {
	load = make([]int, g.set.Len())
	for _, m := range g.members {
		switch {
		case g.one(m):
			continue
		case m.single >= 0:
			load[m.single]++
		case newcomer == nil && len(m.target.Shards) == 0:
			newcomer = m
		default:
			return nil, 0, nil, false
		}
		members++
	}
	return load, members, newcomer, true
}

// roomiest returns the shard for a newcomer, chosen as packing.fill does.
func (g *Group) roomiest(load []int, members int, node string) int {
	floor, bonus, others := members/len(load), members%len(load), g.othersPerShard()
	for _, n := range load {
		if n > floor {
			bonus--
		}
	}
	for _, pass := range []struct{ local, bonus bool }{{true, false}, {true, true}, {false, false}, {false, true}} {
		found := -1
		for i, n := range load {
			local := node != "" && g.set.At(i).Node == node
			room := n < floor || pass.bonus && bonus > 0 && n == floor
			if !room || pass.local && !local {
				continue
			}
			if found < 0 || n+int(others[i]) < load[found]+int(others[found]) {
				found = i
			}
		}
		if found >= 0 {
			return found
		}
	}
	return -1
}

// farthestOn returns which member on the shards with that load has to go: one on
// another node rather than a local one, then the one that joined last.
func (g *Group) farthestOn(load []int, full int) *Member {
	var found *Member
	foundLocal := false
	for _, m := range g.members {
		if g.one(m) || load[m.single] != full {
			continue
		}
		local := m.spec.Node != "" && g.set.At(m.single).Node == m.spec.Node
		if found == nil || foundLocal || !local {
			found, foundLocal = m, local
		}
	}
	return found
}

// times returns how often n is in the list.
func times(list []int, n int) (found int) {
	for _, x := range list {
		if x == n {
			found++
		}
	}
	return found
}
