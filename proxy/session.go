package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
)

// How long a side may take to end what the other side or the proxy has ended.
const (
	closeOkWait = 5 * time.Second
	lingerWait  = 2 * time.Second

	// heldWait is longer than RabbitMQ takes to answer requests about the queues of a node that is down (70 s). See patience.
	heldWait = 2 * time.Minute
)

// handshakeFrameMax bounds the client's frames until connection.tune-ok, in octets.
const handshakeFrameMax = 128 << 10

// Causes of a session's end that are not errors of a socket.
var (
	errDrained   = errors.New("drain time is over")
	errHandshake = errors.New("handshake not complete in time")
	errGoing     = errors.New("proxy is shutting down")
)

// session is one client connection and its upstream connection.
//
// Two relays, one per direction, read one socket and write the other, each in a goroutine that ends while it is parked. mu guards the router and the outlets'
// tokens; it is never held while reading or writing a socket, but for the parker's heartbeats, which do not wait, nor while a topology is asked.
// The session closes both sockets, once both relays have ended.
type session struct {
	srv     *server
	log     *zap.Logger
	started time.Time
	id      uint64
	from    Listener
	client  net.Conn // guarded by mu until the relays run

	ctx     context.Context // ends with the session; its cause is why
	end     context.CancelCauseFunc
	helpers sync.WaitGroup // flushes, questions, timers
	over    func()         // called once the session has ended; nil: nobody waits for that

	mu       sync.Mutex
	changed  *sync.Cond // on mu: a token is free, something held has been let go, a side has ended
	rt       *router.Conn
	broker   net.Conn // nil until dialled
	in       *reader  // of broker; the broker's relay owns it
	node     *node
	up, down outlet
	waiting  bool // the client's relay waits for held input
	ticking  bool
	turning  bool
	lending  bool
	calm     bool // the last look has found no message that waits
	gone     struct{ client, broker bool }
	fences   map[uint64]*fenceWait
	origin   origin
	tls      *tls.ConnectionState // of the client's connection; nil: none

	relays    atomic.Pointer[[2]*relay] // the client's and the broker's; nil until they run
	left      int                       // of them, those that have not ended
	handshake *time.Timer

	life  struct{ client, broker pulse }
	beats *time.Timer // nil: no heartbeats agreed on

	endCause atomic.Pointer[error] // why the session ends
	silent   bool                  // no line in the log
	excess   bool                  // beyond the limit: the client is turned away
}

func newSession(srv *server, from Listener, client net.Conn, id uint64) *session {
	s := &session{srv: srv, id: id, from: from, client: client, started: time.Now(),
		origin: origin{client: client.RemoteAddr(), server: client.LocalAddr()},
		log:    srv.log.WithLazy(zap.Uint64("conn", id), zap.Stringer("client", client.RemoteAddr()))}
	s.changed = sync.NewCond(&s.mu)
	s.ctx, s.end = context.WithCancelCause(context.Background())
	s.rt = router.New(router.Options{Open: srv.open, TagPrefix: srv.tagPrefix, ServerTag: serverTag,
		ClientAddress: client.RemoteAddr().String(), Product: "shardmq " + srv.o.Version})
	s.down = outlet{conn: client, take: s.rt.TakeDown, size: s.rt.PendingDown}
	return s
}

// serve begins the session and runs it to its end, which comes later if its relays are parked.
func (s *session) serve() {
	if s.begin() {
		s.converse()
	} else {
		s.finish()
	}
}

func (s *session) begin() bool {
	defer s.guard()
	return s.greet()
}

// converse relays in both directions, until the client's relay ends or is parked.
func (s *session) converse() {
	_ = s.client.SetDeadline(time.Time{})
	client, broker := s.clientRelay(), s.brokerRelay()
	s.mu.Lock()
	s.handshake = time.AfterFunc(s.srv.o.HandshakeTimeout, s.handshakeOver)
	s.left = 2
	s.relays.Store(&[2]*relay{client, broker})
	s.mu.Unlock()
	s.srv.crew.start(func() { s.carry(broker) })
	s.carry(client)
}

// carry runs a relay until it ends or is parked. The last one that ends finishes the session.
func (s *session) carry(d *relay) {
	if !s.ends(d) {
		return
	}
	s.mu.Lock()
	s.left--
	last := s.left == 0
	s.mu.Unlock()
	if last {
		s.handshake.Stop()
		s.finish()
	}
}

