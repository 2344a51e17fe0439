package router

import (
	"slices"

	"github.com/shardmq/shardmq/shards"
)

// HasRotating reports whether Rotating lists any.
func (c *Conn) HasRotating() bool { return c.rotating > 0 }

// Rotating begins a turn: it lists the sharded exchanges on which this connection has consumers with fewer attachments than shards, or too small
// ones. The owner calls it a few times a second while HasRotating, and then Rotate for each.
func (c *Conn) Rotating() []*shards.Exchange {
	if c.rotating == 0 {
		return nil
	}
	var out []*shards.Exchange
	for _, ch := range c.chans {
		if ch == nil {
			continue
		}
		for _, tag := range sortedTags(ch) {
			k := ch.consumers[tag]
			if !k.rotating {
				continue
			}
			if k.turn() && !slices.Contains(out, k.x) {
				out = append(out, k.x)
			}
			c.setRotating(k, k.turns())
		}
	}
	return out
}

func (c *Conn) setRotating(k *consumer, on bool) {
	if k.rotating != on {
		k.rotating = on
		if on {
			c.rotating++
		} else {
			c.rotating--
		}
	}
}

// Rotate moves attachments of consumers that cannot cover all their shards at once: from idle shards, and after a while from busy
// ones too, to shards with messages that wait. set and counts are what the topology has just read.
func (c *Conn) Rotate(x *shards.Exchange, set *shards.Set, counts []shards.Count) {
	for _, ch := range c.chans {
		if ch == nil || ch.state != chanOpen {
			continue
		}
		for _, tag := range sortedTags(ch) {
			if k := ch.consumers[tag]; k.rotating && k.x == x && k.rotate(look{set, counts}) {
				ch.dirty = true
			}
		}
		c.kick(ch)
	}
}

// look is a reading of the counts of an exchange's shards.
type look struct {
	set    *shards.Set
	counts []shards.Count
}

// count is what the reading says of a queue; one that is not in it does not exist.
func (l look) count(queue string) (n shards.Count) {
	if i, ok := l.set.Index(queue); ok && i < len(l.counts) {
		n = l.counts[i]
	}
	return n
}

// enlarge has one attachment give way that has less of the prefetch than it is due, and comes back with more: only one whose messages have all
// been with the client for a turn, for while they flow it would gain nothing but the exchange of frames.
func (k *consumer) enlarge(l look) (move bool) {
	for _, a := range k.atts {
		if !move && !a.yield && a.active && a.unacked == a.limit && a.still >= stillTurns && k.cramped(a) && k.room() > 0 && l.count(a.queue).Messages > 0 {
			a.yield, move = true, true
		}
	}
	return move
}

// rotate chooses which attachments give way, and reports whether there is anything to move.
func (k *consumer) rotate(l look) bool {
	waiting, move := 0, k.wakeRested(l)
	for _, q := range k.target.Shards {
		n := l.count(q)
		if !n.Exists || k.on(q) != nil || k.target.Ordered && n.Consumers > 0 || k.resting[q] {
			continue
		}
		move = move || k.prefetch == 0 || k.room() > 0 || len(k.surplus()) > 0
		if n.Messages > 0 {
			waiting++
		}
	}
	if k.prefetch == 0 {
		return move // nothing has to give way
	}
	waiting -= max(k.room(), 0)
	for turn := range 3 { // those lent first, then idle ones, then busy ones
		for _, a := range k.atts {
			idle := a.unacked == 0 && l.count(a.queue).Messages == 0
			if waiting > 0 && !a.yield && a.active && (a.lent || turn > 0 && idle || turn > 1 && a.age > 0) {
				a.yield, move = true, true
				waiting--
			}
		}
	}
	for _, a := range k.atts {
		a.age++
	}
	if waiting <= 0 && k.pack(l) {
		return true
	}
	return k.enlarge(l) || move
}
