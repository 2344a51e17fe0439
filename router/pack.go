package router

import (
	"maps"
	"slices"
)

// A client may wait for as many messages as its prefetch allows before it acknowledges any. On one queue it gets them, so it has to here, in whatever
// shards they are: an attachment whose share is used up while messages wait behind it gets the shares of those beside it that have none for the client.
// The shards that lose theirs rest: they get no attachment, and no part in the sharing out of the prefetch, until a look finds messages there.

const (
	// stillTurns is how many turns an attachment must have been full, with nothing of it settled, before shares move to it: while messages flow it
	// would gain nothing but the exchange of frames.
	stillTurns = 2
	// stuckTurns is the same for what would not even double its limit, which is worth it only if the client waits for nothing else: then nothing at
	// all of the consumer's has been settled.
	stuckTurns = 5
	// restLooks is how many looks in a row must find the consumer with nothing to do before resting shards get their attachments back.
	restLooks = 10
)

// full reports whether the attachment cannot get more, though its consumer's prefetch is larger.
func (a *attachment) full() bool {
	return a.limit > 0 && a.unacked >= a.limit && a.limit < a.of.prefetch
}

// full reports whether some attachment has been full for that many turns.
func (k *consumer) full(turns int) bool {
	return slices.ContainsFunc(k.atts, func(a *attachment) bool { return a.full() && a.still >= turns })
}

// filled has the consumer of an attachment looked at that has just used up its share.
func (c *Conn) filled(a *attachment) {
	if k := a.of; !k.left && !k.leaving && !k.rotating && a.full() {
		c.setRotating(k, true)
	}
}

// turn counts one for everything of the consumer's that is to be settled, and reports whether its shards need a look.
func (k *consumer) turn() bool {
	k.still++
	for _, a := range k.atts {
		a.still++
	}
	return k.scattered() || k.full(stillTurns)
}

// pack has full attachments give way to come back larger, and those that have nothing for the client to let them. It reports whether any do.
func (k *consumer) pack(l look) bool {
	var full, spare []*attachment
	room := max(k.room(), 0)
	free := room
	for _, a := range k.atts {
		ready := l.count(a.queue).Messages
		switch {
		case a.yield || !a.active:
			return false // first what is under way
		case ready > 0 && a.full() && a.still >= stillTurns:
			full = append(full, a)
		case ready == 0 && a.unacked < a.limit:
			spare = append(spare, a)
			free += a.limit - a.unacked
		}
	}
	slices.SortStableFunc(full, func(a, b *attachment) int { return a.limit - b.limit })
	need := 0
	for _, a := range full {
		gain := min(free-need, int(min(l.count(a.queue).Messages, uint32(k.prefetch))))
		if gain >= a.limit || gain > 0 && k.still >= stuckTurns {
			a.yield = true
			need += gain
			if a.lent {
				k.wish = append(k.wish, a.queue)
			}
		}
	}
	if need == 0 {
		return false
	}
	k.rest(l, spare, need-room)
	return true
}

// rest ends attachments that have nothing to do until that much of the prefetch is free, idle ones first and of these the largest, so that as few
// shards as possible lose theirs. No shard without messages gets a new one for the time being.
func (k *consumer) rest(l look, spare []*attachment, need int) {
	slices.SortStableFunc(spare, func(a, b *attachment) int {
		if idle := a.unacked == 0; idle != (b.unacked == 0) {
			return before(idle)
		}
		return (b.limit - b.unacked) - (a.limit - a.unacked)
	})
	for _, a := range spare {
		if need <= 0 {
			break
		}
		a.yield = true
		need -= a.limit - a.unacked
	}
	if k.resting == nil {
		k.resting = map[string]bool{}
	}
	for _, q := range k.target.Shards {
		if a := k.on(q); l.count(q).Messages == 0 && (a == nil || a.yield) {
			k.resting[q] = true
		}
	}
}

// wakeRested has shards with messages rest no longer, and none once the consumer has had nothing to do for a while. It reports whether that leaves
// something to be done.
func (k *consumer) wakeRested(l look) bool {
	if len(k.resting) == 0 {
		return false
	}
	maps.DeleteFunc(k.resting, func(q string, _ bool) bool { return l.count(q).Messages > 0 || !k.covers(q) })
	if k.ownWait(l) || k.prefetch-k.unacked < min(len(k.target.Shards), k.prefetch) {
		k.calm = 0
	} else {
		k.calm++
	}
	if k.calm < restLooks {
		return false
	}
	k.calm = 0
	clear(k.resting)
	return true
}

// rests counts the shards of the target that rest.
func (k *consumer) rests() (n int) {
	for q := range k.resting {
		if k.covers(q) {
			n++
		}
	}
	return n
}
