package router

import (
	"iter"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
)

// chanState is where a channel stands.
//
//	open ──close from client──▶ closingClient ──broker's close-ok──▶ gone
//	  ├────close from broker──▶ closingBroker ──client's close-ok──▶ gone   (client frames dropped)
//	  └────raise──────────────▶ closingProxy  ──both close-oks─────▶ gone   (frames of both dropped)
type chanState uint8

const (
	chanOpen chanState = iota
	chanClosingClient
	chanClosingBroker
	chanClosingProxy
)

// content is the progress of one message (method, header, bodies) in one direction of a channel.
type content struct {
	wantHeader bool
	left       uint64 // body octets to come
}

func (m *content) active() bool { return m.wantHeader || m.left > 0 }

// header takes the body size from a content header frame and reports whether the message is complete already.
func (m *content) header(f frames.Frame) {
	m.wantHeader = false
	m.left, _ = frames.ContentBodySize(f.Payload())
}

func (m *content) body(size uint32) { m.left -= min(m.left, uint64(size)) }

// channel is the state of one channel. Fields that only pseudo-queues need stay nil until the first of them.
type channel struct {
	id    uint16
	state chanState

	up, down    content
	emptied     bool // a shard key was added to the message under way to the client
	outstanding int  // client's requests the broker has not answered
	swallow     int  // replies to requests of our own whose composition was given up
	tx          bool // tx.select seen

	// The publish whose header is to come: shard keys to add, and where it still has to be placed once the header is there.
	keys    []string
	hashed  []placing // exchanges whose hash needs the header
	pending []byte    // routing key, for hashed

	op        *op
	held      []byte // whole client frames that wait, in order
	shut      uint64 // the question that the first held frame, a publish that pauses, waits for; 0: none
	resuming  bool   // held frames are being decided on
	heldWork  bool   // among them is one whose effect outlives the channel
	heldBack  bool   // a get or tx method is among them: acknowledgements do not overtake it
	heldClose bool   // the client's channel.close is among them
	fences    fencing
	confirms  confirms
	native    *shards.Exchange // the broker's own x-modulus-hash last published to
	asked     *shards.Exchange // just looked at, for the frame being decided on
	unsure    *shards.Exchange // the same, but nobody could tell what it is
	deferred  []byte           // own frames for the client, behind the content under way

	translated *frames.ExchangeDeclare // the client's, while the broker decides on our version of it

	last      *shards.Exchange // the last declared queue, when it is a pseudo-queue
	declared  bool             // a pseudo-queue, at some time
	getFrom   int              // where the next basic.get starts
	windows   windows          // basic.qos of the client
	consumers map[string]*consumer
	tags      map[string]struct{} // consumer tags on ordinary queues
	slots     []*attachment       // by number in the attachment's tag
	unacked   ring
	txAcks    []frames.Ack
	dirty     bool // consumers' attachments differ from their targets

	clientOK, brokerOK bool // closingProxy: close-ok seen from
	finishing          bool // closingProxy: a content to the client was under way and is let through
}

func (ch *channel) quiet() bool {
	return ch.state == chanOpen && ch.op == nil && (len(ch.held) == 0 || ch.shut != 0) && ch.outstanding == 0 && !ch.up.active()
}

func (c *Conn) openChannel(id uint16) *channel {
	for int(id) >= len(c.chans) {
		c.chans = append(c.chans, nil)
	}
	ch := &channel{id: id}
	c.chans[id] = ch
	return ch
}

// dropChannel forgets the channel; its consumers leave their groups.
func (c *Conn) dropChannel(ch *channel) {
	c.unfence(ch)
	c.forgetConsumers(ch)
	c.endOp(ch)
	c.clearHeld(ch)
	c.chans[ch.id] = nil
	c.afterHold()
}

// raise closes one channel towards both sides. A hard code closes the connection.
func (c *Conn) raise(ch *channel, e *frames.Exception) {
	if e.Code.Hard() && e.Code != frames.InternalError {
		c.RaiseConnection(e)
		return
	}
	if ch.state != chanOpen || c.Closing() {
		return
	}
	// A content of the client's cannot be under way upstream: a composition starts between contents and holds what follows.
	ch.state = chanClosingProxy
	ch.finishing = ch.down.active()
	c.sendDown(ch, &frames.ChannelClose{ReplyCode: uint16(e.Code), ReplyText: e.ReplyText(), ClassID: e.Method.Class(), MethodID: e.Method.Method()})
	c.sendUp(ch, &frames.ChannelClose{ReplyCode: uint16(frames.ReplySuccess), ReplyText: "closed by shardmq"})
	c.answerHeldClose(ch)
	c.leaveChannel(ch)
	c.endOp(ch)
	c.clearHeld(ch)
	c.afterHold()
}

// answerHeldClose answers the client's channel.close if that is held: the broker or the proxy has closed the channel, and it goes no further.
func (c *Conn) answerHeldClose(ch *channel) {
	if ch.heldClose {
		c.sendDown(ch, &frames.ChannelCloseOk{})
	}
}

// closed ends a closingProxy channel once both sides have said close-ok, and deals with what the client sent meanwhile
// (it may open the channel anew at once).
func (c *Conn) closed(ch *channel) {
	if !ch.clientOK || !ch.brokerOK {
		return
	}
	held := ch.held
	ch.held = nil
	c.held -= len(held)
	c.dropChannel(ch)
	c.replay(held)
	if len(held) > 0 { // only now: a connection.close waits behind them
		c.holding--
		c.afterHold()
	}
}

// replay feeds held client frames to the router again.
func (c *Conn) replay(b []byte) {
	for f := range wholeFrames(b) {
		if c.ClientFrame(f) == Forward {
			c.up = append(c.up, f...)
		}
	}
}

// wholeFrames walks frames that were whole when they were held.
func wholeFrames(b []byte) iter.Seq[frames.Frame] {
	return func(yield func(frames.Frame) bool) {
		for len(b) > 0 {
			f, err := frames.Next(b, 0)
			if err != nil || !yield(f) {
				return
			}
			b = b[len(f):]
		}
	}
}
