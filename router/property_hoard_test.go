package router_test

import (
	"slices"
	"testing"

	"github.com/shardmq/shardmq/frames"
)

// hoardLooks is how many looks in a row without a message moving are taken to mean that none will.
const hoardLooks = 20

// TestRandomHoarders has clients, after a random session, acknowledge only when they hold as much as their prefetch allows or nothing more can
// come, and checks that they get everything, whatever shards it is in.
func TestRandomHoarders(t *testing.T) {
	afterSessions(t, 150, func(w *world) {
		w.acknowledgeAll()
		few := []int{w.pick(w.perNode), w.pick(w.perNode)}
		for range w.pick(60) {
			w.server.fill(func(int) int { return few[w.pick(2)] })
		}
		w.hoard()
		w.exhaust()
	})
}

// hoard has the clients consume until nothing moves any more, and checks that nobody waits then for what is there.
func (w *world) hoard() {
	for calm := 0; calm < hoardLooks; calm++ {
		for w.server.deliver(w.pick) {
			calm = 0
			w.drain()
		}
		w.eachLive(func(c *led, k *clientConsumer) {
			held := w.held(c.channel, k.id)
			if len(held) > 0 && (len(held) == k.prefetch || w.left(c) == 0) {
				calm = 0
				w.settleHeld(c.channel, held)
			}
		})
		w.drain()
		w.rotate()
		w.drain()
		w.lend()
		w.drain()
	}
	w.eachLive(func(c *led, k *clientConsumer) {
		if n := len(w.held(c.channel, k.id)); w.left(c) > 0 && (k.prefetch == 0 || n < k.prefetch) {
			w.fail("consumer %d with prefetch %d holds %d messages and waits for ever, %d are left on %v", k.id, k.prefetch, n, w.left(c), c.target.Shards)
		}
	})
}

// left counts the messages that are ready on a consumer's shards.
func (w *world) left(c *led) (n int) {
	for _, q := range c.target.Shards {
		n += w.server.stored[q]
	}
	return n
}

// held lists the deliveries that a client's consumer has not settled.
func (w *world) held(channel uint16, consumer int) (tags []uint64) {
	for _, d := range w.server.chans[channel].unacked {
		if d.of != nil && d.of.id == consumer {
			tags = append(tags, d.tag)
		}
	}
	return tags
}

func (w *world) settleHeld(channel uint16, tags []uint64) {
	ch := w.client.chans[channel]
	for _, tag := range tags {
		w.client.send(channel, &frames.BasicAck{DeliveryTag: tag})
		ch.unacked = slices.DeleteFunc(ch.unacked, func(t uint64) bool { return t == tag })
	}
	if ch.tx {
		w.client.request(channel, &frames.TxCommit{}, nil)
	}
}
