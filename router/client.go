package router

import (
	"github.com/shardmq/shardmq/frames"
)

// ClientHolds reports whether the channel's frames must be handed over whole, bodies included, because they may have to be held.
func (c *Conn) ClientHolds(id uint16) bool {
	ch := c.channel(id)
	return ch != nil && (ch.op != nil || len(ch.held) > 0 || ch.state == chanClosingProxy)
}

// ClientBody decides on a body frame from its head alone: the proxy streams it.
func (c *Conn) ClientBody(h frames.Head) Verdict {
	if c.state >= connClosingBroker {
		return Drop
	}
	ch := c.channel(h.Channel)
	if ch == nil {
		return Forward
	}
	if ch.state >= chanClosingBroker && !ch.halfway() {
		return Drop
	}
	ch.up.body(h.Size)
	return Forward
}

// halfway reports whether the broker has closed the channel in the middle of a content of the client's. The rest of it goes on: the
// broker drops it, but it takes anything else in its place, close-ok too, for an error of the whole connection.
func (ch *channel) halfway() bool { return ch.state == chanClosingBroker && ch.up.active() }

// ClientSent tells the router that a streamed body frame is through: the content may be complete, and what waited for that goes on.
func (c *Conn) ClientSent(id uint16) {
	if ch := c.channel(id); ch != nil && ch.dirty && !ch.up.active() {
		c.kick(ch)
	}
}

// ClientFrame decides on one whole frame from the client.
func (c *Conn) ClientFrame(f frames.Frame) Verdict {
	id := f.Channel()
	if f.Type() == frames.TypeMethod && !f.Method().Known() {
		c.suspect(f.Method())
	}
	if id == 0 {
		v := c.clientControl(f)
		c.suspectTune(f)
		return v
	}
	if c.state >= connClosingClient {
		if c.state == connClosingClient {
			return Forward
		}
		return Drop // until connection.close-ok
	}
	ch := c.channel(id)
	if ch == nil {
		if f.Method() == frames.ChannelOpenID { // some clients do not wait for connection.open-ok
			c.openChannel(id).outstanding = 1
		}
		return Forward // the broker refuses what is wrong
	}
	switch ch.state {
	case chanOpen:
		return c.clientOpen(ch, f)
	case chanClosingBroker:
		return c.clientClosingBroker(ch, f)
	case chanClosingProxy:
		return c.clientClosingProxy(ch, f)
	}
	return Forward
}

// clientOpen handles frames of an open channel: held behind others, or decided.
func (c *Conn) clientOpen(ch *channel, f frames.Frame) Verdict {
	if ch.op == nil && len(ch.held) == 0 {
		v := c.clientFrame(ch, f)
		if v == hold {
			c.hold(ch, f)
			return Drop
		}
		return v
	}
	switch f.Method() {
	case frames.BasicAckID, frames.BasicNackID, frames.BasicRejectID:
		if !ch.heldBack && (ch.op == nil || ch.op.method != frames.BasicGetID) {
			return c.clientFrame(ch, f)
		}
	case frames.ChannelCloseID:
		if !ch.heldWork && (ch.op == nil || !lasting(ch.op.method)) { // a publish or a declare is never lost: the close waits behind it
			return c.clientClose(ch)
		}
	}
	c.hold(ch, f)
	return Drop
}

// clientClose lets the client's channel.close through and gives up the running composition.
func (c *Conn) clientClose(ch *channel) Verdict {
	c.giveUp(ch)
	c.clearHeld(ch)
	ch.state = chanClosingClient
	c.leaveChannel(ch)
	if !ch.resuming { // else only behind this frame
		c.afterHold()
	}
	return Forward
}

func (c *Conn) clientClosingBroker(ch *channel, f frames.Frame) Verdict {
	if f.Type() == frames.TypeHeader && ch.up.wantHeader {
		ch.up.header(f)
		return Forward
	}
	switch f.Method() {
	case frames.ChannelCloseOkID:
		c.dropChannel(ch)
		return Forward
	case frames.ChannelCloseID:
		return Forward // both at once: the broker answers with close-ok
	}
	return Drop
}

