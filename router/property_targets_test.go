package router_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/shardmq/shardmq/router"
	"github.com/shardmq/shardmq/shards"
)

// leader gives consumers any shards it likes, as long as that is allowed: in ordered mode a shard has one owner at a time.
type leader struct {
	ordered   bool
	consumers []*led
}

// led is a consumer, and the last target meant for it.
type led struct {
	channel uint16
	id      uint64 // the router's
	tag     string
	target  shards.Target
}

// join makes up the answer to a join.
func (l *leader) join(w *world, a router.Ask, r *router.Answer) {
	if r.Member == nil {
		return
	}
	r.Member.Leave() // the group's own opinion does not count
	r.Member = new(shards.Member)
	c := &led{channel: a.Channel, id: a.Consumer, tag: a.Tag}
	l.consumers = append(l.consumers, c)
	r.Target = l.next(w, c)
}

// move has a consumer hear of a new target some time.
func (l *leader) move(w *world) {
	if len(l.consumers) > 0 {
		c := l.consumers[w.pick(len(l.consumers))]
		w.retarget(c.channel, c.id, l.next(w, c))
	}
}

func (l *leader) next(w *world, c *led) shards.Target {
	t := shards.Target{Version: c.target.Version + 1, Ordered: l.ordered}
	for i := range w.server.set.Len() {
		if q := w.server.set.At(i).Queue; w.flip() && l.free(w, c, q) {
			t.Shards = append(t.Shards, q)
		}
	}
	c.target = t
	return t
}

// free reports whether a shard may be in the target of c: nobody else has it, or will claim it any more.
func (l *leader) free(w *world, c *led, queue string) bool {
	if !l.ordered {
		return true
	}
	for _, o := range l.consumers {
		acc := w.ledger.account(o.id)
		wants := !acc.left && (acc.aimed < o.target.Version || slices.Contains(o.target.Shards, queue))
		if o != c && (wants || acc.claims(queue) > 0) {
			return false
		}
	}
	return true
}

// TestRandomTargets has consumers come, go, and be given any shards at any time, and checks that their prefetch is kept (the broker of the
// model does), that what the groups hear is right (ledger), that in ordered mode a shard's consumers never overlap, not in what they have to
// settle either, and that all messages find their way to somebody who may have them.
func TestRandomTargets(t *testing.T) {
	afterSessions(t, 200, (*world).exhaust)
}

// afterSessions does fn with worlds in which a random session has just come to rest, in both modes. most bounds its steps.
func afterSessions(t *testing.T, most int, fn func(*world)) {
	for _, ordered := range []bool{false, true} {
		t.Run(map[bool]string{false: "balanced", true: "ordered"}[ordered], func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				w := newWorld(t, rt, &leader{ordered: ordered})
				defer w.end()
				for range 1 + w.pick(most) {
					w.step()
				}
				w.exorcise(w.perNode)
				w.settle()
				fn(w)
			})
		})
	}
}

// haunt has the broker keep consumers of a connection that is no more, on some shards.
func (w *world) haunt() {
	w.server.ghosts = map[string]bool{}
	for i := range w.server.set.Len() {
		if q := w.server.set.At(i).Queue; w.pick(4) == 0 {
			w.server.ghosts[q] = true
			w.server.count(q)
		}
	}
}

// exorcise has the broker notice for some of them.
func (w *world) exorcise(n int) {
	for i := range w.server.set.Len() {
		if q := w.server.set.At(i).Queue; n > 0 && w.server.ghosts[q] {
			n--
			delete(w.server.ghosts, q)
			w.server.count(q)
		}
	}
}

// fill puts a message on some shard.
func (b *modelBroker) fill(pick func(int) int) {
	q := b.set.At(pick(b.set.Len())).Queue
	if b.exists(q) {
		b.stored[q]++
		b.count(q)
	}
}

// exhaust has the client acknowledge everything, and consume what is left.
func (w *world) exhaust() {
	for rounds, calm := 0, 0; rounds < 100 && calm < 14; rounds++ { // what is lent ends, and what rests returns, some looks later
		calm++
		for w.server.deliver(w.pick) {
			calm = 0
		}
		w.drain()
		w.acknowledgeAll()
		w.rotate()
		w.drain()
		w.lend()
		w.drain()
	}
	w.ledger.balance(w.server)
	w.consumed()
	w.placed()
}

func (w *world) acknowledgeAll() {
	for _, id := range []uint16{1, 2, 3} {
		if ch := w.client.chans[id]; ch != nil && !ch.closing {
			w.client.ackAll(id)
		}
	}
	w.drain()
}

// consumed checks that no message is left on a shard that anybody may consume: its owner, or, unless order is promised, whoever is idle.
func (w *world) consumed() {
	for i := range w.server.set.Len() {
		q := w.server.set.At(i).Queue
		if w.server.stored[q] == 0 {
			continue
		}
		w.eachLive(func(c *led, k *clientConsumer) {
			if slices.Contains(c.target.Shards, q) || !w.leader.ordered && !k.noAck {
				w.fail("%d messages left on %s with consumer %d there", w.server.stored[q], q, k.id)
			}
		})
	}
}

// placed checks that each consumer has its own shards, as far as its prefetch goes, and no others.
func (w *world) placed() {
	w.eachLive(func(c *led, k *clientConsumer) {
		var has []string
		for _, b := range w.server.chans[c.channel].consumers {
			if b.id == k.id {
				has = append(has, b.queue)
			}
		}
		slices.Sort(has)
		want := len(c.target.Shards)
		if k.prefetch > 0 {
			want = min(want, k.prefetch)
		}
		for _, q := range has {
			if !slices.Contains(c.target.Shards, q) {
				w.fail("consumer %d has %v, its target is %v", k.id, has, c.target)
			}
		}
		if len(has) != want {
			w.fail("consumer %d with prefetch %d has %v, its target is %v", k.id, k.prefetch, has, c.target)
		}
	})
}

// eachLive walks the consumers on the exchange that are neither cancelled nor closed.
func (w *world) eachLive(fn func(*led, *clientConsumer)) {
	for _, c := range w.leader.consumers {
		ch := w.client.chans[c.channel]
		if w.ledger.account(c.id).left || ch == nil {
			continue
		}
		if k := ch.consumers[c.tag]; k != nil && !k.canceled {
			fn(c, k)
		}
	}
}
