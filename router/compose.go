package router

import (
	"errors"
	"fmt"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
)

// Several upstream methods, or a look at the topology, may stand behind one client method. An op is such a composition.
// It starts only when the channel is quiet (no request unanswered, no content half sent), so that whatever reply comes
// from the broker while it runs is a reply to it, and what it answers itself is in order. While it runs every later client
// frame of the channel is held, content and nowait included, except acknowledgements and channel.close.

// HeldLimit is how many octets a connection's channels may hold before the proxy stops reading from that client.
const HeldLimit = 1 << 20

// deadlineTicks is how many calls of Tick an op survives.
const deadlineTicks = 2

type op struct {
	id     uint64
	method frames.MethodID // what the client asked; 0 for the proxy's own
	want   int             // broker's replies to come
	age    int
	reply  func(f frames.Frame) Verdict // a synchronous reply of the broker's
	answer func(r Answer)

	exchange *shards.Exchange
	frame    frames.Frame // the client's frame, to be looked at again when its exchange turns out to be missing; nil: never
	undo     func()       // takes back what begin has done, before that
	optional bool         // without an answer the client's frame passes
}

// begin starts a composition for the client's method. The caller returns its verdict.
func (c *Conn) begin(ch *channel, f frames.Frame, run func(o *op)) Verdict {
	if !ch.idle() {
		return hold
	}
	c.start(ch, f.Method(), func(o *op) {
		o.frame = append(frames.Frame(nil), f...)
		run(o)
	})
	return Drop
}

// idle is quiet but for the held frames: replay runs with some still waiting.
func (ch *channel) idle() bool {
	return ch.state == chanOpen && ch.op == nil && ch.outstanding == 0 && !ch.up.active()
}

func (c *Conn) start(ch *channel, m frames.MethodID, run func(o *op)) {
	c.opSeq++
	ch.op = &op{id: c.opSeq, method: m}
	c.ops++
	run(ch.op)
}

// endOp ends the running op without looking at what is held.
func (c *Conn) endOp(ch *channel) {
	if ch.op != nil {
		ch.op = nil
		c.ops--
	}
}

// giveUp ends the running op; the replies it still waits for are dropped when they come.
func (c *Conn) giveUp(ch *channel) {
	if ch.op != nil {
		ch.swallow += ch.op.want
		c.endOp(ch)
	}
}

// giveUpAll ends all running ops: nothing may be sent behind a connection.close.
func (c *Conn) giveUpAll() {
	for _, ch := range c.chans {
		if ch != nil {
			c.giveUp(ch)
		}
	}
}

// lasting reports whether a request changes something that outlives its channel. Declaring a pseudo-queue does not: there is no
// such queue.
func lasting(id frames.MethodID) bool {
	switch id {
	case frames.QueueDeclareID:
		return false
	case frames.TxCommitID:
		return true
	}
	return id.Class() == frames.ExchangeDeclareID.Class() || id.Class() == frames.QueueDeclareID.Class()
}

// finish ends the running op and goes on with what was held.
func (c *Conn) finish(ch *channel) {
	c.endOp(ch)
	if !ch.resuming { // else the loop that started it goes on by itself
		c.resume(ch)
	}
}

// redo asks, and then looks at the same client frame again: for frames that need a fact that is not known yet.
func (c *Conn) redo(ch *channel, f frames.Frame, a Ask) Verdict {
	if !ch.idle() {
		return hold
	}
	c.start(ch, f.Method(), func(o *op) {
		o.answer = func(Answer) { c.again(ch, a.Exchange) }
		c.ask(ch, o, a)
	})
	return hold
}

// resolve is redo for a name that may be an ordinary queue's: when only a pattern matches it, it passes as one if the topology
// cannot be asked.
func (c *Conn) resolve(ch *channel, f frames.Frame, x *shards.Exchange) Verdict {
	return c.lookUp(ch, f, Ask{Kind: AskResolve, Exchange: x})
}

func (c *Conn) lookUp(ch *channel, f frames.Frame, a Ask) Verdict {
	v := c.redo(ch, f, a)
	if _, literal := a.Exchange.Policy().Literal(); !literal && ch.op != nil {
		ch.op.optional = true
	}
	return v
}

// again ends the op and decides on its frame, which is held, with what is known of the exchange now.
func (c *Conn) again(ch *channel, x *shards.Exchange) {
	ch.asked = x
	c.finish(ch)
	ch.asked = nil
}

// lost goes back to the client's frame when the exchange it concerns turns out not to exist any more.
func (c *Conn) lost(ch *channel, x *shards.Exchange) {
	o := ch.op
	if o.undo != nil {
		o.undo()
	}
	rest := ch.held
	c.clearHeld(ch)
	c.hold(ch, o.frame)
	for f := range wholeFrames(rest) {
		c.hold(ch, f)
	}
	c.again(ch, x)
}

