package router

import (
	"math/bits"

	"github.com/shardmq/shardmq/frames"
)

// confirms knows which publishes of a channel in confirm mode the broker has confirmed, from the first one on that a barrier may be waiting for.
// It is a window of bits, one per publish, that begins with the first unconfirmed one.
type confirms struct {
	on    bool   // confirm.select seen
	tags  bool   // the window is kept
	sent  uint64 // publishes since confirm.select: the delivery tag of the last
	first uint64 // delivery tag of the window's first publish
	done  []uint64
	head  int // index in done of the word with first's bit
}

// published counts n publishes that go on to the broker.
func (w *confirms) published(n int) {
	if !w.on {
		return
	}
	w.sent += uint64(n)
	for w.tags && w.word(w.sent) >= len(w.done) {
		w.grow()
	}
}

// track begins to keep the window, with the publish to come.
func (w *confirms) track() {
	if w.on && !w.tags {
		w.tags, w.first, w.head = true, w.sent+1, 0
	}
}

// last is the delivery tag of the last publish.
func (w *confirms) last() uint64 { return w.sent }

// waits reports whether any publish up to that one is unconfirmed, as far as is known.
func (w *confirms) waits(last uint64) bool { return w.tags && w.first <= last }

// word returns which word of the window has the bit of a publish, counted from the first.
func (w *confirms) word(tag uint64) int { return int(tag/64 - w.first/64) }

// grow makes room for twice as many publishes, or more.
func (w *confirms) grow() {
	done := make([]uint64, max(4, 2*len(w.done)))
	for i := range w.done {
		done[i] = w.done[(w.head+i)%len(w.done)]
	}
	w.done, w.head = done, 0
}

// at returns the word of a publish.
func (w *confirms) at(tag uint64) *uint64 { return &w.done[(w.head+w.word(tag))%len(w.done)] }

// confirmed notes the broker's ack or nack of a publish, or of all up to it.
func (w *confirms) confirmed(tag uint64, multiple bool) {
	if !w.tags || tag < w.first || tag > w.sent {
		return
	}
	if multiple {
		w.passTo(tag + 1)
	} else {
		*w.at(tag) |= 1 << (tag % 64)
	}
	for w.first <= w.sent {
		run := bits.TrailingZeros64(^(*w.at(w.first) >> (w.first % 64)))
		if run == 0 {
			return
		}
		w.passTo(w.first + uint64(run))
	}
}

// passTo moves the window's begin, and empties the words that it leaves.
func (w *confirms) passTo(tag uint64) {
	for range w.word(tag) {
		w.done[w.head] = 0
		w.head = (w.head + 1) % len(w.done)
		w.first = (w.first/64 + 1) * 64
	}
	w.first = tag
}

// confirm notes the broker's basic.ack or basic.nack.
func (c *Conn) confirm(ch *channel, id frames.MethodID, f frames.Frame) {
	if !ch.confirms.tags {
		return
	}
	if a, ok := frames.ParseAck(id, f.Args()); ok {
		ch.confirms.confirmed(a.DeliveryTag, a.Multiple)
		if len(ch.fences.owed) > 0 {
			c.fenced(ch)
		}
	}
}
