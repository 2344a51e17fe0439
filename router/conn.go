// Package router decides what happens to each frame of one client connection.
//
// It is pure: no sockets, goroutines, clocks or logs. The proxy feeds it frames from both
// sides and answers to its questions; it answers with a verdict per frame, bytes of its own for
// either side, and further questions. The same input gives the same output, so that tests are
// transcripts.
//
//	client frames ─▶ ClientFrame ─┐                        ┌─▶ verdict: Forward or Drop
//	broker frames ─▶ BrokerFrame ─┼─▶ channel state, op  ──┼─▶ bytes to the broker, to the client
//	answers       ─▶ Answer      ─┘                        └─▶ questions (Ask)
//
// A Conn is not safe for concurrent use: the session's mutex guards it.
package router

import (
	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
)

// Verdict says what becomes of a frame.
type Verdict uint8

const (
	// Forward: the frame goes on as the octets that came in.
	Forward Verdict = iota
	// Drop: nothing of the frame goes on. The router has kept, replaced or answered it; a
	// replacement stands in the bytes for that side.
	Drop
	// hold is internal: the channel must be quiet before this frame can be dealt with.
	hold
)

// Directory finds what a connection to a virtual host needs of the topology. Lookup must not allocate for
// a name it has seen; it returns nil for names the proxy has no business with.
type Directory interface {
	Lookup(name []byte) *shards.Route
}

// Options are the facts a connection starts with.
type Options struct {
	// Open returns the directory of a virtual host; nil when no policy concerns it.
	Open func(vhost string) Directory
	// TagPrefix starts every consumer tag of the proxy's own; random per process.
	TagPrefix string
	// ServerTag makes the random part of a consumer tag when the client leaves the choice to the server.
	ServerTag func() string
	// ClientAddress and Product are added to the client-properties the broker sees.
	ClientAddress, Product string
}

// connState is where a connection stands. Only the transitions of this table exist:
//
//	handshake ──open-ok──▶ open ──close from client──▶ closingClient ──close-ok──▶ closed
//	    │                   │ └──close from broker──▶ closingBroker ──close-ok──▶ closed
//	    └────(the same)─────┘ └──RaiseConnection────▶ closingProxy  ──close-ok──▶ closed
type connState uint8

const (
	connHandshake connState = iota
	connOpen
	connClosingClient
	connClosingBroker
	connClosingProxy
	connClosed
)

// Conn is the router's view of one client connection and its upstream connection.
type Conn struct {
	o     Options
	state connState
	vhost string
	dir   Directory

	certificate Certificate
	started     bool // the broker has sent connection.start
	perConsumer bool // the broker has no limits for whole channels

	limits   limits
	clientCN bool              // client announced consumer_cancel_notify
	clientBl bool              // client announced connection.blocked
	authFail bool              // client announced authentication_failure_close
	tuned    bool              // the broker has sent connection.tune
	blocked  bool              // the broker has blocked this connection
	raised   *frames.Exception // what RaiseConnection was called with
	fault    *frames.Exception // what the broker may hang up for; see suspect
	refused  *frames.Exception // what the client is to hear once the broker has closed; see Refuse

	chans []*channel // by channel number; nil where not open

	up, down []byte // own octets for the broker, for the client, not yet taken
	asks     []Ask
	opSeq    uint64
	ops      int    // running compositions
	holding  int    // channels that hold client frames
	held     int    // octets held, all channels
	closing  []byte // the client's connection.close, kept while channels hold frames

	lastName  []byte // the exchange of the last publish, and what it resolved to
	lastRoute *shards.Route
	downName  []byte // the same for the last delivery
	downRoute *shards.Route
	rotating  int // consumers that have fewer attachments than shards
	lenders   int // consumers that may help out on others' shards
	looks     map[*shards.Exchange]*looked
	answers   uint64 // methods of the broker's on channels, deliveries left out
	typeLost  bool   // reported
	cut       bool   // the connection to the broker was lost
	scratch   []byte // for the text of a number that is hashed
}

// New returns the state of a fresh connection, before the protocol header has been answered.
func New(o Options) *Conn { return &Conn{o: o} }

// Vhost is the virtual host of the client's connection.open, "" before it.
func (c *Conn) Vhost() string { return c.vhost }

// Established reports whether connection.open-ok has passed and nobody has begun to close.
func (c *Conn) Established() bool { return c.state == connOpen }

// Tuned reports whether the broker has accepted the client's credentials (sent connection.tune).
func (c *Conn) Tuned() bool { return c.tuned }

// Closed reports whether the closing handshake with the client is complete.
func (c *Conn) Closed() bool { return c.state == connClosed }

// Closing reports whether any side has begun to close the connection.
func (c *Conn) Closing() bool { return c.state >= connClosingClient }

// Raised is the exception RaiseConnection has closed the connection with, nil for none.
func (c *Conn) Raised() *frames.Exception { return c.raised }

// OwesCloseOk reports whether the client has been sent connection.close and has not answered it yet.
func (c *Conn) OwesCloseOk() bool { return c.state == connClosingBroker || c.state == connClosingProxy }

// OwedCloseOk reports whether the client has begun to close the connection and has not been answered yet.
func (c *Conn) OwedCloseOk() bool { return c.state == connClosingClient || c.closing != nil }

