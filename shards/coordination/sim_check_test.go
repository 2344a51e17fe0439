package coordination

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// exempt reports whether a proxy's consumers may be disregarded: a leader has
// given it up lately, or it does not run.
func (w *simWorld) exempt(p *simProxy) bool {
	at, lost := w.lost[p.id]
	return p.dead || p.paused || lost && w.now-at < 15*time.Second || w.now-p.pausedAt < 15*time.Second && p.pausedAt > 0
}

// checkClaim is made when a consumer attaches to a shard: where order is promised
// nobody else has messages of it that are not settled. One whose process or client
// ended its attachment and that was given up before it had settled them is in no
// count, and is disregarded.
func (w *simWorld) checkClaim(p *simProxy, c *simConsumer, queue string) {
	if !w.ordered {
		return
	}
	for _, other := range w.alive() {
		if other.timedOut {
			continue // the broker has taken everything back
		}
		for _, o := range other.consumers {
			ended, over := o.ended[queue]
			if o == c || !o.has[queue] || over && w.exempt(other) && (o.left || ended <= max(w.lost[other.id], other.pausedAt)) {
				continue
			}
			w.failf("%s/%d takes %s, which %s/%d still has", p.id, c.id, queue, other.id, o.id)
		}
	}
}

// checkPlan is made when a plan is applied: a generation is one set for all time,
// and a proxy that publishes goes over to one that it is prepared for.
func (w *simWorld) checkPlan(p *simProxy, plan *Plan) {
	check := func(generation uint64, set []Shard) {
		if generation == 0 || set == nil {
			return
		}
		if former, known := w.sets[generation]; known && !sameShards(former, set) {
			w.failf("%s is told %d shards for generation %d, which had %d", p.id, len(set), generation, len(former))
		}
		w.sets[generation] = set
	}
	check(plan.Generation, plan.Set)
	if plan.Next != nil {
		check(plan.Generation+1, plan.Next)
	}
	// One that has only just begun to publish, or that the leader could not know of,
	// binds the new set's shards first.
	begun := p.routing == 0 || w.now-p.routingAt < time.Second || p.cutAt > 0 && w.now-p.cutAt < 15*time.Second
	if !begun && p.prepared < plan.Generation && !w.exempt(p) &&
		!sameShards(p.routes, plan.Set) && !sameShards(w.sets[p.prepared], plan.Set) {
		w.failf("%s is to go over to generation %d and is prepared for %d", p.id, plan.Generation, p.prepared)
	}
}

// checkRetire is made before shards are unbound: no proxy that counts publishes
// to them.
func (w *simWorld) checkRetire(leader *simProxy, shards []Shard) {
	if w.leader != leader {
		return // deposed meanwhile; what it unbinds is bound again
	}
	for _, p := range w.alive() {
		if leader.core.members[p.id] == nil || w.exempt(p) {
			continue
		}
		for _, shard := range shards {
			if hasQueue(p.routes, shard.Queue) && p.routing > 0 {
				w.failf("%s unbinds %s, by which %s routes (generation %d)", leader.id, shard.Queue, p.id, p.routing)
			}
		}
	}
}

// remove deletes a queue, unless it is in use.
func (w *simWorld) remove(leader *simProxy, queue string) bool {
	if len(w.attached[queue]) > 0 || len(w.traffic.queues[queue]) > 0 {
		return false
	}
	if w.leader == leader {
		for _, p := range w.alive() {
			if w.exempt(p) || leader.core.members[p.id] == nil {
				continue
			}
			for _, c := range p.consumers {
				if c.has[queue] {
					w.failf("%s deletes %s, of which %s/%d has unsettled messages", leader.id, queue, p.id, c.id)
				}
			}
		}
	}
	w.exists[queue], w.bound[queue] = false, false
	w.removed++
	return true
}

// leadingCore returns the one that decides, nil for none.
func (w *simWorld) leadingCore() *Core {
	if w.leader == nil || !w.leader.core.leading() {
		return nil
	}
	return w.leader.core
}

// checkCovered: every shard has a consumer attached, or gets one soon because it
// is being handed over. Nobody has any at the moment in which a barrier goes by.
func (w *simWorld) checkCovered() {
	// Behind a barrier all shards are empty, and taken from everybody for a moment.
	for limit := w.now + time.Minute; w.now < limit && w.leadingCore() != nil && w.layout().Paused; {
		w.run(w.now + 100*time.Millisecond)
	}
	bare := w.uncovered()
	w.run(w.now + 1500*time.Millisecond)
	if w.sealed() {
		return
	}
	for _, queue := range w.uncovered() {
		if slices.Contains(bare, queue) {
			w.failf("nobody consumes %s", queue)
		}
	}
}

