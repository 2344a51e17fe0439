package coordination

import "slices"

// granting finds what of a goal may be granted.
type granting struct {
	w       *work
	cs      []*candidate
	shards  []Shard
	single  bool
	ordered bool
	ballot  Ballot
	version uint64 // of what is found

	holders map[string][]*candidate // by queue: who may hold it
	owners  map[string][]*candidate // by queue: to whom it was granted

	changed []*candidate // their granted is new
	moves   uint64
	waiting bool
}

// index notes who holds what: what is granted, what is reported, and what was
// revoked by a version that the proxy has not applied.
func (g *granting) index() {
	g.holders = make(map[string][]*candidate)
	g.owners = make(map[string][]*candidate)
	hold := func(queue string, k *candidate) {
		if !slices.Contains(g.holders[queue], k) {
			g.holders[queue] = append(g.holders[queue], k)
		}
	}
	for _, k := range g.cs {
		for _, queue := range k.granted {
			hold(queue, k)
			g.owners[queue] = append(g.owners[queue], k)
		}
		for _, queue := range k.Held {
			hold(queue, k)
		}
		for _, queue := range sortedKeys(g.w.revoked[k.consumerKey]) {
			if g.has(k, g.w.revoked[k.consumerKey][queue]) {
				unmark(g.w.revoked, k.consumerKey, queue)
				continue
			}
			hold(queue, k)
		}
	}
}

// has reports whether a consumer's proxy goes by that version, or a later one.
func (g *granting) has(k *candidate, version uint64) bool {
	return k.applied.reached(g.ballot, version)
}

// run finds every consumer's grants and reports whether any is new.
func (g *granting) run() bool {
	for _, k := range g.cs {
		var granted []string
		for _, queue := range k.wanted {
			if slices.Contains(k.granted, queue) || g.free(queue, k) {
				granted = append(granted, queue)
			} else {
				g.waiting = true
			}
		}
		for _, queue := range k.granted {
			if !slices.Contains(k.wanted, queue) && g.keeps(queue, k) {
				granted = append(granted, queue)
				g.waiting = true
			}
		}
		slices.Sort(granted)
		if !slices.Equal(granted, k.granted) {
			g.note(k, granted)
		}
	}
	return len(g.changed) > 0
}

// free reports whether a queue may be granted to k now. Whoever holds it himself
// may have it back, unless it is another's already.
func (g *granting) free(queue string, k *candidate) bool {
	if !g.single {
		return true
	}
	holders := g.holders[queue]
	if slices.Contains(holders, k) {
		return len(g.owners[queue]) == 0 && len(holders) == 1
	}
	return len(holders) == 0
}

// keeps reports whether k must stay on a queue that is not its own any more: until
// the next one has it, or, where there is one owner only, until nobody else could
// take it at once.
func (g *granting) keeps(queue string, k *candidate) bool {
	if k.Left || !hasQueue(g.shards, queue) {
		return false
	}
	other := func(o *candidate) bool { return o != k }
	if g.single {
		return g.ordered && !slices.ContainsFunc(g.owners[queue], other) && slices.ContainsFunc(g.holders[queue], other)
	}
	return !slices.ContainsFunc(g.owners[queue], func(o *candidate) bool {
		return o != k && slices.Contains(o.wanted, queue) && g.has(o, g.w.since[o.consumerKey][queue])
	})
}

// note takes over new grants of a consumer.
func (g *granting) note(k *candidate, granted []string) {
	key := k.consumerKey
	// Where shards are shared, one more is no move.
	moved := slices.ContainsFunc(k.granted, func(queue string) bool { return !slices.Contains(k.wanted, queue) })
	for _, queue := range k.granted {
		if !slices.Contains(granted, queue) {
			unmark(g.w.since, key, queue)
			mark(g.w.revoked, key, queue, g.version)
		}
	}
	for _, queue := range granted {
		if slices.Contains(k.granted, queue) {
			continue
		}
		unmark(g.w.revoked, key, queue)
		mark(g.w.since, key, queue, g.version)
		owner, owned := g.w.owner[queue]
		if g.single && owned && owner != key || !g.single && moved {
			g.moves++
		}
		g.w.owner[queue] = key
	}
	k.granted = granted
	g.changed = append(g.changed, k)
}