// Ops is the number of running compositions; while it is above 0 the owner calls Tick at intervals.
func (c *Conn) Ops() int { return c.ops }

// HeldBytes is how much of the client's input waits for compositions.
func (c *Conn) HeldBytes() int { return c.held }

// Holding reports whether closing upstream now would lose some of what the client has sent: a channel holds frames, or a
// composition that changes something is not complete.
func (c *Conn) Holding() bool {
	if c.holding > 0 {
		return true
	}
	if c.ops > 0 {
		for _, ch := range c.chans {
			if ch != nil && ch.op != nil && lasting(ch.op.method) {
				return true
			}
		}
	}
	return false
}

// Stuck reports whether all that is held waits for the broker to answer what it was asked before, and for nothing that the proxy does and that
// has a deadline.
func (c *Conn) Stuck() bool {
	for _, ch := range c.chans {
		if ch != nil && (ch.op != nil && ch.op.method != 0 || ch.shut != 0) {
			return false
		}
	}
	return c.holding > 0 && !c.blocked
}

// PendingUp and PendingDown tell how many octets of the router's own wait to be taken.
func (c *Conn) PendingUp() int   { return len(c.up) }
func (c *Conn) PendingDown() int { return len(c.down) }

// TakeUp hands over the octets for the broker and goes on with spare (emptied) as the next buffer.
func (c *Conn) TakeUp(spare []byte) []byte {
	b := c.up
	c.up = spare[:0]
	return b
}

// TakeDown is TakeUp for the client's side.
func (c *Conn) TakeDown(spare []byte) []byte {
	b := c.down
	c.down = spare[:0]
	return b
}

// Answers is how many methods, other than deliveries, the broker has sent on channels.
func (c *Conn) Answers() uint64 { return c.answers }

// TakeAsks hands over the questions asked since the last call.
func (c *Conn) TakeAsks() []Ask {
	a := c.asks
	c.asks = nil
	return a
}

// Beat sends the broker a sign of life in the client's stead. The owner calls it now and then while it does not read the client's.
func (c *Conn) Beat() {
	if c.state == connOpen && len(c.up) == 0 {
		c.up = frames.AppendFrame(c.up, frames.TypeHeartbeat, 0, nil)
	}
}

func (c *Conn) channel(id uint16) *channel {
	if int(id) < len(c.chans) {
		return c.chans[id]
	}
	return nil
}

// sendUp appends a method frame for the broker.
func (c *Conn) sendUp(ch *channel, m frames.Method) {
	c.up = frames.AppendMethod(c.up, ch.id, m)
}

// sendDown appends a method frame for the client, behind the content that is on its way on that channel if there is one.
func (c *Conn) sendDown(ch *channel, m frames.Method) {
	if ch.down.active() || len(ch.deferred) > 0 {
		ch.deferred = frames.AppendMethod(ch.deferred, ch.id, m)
		return
	}
	c.down = frames.AppendMethod(c.down, ch.id, m)
}

// RaiseConnection closes the connection towards both sides with the exception; no-op when a close is under way.
func (c *Conn) RaiseConnection(e *frames.Exception) {
	if c.Closing() {
		return
	}
	if c.refused != nil {
		e = c.refused
	}
	c.up = frames.AppendMethod(c.up, 0, &frames.ConnectionClose{ReplyCode: uint16(frames.ReplySuccess), ReplyText: closedBy})
	c.tellClose(e)
}

// closedBy is the text of a connection.close of the proxy's own to the broker.
const closedBy = "closed by shardmq"

// tellClose closes the connection towards the client.
func (c *Conn) tellClose(e *frames.Exception) {
	c.state = connClosingProxy
	c.raised = e
	class, method := e.Method.Class(), e.Method.Method()
	c.down = frames.AppendMethod(c.down, 0, &frames.ConnectionClose{
		ReplyCode: uint16(e.Code), ReplyText: e.ReplyText(), ClassID: class, MethodID: method})
	c.answerClose()
	for _, ch := range c.chans {
		if ch != nil {
			c.leaveChannel(ch)
			c.endOp(ch)
			c.clearHeld(ch)
		}
	}
}

// answerClose answers the client's connection.close if that still waits for what is held: it will not reach the broker any more.
func (c *Conn) answerClose() {
	if c.closing != nil {
		c.closing = nil
		if c.refused != nil {
			return // it was not the client's
		}
		c.down = frames.AppendMethod(c.down, 0, &frames.ConnectionCloseOk{})
	}
}

// UpstreamEnded says that nothing more comes from the broker: it takes back all that has not been acknowledged. The owner calls it as soon as it
// knows, whatever it still has to tell the client.
func (c *Conn) UpstreamEnded() {
	c.cut = true
	c.leaveAll()
	c.RefuseNow()
}

// Shutdown forgets all channels and gives their consumers' shards back; the owner calls it when the connection ends.
func (c *Conn) Shutdown() {
	c.state = connClosed
	c.UpstreamEnded()
}

func (c *Conn) leaveAll() {
	for _, ch := range c.chans {
		if ch != nil {
			c.dropChannel(ch)
		}
	}
}
