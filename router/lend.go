package router

import (
	"slices"

	"github.com/shardmq/shardmq/shards"
)

// An assignment says who is to consume a shard, not that its owner has time for it. So that one slow job does not block the rest of its
// shard while somebody else has nothing to do, an idle consumer helps out: it looks at all shards of its exchange about once a
// second, and takes an attachment more on one that has had messages waiting at two looks in a row. It is lent: others are granted the shard as
// if it were not there, and it ends once there is nothing left to do, or when the consumer's own shards need its place. The counts are the
// broker's, so it does not matter behind which connection or proxy the owner is.
//
// Not where order is promised, where everybody has one shard for good, or for consumers that do not acknowledge: nothing tells that those
// are idle.

const (
	// maxLent bounds the shards one consumer helps out on at a time.
	maxLent = 3
	// idleLooks is how many looks in a row must find a lent attachment without work before it ends.
	idleLooks = 2
)

// looked is what the last look at an exchange has found.
type looked struct {
	set     *shards.Set
	waiting []bool // by place in the set: had messages ready
}

// mayLend reports whether the consumer can ever help out as things stand: some shard of those covered is not its own.
func (k *consumer) mayLend(covered *shards.Set) bool {
	return k.helps && !k.left && !k.leaving && !k.target.Ordered && covered != nil && len(k.target.Shards) < covered.Len()
}

func (c *Conn) setLender(k *consumer, on bool) {
	if k.lender == on {
		return
	}
	k.lender = on
	if on {
		c.lenders++
		return
	}
	if c.lenders--; c.lenders == 0 {
		c.looks = nil
	}
}

// lent counts the consumer's attachments on others' shards.
func (k *consumer) lent() (n int) {
	for _, a := range k.atts {
		if a.lent {
			n++
		}
	}
	return n
}

// HasLenders reports whether this connection has consumers that might help out. While it has, the owner calls Lend for each of Lenders about
// once a second.
func (c *Conn) HasLenders() bool { return c.lenders > 0 }

// Lenders lists the exchanges whose counts matter now: some consumer is idle, or helps out already.
func (c *Conn) Lenders() []*shards.Exchange {
	if c.lenders == 0 || c.blocked {
		return nil
	}
	var out []*shards.Exchange
	for _, ch := range c.chans {
		if ch == nil || ch.state != chanOpen {
			continue
		}
		for _, tag := range sortedTags(ch) {
			if k := ch.consumers[tag]; k.lender && (k.unacked == 0 || k.lent() > 0) && !slices.Contains(out, k.x) {
				out = append(out, k.x)
			}
		}
	}
	return out
}

// Lend has the idle consumers on an exchange help out, and those that do so stop where it is no longer needed. set and counts are what the
// topology has just read. It reports whether any message waits: if not, the next look may come later.
func (c *Conn) Lend(x *shards.Exchange, set *shards.Set, counts []shards.Count) bool {
	l := look{set, counts}
	waiting, left, any := c.waitingLong(x, l)
	for _, ch := range c.chans {
		if ch == nil || ch.state != chanOpen {
			continue
		}
		for _, tag := range sortedTags(ch) {
			k := ch.consumers[tag]
			if k.x != x || !k.lender {
				continue
			}
			c.setLender(k, k.mayLend(set))
			if k.giveBack(l) || k.lender && k.help(l, waiting, left, c.place0(k)) {
				ch.dirty = true
			}
		}
		c.kick(ch)
	}
	return any
}

// place0 is where a consumer begins to look for a shard to help out on: not all at the same.
func (c *Conn) place0(k *consumer) uint64 {
	return shards.XXHash([]byte(c.o.ClientAddress)) + k.id
}

// waitingLong lists the shards that had messages waiting at the last look and have now; left is how many, by place in the set.
func (c *Conn) waitingLong(x *shards.Exchange, l look) (waiting []int, left []uint32, any bool) {
	if c.looks == nil {
		c.looks = map[*shards.Exchange]*looked{}
	}
	last := c.looks[x]
	if last == nil || last.set != l.set {
		last = &looked{set: l.set, waiting: make([]bool, l.set.Len())}
		c.looks[x] = last
	}
	left = make([]uint32, l.set.Len())
	for i := range min(len(l.counts), l.set.Len()) {
		n := l.counts[i]
		ready := n.Exists && n.Messages > 0
		if ready && last.waiting[i] {
			waiting = append(waiting, i)
			left[i] = n.Messages
		}
		last.waiting[i] = ready
		any = any || ready
	}
	return waiting, left, any
}

// help wishes for attachments on shards of others if the consumer is idle, and reports whether it does. It takes what it needs of the prefetch
// from its own, idle attachments. left counts down what other consumers of this connection leave to do.
func (k *consumer) help(l look, waiting []int, left []uint32, from uint64) bool {
	if k.unacked > 0 || len(waiting) == 0 || k.ownWait(l) {
		return false
	}
	most := maxLent - k.lent()
	if k.prefetch > 0 {
		most = min(most, k.prefetch-k.lent())
	}
	for i := range waiting {
		at := waiting[(from+uint64(i))%uint64(len(waiting))]
		q := l.set.At(at).Queue
		if len(k.wish) < most && left[at] > 0 && !k.covers(q) && k.on(q) == nil && !slices.Contains(k.wish, q) {
			k.wish = append(k.wish, q)
			left[at]--
		}
	}
	if len(k.wish) == 0 {
		return false
	}
	if k.prefetch > 0 {
		k.makeRoom(len(k.wish))
	}
	return true
}

// ownWait reports whether messages wait on the consumer's own shards.
func (k *consumer) ownWait(l look) bool {
	return slices.ContainsFunc(k.target.Shards, func(q string) bool { return l.count(q).Messages > 0 })
}

// makeRoom has own attachments give way until there is room for that many new ones, those that hold most of the prefetch first. They come
// back with a smaller share as far as there is room, and take turns otherwise.
func (k *consumer) makeRoom(most int) {
	room := k.room()
	own := slices.DeleteFunc(slices.Clone(k.atts), func(a *attachment) bool { return a.lent || !a.active })
	slices.SortStableFunc(own, func(a, b *attachment) int { return b.limit - a.limit })
	for _, a := range own {
		if room >= most {
			return
		}
		a.yield = true
		room += a.limit - a.unacked
	}
}

// giveBack ends attachments that are lent and not needed any more, or whose place the consumer's own shards need, and reports whether
// there are any.
func (k *consumer) giveBack(l look) (changed bool) {
	needed := k.prefetch > 0 && k.room() <= 0 && k.lent() > 0 && k.ownWait(l)
	for _, a := range k.atts {
		if !a.lent || a.yield || !a.active {
			continue
		}
		if a.unacked > 0 || l.count(a.queue).Messages > 0 {
			a.idle = 0
		} else {
			a.idle++
		}
		if needed || a.idle >= idleLooks {
			a.yield, changed = true, true
		}
	}
	return changed
}
