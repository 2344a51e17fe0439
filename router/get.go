package router

import (
	"encoding/binary"
	"slices"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
)

// get answers basic.get from a pseudo-queue: the shards are asked in turn on the client's channel, those that hold messages
// first, until one gives a message; get-empty only when all are empty.
func (c *Conn) get(ch *channel, f frames.Frame) Verdict {
	var m frames.BasicGet
	if m.Decode(f.Args()) != nil {
		return Forward
	}
	x, v := c.pseudo(ch, f, m.Queue)
	if x == nil {
		return v
	}
	return c.begin(ch, f, func(o *op) {
		o.answer = func(r Answer) {
			g := &getting{c: c, ch: ch, o: o, noAck: m.NoAck, x: x, set: r.State.Covered(), counts: slices.Clone(r.Counts)}
			g.order(ch.getFrom, r.Node)
			o.reply = g.reply
			g.next()
		}
		c.ask(ch, o, Ask{Kind: AskCounts, Exchange: x})
	})
}

// getting is one basic.get on its way over the shards.
type getting struct {
	c      *Conn
	ch     *channel
	o      *op
	x      *shards.Exchange
	noAck  bool
	set    *shards.Set
	counts []shards.Count
	turn   []int // shards to ask, in order
	at     int   // the one being asked
}

// order lists the existing shards from a starting point on: those that reported messages before the others, and of either those on
// the client's own node first. A count may be older than the last message, so the others are asked too before the client hears get-empty.
func (g *getting) order(from int, node string) {
	n := len(g.counts)
	for rank := range 4 {
		for i := range n {
			s := (from + i) % n
			filled, local := g.counts[s].Messages > 0, g.set.At(s).Node == node
			if g.counts[s].Exists && filled == (rank < 2) && local == (rank%2 == 0) {
				g.turn = append(g.turn, s)
			}
		}
	}
}

// consumable reports whether a shard that an answer has named still is one to get from or consume: when the number of shards changes, one may be
// about to be deleted by the time it is used, and the broker closes the channel of whoever names a queue that is gone.
func consumable(x *shards.Exchange, queue string) bool {
	covered := x.State().Covered()
	return covered == nil || covered.Has(queue) // without shards the exchange is gone, and they stay
}

func (g *getting) next() {
	for g.at < len(g.turn) && !consumable(g.x, g.set.At(g.turn[g.at]).Queue) {
		g.at++
	}
	if g.at == len(g.turn) {
		g.c.sendDown(g.ch, &frames.BasicGetEmpty{})
		g.c.finish(g.ch)
		return
	}
	g.o.want = 1
	g.c.sendUp(g.ch, &frames.BasicGet{Queue: g.set.At(g.turn[g.at]).Queue, NoAck: g.noAck})
}

func (g *getting) reply(f frames.Frame) Verdict {
	g.o.want = 0
	if f.Method() != frames.BasicGetOkID {
		g.counts[g.turn[g.at]].Messages = 0
		g.at++
		g.next()
		return Drop
	}
	// get-ok ends with the message count: what is left in this shard, to which the others' is added.
	shard := g.turn[g.at]
	g.ch.getFrom = (shard + 1) % len(g.counts)
	g.remember(f, g.set.At(shard).Queue)
	start := len(g.c.down)
	g.c.down = append(g.c.down, f...)
	at := g.c.down[start+len(f)-5:]
	sum := binary.BigEndian.Uint32(at)
	for i, n := range g.counts {
		if i != shard {
			sum += n.Messages
		}
	}
	binary.BigEndian.PutUint32(at, sum)
	g.c.gotContent(g.ch, f)
	g.c.finish(g.ch)
	return Drop
}

// remember notes which shard a message came from, until the client acknowledges it.
func (g *getting) remember(f frames.Frame, queue string) {
	var m frames.BasicGetOk
	if g.noAck || m.Decode(f.Args()) != nil {
		return
	}
	a := &attachment{x: g.x, queue: queue}
	g.ch.given(m.DeliveryTag, a)
	g.c.unsettled(a, 1)
}
