package router

import (
	"strconv"

	"github.com/shardmq/shardmq/shards"
)

// attachment is one upstream consumer on one shard. Deliveries of basic.get that await their acknowledgement have one each too,
// with of nil: it only remembers where they came from.
//
//	claimed ──consume sent, consume-ok──▶ active ──cancel-ok, or the broker's cancel──▶ ended ──all settled──▶ released
//	   └─────────────────── the channel ends at the broker, at any point ───────────────────────────────────────▶┘
//
// The group hears of claimed before the broker hears of the consume, and of released once it is true. In between nobody else is granted
// the shard, unless the attachment was lent.
type attachment struct {
	of      *consumer
	queue   string
	x       *shards.Exchange // of nil: whose shard it is
	tag     string
	slot    int
	limit   int // its share of the prefetch, 0: unlimited
	unacked int
	age     int  // rotation turns it has lived
	idle    int  // lent: looks in a row that have found nothing to do
	still   int  // rotation turns since it was made, or one of its deliveries was settled
	lent    bool // on another's shard, to help out
	yield   bool // gives its place to another shard
	active  bool // consume-ok seen
	claimed bool // and not released
	ended   bool // cancelled; deliveries of it may be unacknowledged still
}

// newAttachment takes the first free slot: its number makes the tag, so that a deliver finds its attachment without a map. A slot stays taken until
// everything delivered under its tag is settled: a queue counts what it has given out by consumer tag (RabbitMQ's rabbit_queue_consumers,
// rabbit_fifo), so a second attachment of that tag would get more than its share when the first one's deliveries are settled, or less until then.
func (c *Conn) newAttachment(ch *channel, k *consumer, queue string, limit int) *attachment {
	slot := 0
	for slot < len(ch.slots) && ch.slots[slot] != nil {
		slot++
	}
	if slot == len(ch.slots) {
		ch.slots = append(ch.slots, nil)
	}
	a := &attachment{of: k, queue: queue, limit: limit, slot: slot, tag: c.o.TagPrefix + strconv.Itoa(slot), lent: !k.covers(queue)}
	ch.slots[slot] = a
	k.atts = append(k.atts, a)
	k.seq++
	delete(k.resting, queue)
	k.served[queue] = k.seq
	c.claim(a)
	return a
}

// endAttachment: the broker has confirmed the end.
func (c *Conn) endAttachment(ch *channel, a *attachment) {
	if a.ended {
		return
	}
	a.ended = true
	for i, b := range a.of.atts {
		if b == a {
			a.of.atts = append(a.of.atts[:i], a.of.atts[i+1:]...)
			break
		}
	}
	if a.active {
		c.attached(a, -1)
	}
	if a.unacked == 0 {
		ch.slots[a.slot] = nil
		c.release(a, false)
	}
}

// attached reports that the broker has a consumer more, or less.
func (c *Conn) attached(a *attachment, delta int) {
	if m := a.of.member; m != nil {
		c.asks = append(c.asks, Ask{Kind: AskAttached, Member: m, Queue: a.queue, Delta: delta})
	}
}

func (c *Conn) claim(a *attachment) {
	if m := a.of.member; m != nil {
		a.claimed = true
		c.asks = append(c.asks, Ask{Kind: AskClaim, Member: m, Queue: a.queue, Lent: a.lent})
	}
}

// release gives the shard of an attachment back that has ended and owes nothing any more. late: the broker may take a moment to see that.
func (c *Conn) release(a *attachment, late bool) {
	if a.claimed {
		a.claimed = false
		c.asks = append(c.asks, Ask{Kind: AskReleased, Member: a.of.member, Queue: a.queue, Lent: a.lent, Late: late})
	}
}

// adopt makes an attachment that was lent one of the consumer's own: its target covers the shard now.
func (c *Conn) adopt(a *attachment) {
	lent := *a
	a.lent, a.yield, a.idle = false, false, 0
	c.claim(a)
	c.release(&lent, false)
}

// attachmentOf finds the attachment whose tag the broker sent, nil for tags of the client's own and of attachments that have ended.
func (c *Conn) attachmentOf(ch *channel, tag []byte) *attachment {
	n := len(c.o.TagPrefix)
	if len(ch.slots) == 0 || len(tag) <= n || string(tag[:n]) != c.o.TagPrefix {
		return nil
	}
	slot := 0
	for _, d := range tag[n:] {
		if d < '0' || d > '9' || slot >= len(ch.slots) {
			return nil
		}
		slot = slot*10 + int(d-'0')
	}
	if slot >= len(ch.slots) || ch.slots[slot] == nil || ch.slots[slot].ended {
		return nil
	}
	return ch.slots[slot]
}
