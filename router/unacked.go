package router

import "github.com/shardmq/shardmq/frames"

// ring holds a channel's unacknowledged deliveries from pseudo-queues, to consumers and gets, in delivery order. The broker
// counts for each attachment; the client's prefetch is for all attachments of its consumer together, so the proxy has to count too. And a
// shard goes to another owner only once what the former one was given is settled.
type ring struct {
	tags  []uint64 // length a power of two
	atts  []*attachment
	first int
	n     int
	freed bool // a delivery of an ended attachment was settled: there is room for a new one
}

// ringKept is the size up to which an empty ring keeps its memory.
const ringKept = 1 << 12

func (r *ring) push(tag uint64, a *attachment) {
	if r.n == len(r.tags) {
		r.grow()
	}
	at := (r.first + r.n) & (len(r.tags) - 1)
	r.tags[at], r.atts[at] = tag, a
	r.n++
}

// grow makes room for more deliveries.
func (r *ring) grow() {
	r.compact()
	if 2*r.n < len(r.tags) {
		return
	}
	size := max(16, 2*len(r.tags))
	tags, atts := make([]uint64, size), make([]*attachment, size)
	for i := range r.n {
		at := (r.first + i) & (len(r.tags) - 1)
		tags[i], atts[i] = r.tags[at], r.atts[at]
	}
	r.tags, r.atts, r.first = tags, atts, 0
}

// compact closes the gaps that deliveries leave which were settled before older ones: behind one that a client never acknowledges there is
// no end of them.
func (r *ring) compact() {
	kept := 0
	for i := range r.n {
		from, to := (r.first+i)&(len(r.tags)-1), (r.first+kept)&(len(r.tags)-1)
		if a := r.atts[from]; a != nil {
			r.atts[from] = nil
			r.tags[to], r.atts[to] = r.tags[from], a
			kept++
		}
	}
	r.n = kept
}

// settle removes what an acknowledgement of tag settles; tag 0 with multiple is everything (AMQP 0-9-1, basic.ack).
// fn hears of each.
func (r *ring) settle(tag uint64, multiple bool, fn func(*attachment)) {
	if multiple {
		for r.n > 0 && (tag == 0 || r.tags[r.first] <= tag || r.atts[r.first] == nil) {
			r.pop(fn)
		}
		r.shrink()
		return
	}
	lo, hi := 0, r.n
	for lo < hi {
		mid := (lo + hi) / 2
		if r.tags[(r.first+mid)&(len(r.tags)-1)] < tag {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if at := (r.first + lo) & (len(r.tags) - 1); lo < r.n && r.tags[at] == tag {
		a := r.atts[at]
		r.atts[at] = nil
		if a != nil {
			fn(a)
		}
	}
	for r.n > 0 && r.atts[r.first] == nil {
		r.pop(fn)
	}
	r.shrink()
}

func (r *ring) pop(fn func(*attachment)) {
	a := r.atts[r.first]
	r.atts[r.first] = nil
	r.first = (r.first + 1) & (len(r.tags) - 1)
	r.n--
	if a != nil {
		fn(a)
	}
}

// shrink lets go of what an unlimited consumer that has not acknowledged for long has made the ring grow to.
func (r *ring) shrink() {
	if r.n == 0 && len(r.tags) > ringKept {
		r.tags, r.atts, r.first = nil, nil, 0
	}
}

// given counts a delivery to an attachment, or from a get.
func (ch *channel) given(tag uint64, a *attachment) {
	if a.of != nil {
		a.unacked++
		a.of.unacked++
	}
	ch.unacked.push(tag, a)
}

// settled counts one that has been acknowledged, or that the broker has taken back.
func (c *Conn) settled(ch *channel, a *attachment) {
	if a.of == nil {
		c.unsettled(a, -1)
		return
	}
	a.unacked--
	a.of.unacked--
	a.still, a.of.still = 0, 0
	if !a.ended {
		return
	}
	ch.unacked.freed = ch.unacked.freed || a.of.prefetch > 0
	if a.unacked == 0 {
		ch.slots[a.slot] = nil
		c.release(a, c.cut && a.of.target.Ordered) // in other modes it may be early
	}
}

// unsettled reports that messages of a get wait for their acknowledgement, or no longer.
func (c *Conn) unsettled(a *attachment, delta int) {
	c.asks = append(c.asks, Ask{Kind: AskUnsettled, Exchange: a.x, Queue: a.queue, Delta: delta})
}

// voidUnacked counts all deliveries as settled: the broker has taken them back.
func (c *Conn) voidUnacked(ch *channel) {
	c.settleRing(ch, 0, true)
}

func (c *Conn) settleRing(ch *channel, tag uint64, multiple bool) {
	ch.unacked.settle(tag, multiple, func(a *attachment) { c.settled(ch, a) })
}

// settleUnacked counts an ack, nack or reject of the client's. In a transaction it counts once that is committed.
func (c *Conn) settleUnacked(ch *channel, id frames.MethodID, args []byte) {
	a, ok := frames.ParseAck(id, args)
	if !ok {
		return
	}
	if ch.tx {
		ch.txAcks = append(ch.txAcks, a)
		return
	}
	c.settleRing(ch, a.DeliveryTag, a.Multiple)
	c.wake(ch)
}

// commitMark stands behind the acknowledgements of a transaction whose commit-ok is to come: further ones may follow before it does.
const commitMark = ^uint64(0)

func (ch *channel) commit() { ch.txAcks = append(ch.txAcks, frames.Ack{DeliveryTag: commitMark}) }

// rollback forgets the acknowledgements since the last commit.
func (ch *channel) rollback() {
	n := len(ch.txAcks)
	for n > 0 && ch.txAcks[n-1].DeliveryTag != commitMark {
		n--
	}
	ch.txAcks = ch.txAcks[:n]
}

// committed counts the acknowledgements of the oldest transaction.
func (c *Conn) committed(ch *channel) {
	for i, a := range ch.txAcks {
		if a.DeliveryTag == commitMark {
			ch.txAcks = append(ch.txAcks[:0], ch.txAcks[i+1:]...)
			break
		}
		c.settleRing(ch, a.DeliveryTag, a.Multiple)
	}
	c.wake(ch)
}

// recover: the broker takes everything unacknowledged back and delivers it anew, under new tags. What it sent before its recover-ok
// is part of that.
func (c *Conn) recover(ch *channel) {
	c.voidUnacked(ch)
	ch.dirty = ch.dirty || ch.unacked.freed
	ch.unacked.freed = false
	ch.txAcks = ch.txAcks[:0]
}

// recoverAsync is basic.recover without an answer. One of the proxy's own tells which deliveries the broker has taken back: those in front of
// recover-ok.
func (c *Conn) recoverAsync(ch *channel, f frames.Frame) Verdict {
	var m frames.BasicRecoverAsync
	if len(ch.slots) == 0 && ch.unacked.n == 0 || m.Decode(f.Args()) != nil {
		return Forward
	}
	return c.begin(ch, f, func(o *op) {
		o.want = 1
		o.reply = func(frames.Frame) Verdict {
			o.want = 0
			c.recover(ch)
			c.finish(ch)
			return Drop
		}
		c.sendUp(ch, &frames.BasicRecover{Requeue: m.Requeue})
	})
}

// wake looks at the channel's consumers again when there is new room in a prefetch.
func (c *Conn) wake(ch *channel) {
	if ch.unacked.freed {
		ch.unacked.freed = false
		ch.dirty = true
	}
	c.kick(ch)
}
