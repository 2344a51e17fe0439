package coordination

import "slices"

// maxSuperseded bounds how many former specs of an exchange are remembered.
const maxSuperseded = 16

// firstLayout is that of an exchange nothing was decided on yet. Nobody publishes
// to it, so its shards need no preparation.
func firstLayout(want Spec) Layout {
	return Layout{Generation: 1, Key: want.Key(), Ordered: want.Ordered, Barrier: want.Barrier, Set: want.Shards}
}

// adopt returns the layout that makes for another spec, one with shards.
//
//	Set ──(adopt)──▶ Set + Next ──(switched)──▶ Set + Old bound ──▶ unbound ──▶ closing ──▶ gone
//
// What was to come and is not wanted any more goes out by the same way: some
// proxy may have bound it. Then Set gets another number too, so that a proxy that
// is prepared for the former Next is not taken to be prepared for another.
func (l Layout) adopt(want Spec) Layout {
	l.Superseded = slices.DeleteFunc(slices.Clone(l.Superseded), func(k string) bool { return k == l.Key || k == want.Key() })
	l.Superseded = append(l.Superseded, l.Key)
	l.Superseded = l.Superseded[max(len(l.Superseded)-maxSuperseded, 0):]
	l.Key, l.Ordered, l.Barrier = want.Key(), want.Ordered, want.Barrier
	if l.Next != nil && sameShards(l.Next, want.Shards) || l.Next == nil && sameShards(l.Set, want.Shards) {
		return l
	}
	if l.Next != nil {
		l.Generation += 2 // the number between was Next's
		l.Old = addOld(l.Old, without(l.Next, l.Set, want.Shards))
		l.Next, l.Paused = nil, false
	}
	if !sameShards(l.Set, want.Shards) {
		l.Next = want.Shards
	}
	l.Old = slices.DeleteFunc(slices.Clone(l.Old), func(o OldShard) bool { return hasQueue(l.Next, o.Queue) })
	return l
}

// switched returns the layout in which Next has replaced Set.
func (l Layout) switched() Layout {
	l.Generation++
	l.Old = addOld(l.Old, without(l.Set, l.Next))
	l.Set, l.Next, l.Paused = l.Next, nil, false
	return l
}

// paused returns the layout in which publishes pause, or do not.
func (l Layout) paused(pause bool) Layout {
	l.Paused = pause
	return l
}

// strays takes up shards that a proxy has published to on its own.
func (l Layout) strays(shards []Shard) Layout {
	l.Old = addOld(l.Old, without(shards, l.Set, l.Next))
	return l
}

// moved returns the layout with old shards in another phase.
func (l Layout) moved(shards []Shard, phase Phase) Layout {
	l.Old = slices.Clone(l.Old)
	for i := range l.Old {
		if hasQueue(shards, l.Old[i].Queue) {
			l.Old[i].Phase = phase
		}
	}
	return l
}

// removed returns the layout without an old shard.
func (l Layout) removed(queue string) Layout {
	l.Old = slices.DeleteFunc(slices.Clone(l.Old), func(o OldShard) bool { return o.Queue == queue })
	return l
}

// addOld returns old with more shards that are still bound. One that was there
// already has been bound again.
func addOld(old []OldShard, shards []Shard) []OldShard {
	old = slices.DeleteFunc(slices.Clone(old), func(o OldShard) bool { return hasQueue(shards, o.Queue) })
	for _, shard := range shards {
		old = append(old, OldShard{Shard: shard, Phase: Bound})
	}
	return old
}