// sealed reports whether all shards are kept from everybody, until the old ones are
// known to be empty.
func (w *simWorld) sealed() bool {
	c := w.leadingCore()
	return c != nil && c.work(simExchange).barrier.sealed
}

// uncovered lists shards that nobody consumes although there are consumers.
func (w *simWorld) uncovered() []string {
	consumers := 0
	for _, p := range w.alive() {
		consumers += len(p.consumers)
	}
	c := w.leadingCore()
	if c == nil {
		w.failf("nobody leads")
		return nil
	}
	var bare []string
	for _, shard := range c.known.Exchanges[simExchange].consumed() {
		if len(w.attached[shard.Queue]) == 0 && consumers > 0 && !w.inTurns(shard.Queue) {
			bare = append(bare, shard.Queue)
		}
	}
	return bare
}

// inTurns reports whether a consumer takes a shard in turns with others.
func (w *simWorld) inTurns(queue string) bool {
	return slices.ContainsFunc(w.alive(), func(p *simProxy) bool {
		return slices.ContainsFunc(p.consumers, func(c *simConsumer) bool { return c.window > 0 && slices.Contains(c.aimed, queue) })
	})
}

// shares are the shards that a consumer has, all of them at once or in turns.
func (c *simConsumer) shares() []string {
	if c.window > 0 {
		return c.aimed
	}
	return sortedKeys(c.on)
}

// checkBalanced: consumers' shards, or shards' consumers, differ by one at most, over
// those that get messages as over all, and what is attached is what is granted.
func (w *simWorld) checkBalanced() {
	c := w.leadingCore()
	if c == nil {
		w.failf("nobody leads")
		return
	}
	e := c.known.Exchanges[simExchange]
	live := union(e.Set, e.Next)
	per, total := make(map[string]int), 0
	var loads, lives []int
	exclusive := false
	for _, p := range w.alive() {
		for _, k := range p.consumers {
			total++
			exclusive = exclusive || k.exclusive
			shares := k.shares()
			if granted := e.Grants[p.id][k.id]; !slices.Equal(granted, shares) {
				w.failf("%s/%d consumes %v and was granted %v", p.id, k.id, shares, granted)
			}
			loads, lives = append(loads, len(shares)), append(lives, 0)
			for _, queue := range shares {
				per[queue]++
				if hasQueue(live, queue) {
					lives[len(lives)-1]++
				}
			}
		}
	}
	if total == 0 || exclusive {
		return
	}
	if slices.Max(loads)-slices.Min(loads) > 1 || slices.Max(lives)-slices.Min(lives) > 1 {
		w.failf("shards per consumer: %v, of these live: %v", loads, lives)
	}
	if w.ordered || total <= len(live) {
		return
	}
	var counts []int
	for _, shard := range live {
		counts = append(counts, per[shard.Queue])
	}
	if slices.Max(counts)-slices.Min(counts) > 1 {
		w.failf("consumers per shard: %v", counts)
	}
}

// checkForgotten: nothing is remembered of what is gone.
func (w *simWorld) checkForgotten() {
	c := w.leadingCore()
	if c == nil {
		return
	}
	e, k := c.known.Exchanges[simExchange], c.work(simExchange)
	there := make(map[consumerKey]bool)
	for _, p := range w.alive() {
		for _, consumer := range p.consumers {
			there[consumerKey{p.id, consumer.id}] = true
		}
		if len(p.core.local.locks) > 0 || len(p.core.local.own) > 0 || p.core.waking != (waking{}) {
			w.failf("%s still has locks %v, own shards %v, waking %v", p.id, p.core.local.locks, p.core.local.own, p.core.waking)
		}
	}
	goals, versions := len(k.goal), len(k.since)+len(k.revoked)
	k.forget(func(key consumerKey) bool { return !there[key] })
	if n := goals - len(k.goal) + versions - len(k.since) - len(k.revoked); n > 0 {
		w.failf("%d consumers that are gone are remembered", n)
	}
	if n := len(k.due) + len(k.closing) + len(k.pauses); n > 0 || len(k.owner) > len(e.Set) {
		w.failf("%d shards that are gone are remembered, and owners of %d for %d", n, len(k.owner), len(e.Set))
	}
}

// assignment draws who consumes what.
func (w *simWorld) assignment() string {
	var b strings.Builder
	for _, queue := range sortedKeys(w.attached) {
		if len(w.attached[queue]) == 0 && !w.exists[queue] {
			continue
		}
		fmt.Fprintf(&b, " %s:", strings.TrimPrefix(queue, "q - rabbit@"))
		for _, a := range w.attached[queue] {
			fmt.Fprintf(&b, "%s/%d ", a.proxy.id, a.consumer)
		}
	}
	return b.String()
}
