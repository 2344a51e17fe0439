package coordination

import "slices"

// reclaim gives shards of an ordered exchange back to consumers that are attached to
// them while they are granted to others, or to nobody and others may still hold them:
// their proxy was given up, and is heard again. It reports whether it did. What it
// decides is of that version.
//
// The others are not attached, for they wait until nobody is. Once they cannot be any
// more, the shard changes hands as any other does.
func (c *Core) reclaim(exchange string, e *Entry, w *work, cs []*candidate, version uint64) bool {
	attached := func(k *candidate, queue string) bool {
		return slices.Contains(k.Held, queue) && c.members[k.proxy].report[exchange].Unsettled[queue] > 0
	}
	changed := false
	for _, k := range cs {
		if k.Left {
			continue
		}
		for _, queue := range k.Held {
			if slices.Contains(k.granted, queue) || !attached(k, queue) {
				continue
			}
			others := w.others(k, cs, queue, c.known.Ballot)
			if len(others) == 0 || slices.ContainsFunc(others, func(o *candidate) bool { return attached(o, queue) }) {
				continue
			}
			changed = true
			for _, o := range others {
				w.takeBack(e, o, queue, version)
			}
			w.giveBack(e, k, queue, version)
		}
	}
	return changed
}

// others lists whoever else may take a queue: by what was granted, by what is
// reported, or because it has not heard yet that it was revoked.
func (w *work) others(k *candidate, cs []*candidate, queue string, ballot Ballot) []*candidate {
	var others []*candidate
	for _, o := range cs {
		version, revoked := w.revoked[o.consumerKey][queue]
		pending := revoked && !o.applied.reached(ballot, version)
		if o != k && (pending || slices.Contains(o.granted, queue) || slices.Contains(o.Held, queue)) {
			others = append(others, o)
		}
	}
	return others
}

// takeBack revokes what a consumer was granted, if it was.
func (w *work) takeBack(e *Entry, k *candidate, queue string, version uint64) {
	if !slices.Contains(k.granted, queue) {
		return
	}
	k.granted = slices.DeleteFunc(slices.Clone(k.granted), func(q string) bool { return q == queue })
	e.Grants.set(k.consumerKey, k.granted)
	unmark(w.since, k.consumerKey, queue)
	mark(w.revoked, k.consumerKey, queue, version)
	e.Moves++
}

// giveBack grants a consumer what it is attached to.
func (w *work) giveBack(e *Entry, k *candidate, queue string, version uint64) {
	for key, queues := range w.goal {
		w.goal[key] = slices.DeleteFunc(slices.Clone(queues), func(q string) bool { return q == queue })
	}
	w.goal[k.consumerKey] = append(w.goal[k.consumerKey], queue)
	slices.Sort(w.goal[k.consumerKey])
	k.granted = append(slices.Clone(k.granted), queue)
	slices.Sort(k.granted)
	e.Grants.set(k.consumerKey, k.granted)
	unmark(w.revoked, k.consumerKey, queue)
	mark(w.since, k.consumerKey, queue, version)
	w.owner[queue] = k.consumerKey
}