// stale reports whether an exchange that was missing has to be looked at again before the frame at hand is decided: others may have
// declared it. The topology remembers for a while that it was missing, so asking is cheap.
func (c *Conn) stale(ch *channel, x *shards.Exchange) bool {
	return x.State().Mode == shards.Missing && ch.asked != x
}

func (c *Conn) ask(ch *channel, o *op, a Ask) {
	a.Channel, a.Op = ch.id, o.id
	o.exchange = a.Exchange
	c.asks = append(c.asks, a)
}

// hold keeps a client frame behind those that wait already.
func (c *Conn) hold(ch *channel, f frames.Frame) {
	if len(ch.held) == 0 {
		c.holding++
	}
	ch.held = append(ch.held, f...)
	c.held += len(f)
	id := f.Method()
	ch.heldWork = ch.heldWork || id == frames.BasicPublishID || id == frames.QueueDeclareID || lasting(id)
	ch.heldBack = ch.heldBack || id == frames.BasicGetID || id.Class() == frames.TxSelectID.Class()
	ch.heldClose = ch.heldClose || id == frames.ChannelCloseID
}

func (c *Conn) clearHeld(ch *channel) {
	ch.shut = 0
	if len(ch.held) > 0 {
		c.holding--
		c.held -= len(ch.held)
		ch.held, ch.heldWork, ch.heldBack, ch.heldClose = nil, false, false, false
	}
}

// resume decides on the held frames in order, until one starts a composition or has to wait for the broker.
func (c *Conn) resume(ch *channel) {
	n := 0
	ch.resuming = true
	held := ch.held
	for ch.op == nil && ch.shut == 0 && n < len(ch.held) && c.channel(ch.id) == ch {
		f, err := frames.Next(held[n:], 0)
		if err != nil {
			break
		}
		v := c.clientFrame(ch, f)
		if v == hold {
			break
		}
		if v == Forward {
			c.up = append(c.up, f...)
		}
		n += len(f)
		if ch.state == chanClosingClient { // that was its close: what is behind it is the broker's to refuse
			c.up = append(c.up, held[n:]...)
			break
		}
	}
	ch.resuming = false
	if n > 0 && len(ch.held) >= n {
		rest := ch.held[n:]
		c.held -= n
		if len(rest) == 0 {
			ch.held, ch.heldWork, ch.heldBack, ch.heldClose = nil, false, false, false
			c.holding--
		} else {
			ch.held = append(ch.held[:0], rest...)
		}
	}
	c.afterHold()
	c.kick(ch)
}

// afterHold sends the client's connection.close once nothing is held in front of it.
func (c *Conn) afterHold() {
	if c.closing != nil && c.state == connOpen && !c.Holding() {
		c.up = append(c.up, c.closing...)
		c.closing = nil
		c.state = connClosingClient
		c.giveUpAll()
	}
}

// settle is called when something a waiting frame or move may depend on has changed on the channel.
func (c *Conn) settle(ch *channel) {
	if ch.op != nil || ch.outstanding > 0 {
		return
	}
	if len(ch.held) > 0 {
		c.resume(ch)
		return
	}
	c.kick(ch)
}

// Tick ages the running compositions; one that has seen deadlineTicks of them is given up: its channel is closed with 541.
// While the broker has blocked the connection nothing ages, for it answers nothing then.
func (c *Conn) Tick() {
	if c.blocked {
		return
	}
	for _, ch := range c.chans {
		if ch == nil || ch.op == nil {
			continue
		}
		what := "to move consumers"
		if m := ch.op.method; m != 0 {
			what = "for " + m.String()
		} else if len(ch.held) == 0 || ch.shut != 0 {
			continue // a move may take its time as long as the client waits for nothing
		}
		if ch.op.age++; ch.op.age > deadlineTicks {
			c.raise(ch, &frames.Exception{Code: frames.InternalError, Method: ch.op.method,
				Text: "the broker did not answer in time what shardmq asked " + what})
		}
	}
}

// exceptionOf turns a topology error into the channel exception the client gets: the broker's own code and text where
// there are any.
func exceptionOf(err error, m frames.MethodID) *frames.Exception {
	var be *shards.BrokerError
	if errors.As(err, &be) && be.Code != 0 {
		e := &frames.Exception{Code: frames.Code(be.Code), Method: m, Remote: true}
		e.Text = trimName(be.Text, e.Code)
		if be.Connecting {
			e.Text = "shardmq's control connection: " + e.Text
		}
		if e.Code.Hard() {
			// The broker closed the control connection; the client's own is sound.
			e.Text = fmt.Sprintf("shardmq's control connection: %s - %s", e.Code.Name(), e.Text)
			e.Code = frames.InternalError
		}
		return e
	}
	return &frames.Exception{Code: frames.InternalError, Method: m, Text: "shardmq: " + err.Error()}
}

// trimName removes the leading name of the code, which Exception adds again.
func trimName(text string, code frames.Code) string {
	prefix := code.Name() + " - "
	if len(text) >= len(prefix) && text[:len(prefix)] == prefix {
		return text[len(prefix):]
	}
	return text
}
