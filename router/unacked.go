package router

import "github.com/shardmq/shardmq/frames"

// ring holds the unacknowledged deliveries of a channel's limited consumers on pseudo-queues, in delivery order. The broker
// counts for each attachment; the client's prefetch is for all attachments of its consumer together, so the proxy has to count too.
type ring struct {
	tags  []uint64 // length a power of two
	atts  []*attachment
	first int
	n     int
	freed bool // a delivery of an ended attachment was settled: there is room for a new one
}

func (r *ring) push(tag uint64, a *attachment) {
	if r.n == len(r.tags) {
		r.grow()
	}
	at := (r.first + r.n) & (len(r.tags) - 1)
	r.tags[at], r.atts[at] = tag, a
	r.n++
}

func (r *ring) grow() {
	size := max(16, 2*len(r.tags))
	tags, atts := make([]uint64, size), make([]*attachment, size)
	for i := range r.n {
		at := (r.first + i) & (len(r.tags) - 1)
		tags[i], atts[i] = r.tags[at], r.atts[at]
	}
	r.tags, r.atts, r.first = tags, atts, 0
}

// settle removes what an acknowledgement of tag settles; tag 0 with multiple is everything (AMQP 0-9-1, basic.ack).
func (r *ring) settle(tag uint64, multiple bool) {
	if multiple {
		for r.n > 0 && (tag == 0 || r.tags[r.first] <= tag) {
			r.pop()
		}
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
		r.release(r.atts[at])
		r.atts[at] = nil
	}
	for r.n > 0 && r.atts[r.first] == nil {
		r.pop()
	}
}

func (r *ring) pop() {
	r.release(r.atts[r.first])
	r.atts[r.first] = nil
	r.first = (r.first + 1) & (len(r.tags) - 1)
	r.n--
}

// release takes one delivery off its attachment's count.
func (r *ring) release(a *attachment) {
	if a != nil {
		a.unacked--
		a.of.unacked--
		r.freed = r.freed || a.ended
	}
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
	ch.unacked.settle(a.DeliveryTag, a.Multiple)
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
		ch.unacked.settle(a.DeliveryTag, a.Multiple)
	}
	c.wake(ch)
}

// recover: the broker takes everything unacknowledged back and delivers it anew, under new tags. What it sent before its recover-ok
// is part of that.
func (ch *channel) recover() {
	for ch.unacked.n > 0 {
		ch.unacked.pop()
	}
	ch.dirty = ch.dirty || ch.unacked.freed
	ch.unacked.freed = false
	ch.txAcks = ch.txAcks[:0]
}

// wake looks at the channel's consumers again when there is new room in a prefetch.
func (c *Conn) wake(ch *channel) {
	if ch.unacked.freed {
		ch.unacked.freed = false
		ch.dirty = true
	}
	c.kick(ch)
}
