package router

import (
	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
)

// When other shards are about to replace the present ones, and order is promised across that, publishes to the exchange are held
// (pause), and what has been published already must have reached its shards before those are judged to be empty (fence).
//
// A fence is a channel.flow that changes nothing: a channel's frames are handled in their order, so the broker has passed on
// whatever came before once it answers. That it has arrived, on another node of a cluster perhaps, only a confirm says: where the client has
// asked for confirms, and the policy for the barrier, those of all its publishes so far are waited for too.

// fencing is what a channel's fences go by.
type fencing struct {
	wrote bool    // published to a sharded exchange since the last fence began
	owed  []fence // that somebody waits for, in the order they were asked for
}

type fence struct {
	id    uint64
	phase fencePhase
	last  uint64 // passed: the publish that must have been confirmed
}

type fencePhase uint8

const (
	fenceDue    fencePhase = iota // its channel.flow is to be sent
	fenceSent                     // and has been
	fencePassed                   // and was answered
)

// due reports whether a channel.flow has to be sent, and none is under way.
func (f *fencing) due() (due bool) {
	for i := range f.owed {
		switch f.owed[i].phase {
		case fenceDue:
			due = true
		case fenceSent:
			return false
		case fencePassed:
		}
	}
	return due
}

// Fence has AskFenced asked with id, once per channel, when all that was published to sharded exchanges on it so far has reached its
// queues. It returns how often that will be: channels with nothing on its way are not among them.
func (c *Conn) Fence(id uint64) (channels int) {
	for _, ch := range c.chans {
		if ch == nil || !ch.publishes() {
			continue
		}
		channels++
		ch.fences.owed = append(ch.fences.owed, fence{id: id})
		ch.dirty = true
		c.kick(ch)
	}
	return channels
}

// publishes reports whether anything that was published on the channel may still be on its way. What was before the broker's channel.close has
// been handled, or never will be.
func (ch *channel) publishes() bool {
	if ch.state == chanClosingBroker || ch.brokerOK {
		return false
	}
	return ch.fences.wrote || len(ch.fences.owed) > 0 || ch.confirms.waits(ch.confirms.last())
}

// fence sends the fence that is due on a quiet channel, and reports whether there was one.
func (c *Conn) fence(ch *channel) bool {
	if !ch.fences.due() {
		return false
	}
	c.start(ch, 0, func(o *op) { c.sendFence(ch, o) })
	return true
}

func (c *Conn) sendFence(ch *channel, o *op) {
	for i := range ch.fences.owed {
		if f := &ch.fences.owed[i]; f.phase == fenceDue {
			f.phase, f.last = fenceSent, ch.confirms.last()
		}
	}
	ch.fences.wrote = false
	o.want = 1
	o.reply = func(frames.Frame) Verdict {
		o.want = 0
		for i := range ch.fences.owed {
			if f := &ch.fences.owed[i]; f.phase == fenceSent {
				f.phase = fencePassed
			}
		}
		c.fenced(ch)
		c.finish(ch)
		return Drop
	}
	c.sendUp(ch, &frames.ChannelFlow{Active: true})
}

// fenced reports the fences that are complete.
func (c *Conn) fenced(ch *channel) {
	owed := ch.fences.owed[:0]
	for _, f := range ch.fences.owed {
		if f.phase == fencePassed && !ch.confirms.waits(f.last) {
			c.asks = append(c.asks, Ask{Kind: AskFenced, Fence: f.id})
		} else {
			owed = append(owed, f)
		}
	}
	ch.fences.owed = owed
}

// unfence reports all fences of a channel that has ended at the broker: it has handled what came before.
func (c *Conn) unfence(ch *channel) {
	for _, f := range ch.fences.owed {
		c.asks = append(c.asks, Ask{Kind: AskFenced, Fence: f.id})
	}
	ch.fences.owed = nil
}

// pause holds a publish to an exchange whose shards are about to be replaced, and what the client sends behind it on the channel. It is no
// composition: however long it takes, the channel lives, and consumers on it are moved meanwhile, for the pause ends when they have nothing left.
func (c *Conn) pause(ch *channel, x *shards.Exchange) Verdict {
	if !ch.idle() {
		return hold
	}
	c.opSeq++
	ch.shut = c.opSeq
	c.asks = append(c.asks, Ask{Kind: AskOpen, Channel: ch.id, Op: ch.shut, Exchange: x})
	return hold
}

// opened goes on with what pause has held.
func (c *Conn) opened(ch *channel, err error) {
	ch.shut = 0
	switch {
	case err != nil:
		c.raise(ch, exceptionOf(err, frames.BasicPublishID))
	case ch.op == nil:
		c.resume(ch)
	}
}

// writes notes that something is published to an exchange of that policy.
func (ch *channel) writes(p *shards.Policy) {
	ch.fences.wrote = true
	if p.Definition.Barrier {
		ch.confirms.track()
	}
}