func (c *Conn) clientClosingProxy(ch *channel, f frames.Frame) Verdict {
	if ch.clientOK {
		c.hold(ch, f) // a new life of the channel, once the broker has ended the old
		return Drop
	}
	switch f.Method() {
	case frames.ChannelCloseOkID:
		ch.clientOK = true
		c.closed(ch)
	case frames.ChannelCloseID:
		c.sendDown(ch, &frames.ChannelCloseOk{})
	}
	return Drop
}

// clientFrame decides on a frame of an open channel that nothing holds back.
func (c *Conn) clientFrame(ch *channel, f frames.Frame) Verdict {
	switch f.Type() {
	case frames.TypeHeader:
		return c.publishHeader(ch, f)
	case frames.TypeBody: // whole only when it was held
		ch.up.body(uint32(len(f) - frames.Overhead))
		return Forward
	case frames.TypeMethod:
	default:
		return Forward
	}
	if ch.up.active() {
		return Forward // a method inside a content: the broker closes the connection with 505
	}
	id := f.Method()
	switch id {
	case frames.BasicPublishID:
		return c.publish(ch, f)
	case frames.BasicAckID, frames.BasicNackID, frames.BasicRejectID:
		if ch.unacked.n > 0 {
			c.settleUnacked(ch, id, f.Args())
		}
		return Forward
	case frames.ChannelOpenID:
		return Forward
	case frames.ChannelCloseID:
		return c.clientClose(ch)
	}
	return c.clientRequest(ch, id, f)
}

// clientRequest handles the methods that are neither content nor acknowledgements.
func (c *Conn) clientRequest(ch *channel, id frames.MethodID, f frames.Frame) Verdict {
	v := Forward
	if !tables(id, f.Args()) {
		c.suspect(id)
	}
	switch id {
	case frames.BasicConsumeID:
		v = c.consume(ch, f)
	case frames.BasicCancelID:
		v = c.cancel(ch, f)
	case frames.BasicGetID:
		v = c.get(ch, f)
	case frames.BasicQosID:
		v = c.qos(ch, f)
	case frames.BasicRecoverAsyncID:
		v = c.recoverAsync(ch, f)
	case frames.QueueDeclareID:
		v = c.declareQueue(ch, f)
	case frames.QueuePurgeID:
		v = c.purge(ch, f)
	case frames.QueueBindID, frames.QueueUnbindID:
		v = c.bind(ch, f)
	case frames.QueueDeleteID:
		v = c.deleteQueue(ch, f)
	case frames.ExchangeDeclareID:
		v = c.declareExchange(ch, f)
	case frames.ExchangeDeleteID:
		v = c.deleteExchange(ch, f)
	case frames.ExchangeBindID:
		v = c.bindExchange(ch, f)
	case frames.TxSelectID:
		ch.tx = true
	case frames.ConfirmSelectID:
		ch.confirms.on = true
	case frames.TxCommitID:
		ch.commit()
	case frames.TxRollbackID:
		ch.rollback()
	}
	if v == Forward && answered(id, f.Args()) {
		ch.outstanding++
	}
	return v
}

// answered reports whether the broker answers the request: it is synchronous and its no-wait bit is not set.
func answered(id frames.MethodID, args []byte) bool {
	if !id.Synchronous() {
		return false
	}
	w, ok := noWait[id]
	if !ok {
		return true
	}
	at := w.skip
	for range w.strings {
		if at >= len(args) {
			return true
		}
		at += 1 + int(args[at])
	}
	return at >= len(args) || args[at]&w.bit == 0
}

// noWait says where a method carries its no-wait bit: behind skip octets (the reserved ticket) and that many short strings.
var noWait = map[frames.MethodID]struct {
	skip, strings int
	bit           byte
}{
	frames.ExchangeDeclareID: {2, 2, 1 << 4},
	frames.ExchangeDeleteID:  {2, 1, 1 << 1},
	frames.ExchangeBindID:    {2, 3, 1},
	frames.ExchangeUnbindID:  {2, 3, 1},
	frames.QueueDeclareID:    {2, 1, 1 << 4},
	frames.QueueBindID:       {2, 3, 1},
	frames.QueuePurgeID:      {2, 1, 1},
	frames.QueueDeleteID:     {2, 1, 1 << 2},
	frames.BasicConsumeID:    {2, 2, 1 << 3},
	frames.BasicCancelID:     {0, 1, 1},
	frames.ConfirmSelectID:   {0, 0, 1},
}