// ends runs a relay and reports whether it has ended.
func (s *session) ends(d *relay) (ended bool) {
	ended = true // by a panic too
	defer s.guard()
	err := d.run()
	if err == errParked { //nolint:errorlint // not wrapped
		return false
	}
	if d.out == &s.up {
		s.clientEnded(d, err)
	} else {
		s.brokerEnded(d, err)
	}
	return true
}

// help runs fn in a goroutine that finish waits for.
func (s *session) help(fn func()) {
	s.helpers.Go(func() {
		defer s.guard()
		fn()
	})
}

// guard ends the session, and nothing else, when its goroutine panics. mu must have been given back: whoever calls the router
// defers that.
func (s *session) guard() {
	if p := recover(); p != nil {
		s.log.Error("panic in session", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
		s.cut(errors.New("panic in session"))
	}
}

func (s *session) clientRelay() *relay {
	return &relay{s: s, in: newReader(s.client), out: &s.up, from: &s.life.client,
		frameMax: s.clientFrameMax, pieceMax: func() uint32 { return 0 },
		messages: s.clientRun, frame: s.rt.ClientFrame, body: s.rt.ClientBody, sent: s.rt.ClientSent, holds: s.rt.ClientHolds}
}

func (s *session) brokerRelay() *relay {
	return &relay{s: s, in: s.in, out: &s.down, from: &s.life.broker,
		frameMax: func() uint32 { return 0 }, pieceMax: s.rt.ClientFrameMax,
		messages: s.rt.BrokerRun, frame: s.brokerFrame, body: s.rt.BrokerBody, sent: s.rt.BrokerSent}
}

// clientRun is the router's ClientRun.
func (s *session) clientRun(b []byte, out *router.Parts, at int) int {
	return s.rt.ClientRun(b, s.clientFrameMax(), out, at)
}

// clientFrameMax is the largest frame the client may send, 0 for any.
func (s *session) clientFrameMax() uint32 {
	most := s.rt.ClientFrameMax()
	switch {
	case most > 0:
		return most
	case !s.rt.Established() && !s.rt.Closing():
		return handshakeFrameMax // nobody has logged in yet
	}
	return 0
}

// brokerFrame is the router's BrokerFrame; a connection.close is why the session ends.
func (s *session) brokerFrame(f frames.Frame) router.Verdict {
	if f.Channel() == 0 && f.Method() == frames.ConnectionCloseID && !s.rt.Closing() {
		var m frames.ConnectionClose
		if m.Decode(f.Args()) == nil {
			var err error = fmt.Errorf("upstream closed: %d %s", m.ReplyCode, m.ReplyText)
			s.endCause.Store(&err) // rather than a write that has failed just before
		}
	}
	return s.rt.BrokerFrame(f)
}

// after follows up on what the router has decided: questions, octets for the other socket, timers. mine is the outlet whose
// token the caller holds, nil for none. mu is held.
func (s *session) after(mine *outlet) {
	s.runAsks(s.rt.TakeAsks())
	if s.ctx.Err() != nil {
		return
	}
	if mine != &s.up && s.broker != nil {
		s.flush(&s.up)
	}
	if mine != &s.down {
		s.flush(&s.down)
	}
	s.keepTime()
	if s.waiting {
		s.changed.Broadcast()
	}
}

// breathe keeps a client from sending more than the proxy is ready to hold for it, or from asking faster than it reads answers.
func (s *session) breathe(d *relay) error {
	if d.out != &s.up || d.left > 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.waiting = false }()
	var p patience
	for (s.rt.HeldBytes() > router.HeldLimit || s.rt.PendingDown() > router.HeldLimit) && !s.gone.broker && s.ctx.Err() == nil {
		if s.outOf(&p) { // for all that can be seen without reading, the client has gone long ago
			return s.unanswered()
		}
		s.waiting = true
		s.keepTime()
		s.changed.Wait()
	}
	return nil
}

// goAway tells the client that the proxy stops.
func (s *session) goAway() {
	defer s.guard()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broker == nil || !s.rt.Tuned() || s.rt.Closed() {
		s.cutLocked(errGoing)
		return
	}
	s.cause(errGoing)
	s.rt.RaiseConnection(&frames.Exception{Code: frames.ConnectionForced, Text: "shardmq is shutting down"})
	s.after(nil)
}

func (s *session) handshakeOver() {
	defer s.guard()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.rt.Established() && !s.rt.Closing() {
		s.cutLocked(errHandshake)
	}
}
