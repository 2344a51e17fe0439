package proxy

import (
	"context"
	"errors"
	"io"
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
)

// Causes of a session's end that are not errors of a socket.
var (
	errDrained   = errors.New("drain time is over")
	errHandshake = errors.New("handshake not complete in time")
)

// session is one client connection and its upstream connection.
//
// Two goroutines relay, one per direction, each reading one socket and writing the other. mu guards the router and the outlets'
// tokens; it is never held while reading or writing a socket, nor while a topology is asked. The session closes both sockets, once
// both relays have ended.
type session struct {
	srv     *server
	log     *zap.Logger
	started time.Time
	client  net.Conn

	ctx     context.Context // ends with the session; its cause is why
	end     context.CancelCauseFunc
	helpers sync.WaitGroup // flushes, questions, timers

	mu       sync.Mutex
	changed  *sync.Cond // on mu: a token is free, something held has been let go, a side has ended
	rt       *router.Conn
	broker   net.Conn // nil until dialled
	node     *node
	up, down outlet
	waiting  bool // the client's relay waits for held input
	ticking  bool
	turning  bool
	gone     struct{ client, broker bool }

	endCause atomic.Pointer[error] // why the session ends
	silent   bool                  // no line in the log

	head [8]byte // scratch of the broker's relay
}

func newSession(srv *server, client net.Conn, id uint64) *session {
	s := &session{srv: srv, client: client, started: time.Now(),
		log: srv.log.With(zap.Uint64("conn", id), zap.Stringer("client", client.RemoteAddr()))}
	s.changed = sync.NewCond(&s.mu)
	s.ctx, s.end = context.WithCancelCause(context.Background())
	s.rt = router.New(router.Options{Open: srv.open, TagPrefix: srv.tagPrefix, ServerTag: serverTag,
		ClientAddress: client.RemoteAddr().String(), Product: "shardmq " + srv.o.Version})
	s.down = outlet{conn: client, take: s.rt.TakeDown, size: s.rt.PendingDown}
	return s
}

// serve runs the session to its end.
func (s *session) serve() {
	defer s.finish()
	defer s.guard()
	if !s.greet() {
		return
	}
	timer := time.AfterFunc(s.srv.o.HandshakeTimeout, s.handshakeOver)
	defer timer.Stop()
	_ = s.client.SetDeadline(time.Time{})
	var relays sync.WaitGroup
	relays.Go(func() {
		defer s.guard()
		r := s.clientRelay()
		s.clientEnded(r, r.run())
	})
	relays.Go(func() {
		defer s.guard()
		r := s.brokerRelay()
		s.brokerEnded(r, r.run())
	})
	relays.Wait()
}

// guard ends the session, and nothing else, when its goroutine panics.
func (s *session) guard() {
	if p := recover(); p != nil {
		s.log.Error("panic in session", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
		s.cut(errors.New("panic in session"))
	}
}

func (s *session) clientRelay() *relay {
	return &relay{s: s, in: newReader(s.client), out: &s.up,
		frameMax: s.rt.ClientFrameMax, pieceMax: func() uint32 { return 0 },
		frame: s.rt.ClientFrame, body: s.rt.ClientBody, sent: s.rt.ClientSent, holds: s.rt.ClientHolds}
}

func (s *session) brokerRelay() *relay {
	return &relay{s: s, in: newReader(s.broker), out: &s.down,
		frameMax: func() uint32 { return 0 }, pieceMax: s.rt.ClientFrameMax,
		frame: s.rt.BrokerFrame, body: s.rt.BrokerBody, sent: s.rt.BrokerSent}
}

// after follows up on what the router has decided: questions, octets for the other socket, timers. mine is the outlet whose
// token the caller holds, nil for none. mu is held.
func (s *session) after(mine *outlet) {
	s.runAsks(s.rt.TakeAsks())
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
	for (s.rt.HeldBytes() > router.HeldLimit || s.rt.PendingDown() > router.HeldLimit) && !s.gone.broker && s.ctx.Err() == nil {
		s.waiting = true
		s.changed.Wait()
	}
	s.waiting = false
	return nil
}

// malformed answers frames that make no sense: the client gets the reply code the specification names. The stream cannot be read any further.
// mu is held.
func (s *session) malformed(d *relay, err error) error {
	var e *frames.Exception
	if !errors.As(err, &e) {
		return err
	}
	if d.out == &s.down {
		err = errors.Join(errors.New("broker sent a malformed frame"), err)
		e = &frames.Exception{Code: frames.InternalError, Text: "the broker sent a malformed frame"}
	}
	if d.left > 0 {
		d.out.dead = true // inside a frame nothing else can be said there
	}
	s.rt.RaiseConnection(e)
	s.after(d.out)
	return err
}

// clientEnded goes on when nothing more comes from the client: what it has sent reaches the broker, then the broker sees the end.
func (s *session) clientEnded(d *relay, err error) {
	s.mu.Lock()
	s.gone.client = true
	s.cause(err)
	if d.left > 0 {
		d.left = 0
		s.up.dead = true // half a frame
		s.yield(&s.up)
	}
	for s.rt.Holding() && !s.gone.broker && s.ctx.Err() == nil {
		s.changed.Wait()
	}
	for s.up.busy {
		s.changed.Wait()
	}
	s.up.busy = true
	s.yield(&s.up)
	s.up.dead = true
	malformed := errors.As(err, new(*frames.Exception))
	if err != nil && !malformed {
		s.down.dead = true
		_ = s.client.SetWriteDeadline(time.Unix(1, 0)) // a write to it that is blocked ends
	}
	s.mu.Unlock()
	if malformed {
		s.linger()
	}
	closeWrite(s.broker)
	_ = s.broker.SetReadDeadline(time.Now().Add(lingerWait))
}

// linger lets the client read the close that the proxy has just sent: closing a socket with unread input would reset it.
func (s *session) linger() {
	s.mu.Lock()
	for s.down.busy {
		s.changed.Wait()
	}
	s.mu.Unlock()
	closeWrite(s.client)
	_ = s.client.SetReadDeadline(time.Now().Add(lingerWait))
	_, _ = io.Copy(io.Discard, s.client)
}

// brokerEnded goes on when nothing more comes from the broker: unless the connection was being closed anyway the client is told.
func (s *session) brokerEnded(d *relay, err error) {
	s.mu.Lock()
	s.gone.broker = true
	s.up.dead = true
	_ = s.broker.SetWriteDeadline(time.Unix(1, 0))
	_ = s.client.SetWriteDeadline(time.Now().Add(closeOkWait))
	if !s.gone.client && !s.rt.Closing() && !s.refusedLogin(err) {
		s.cause(errors.Join(errors.New("upstream connection lost"), err))
		s.rt.RaiseConnection(&frames.Exception{Code: frames.ConnectionForced, Text: "shardmq lost its connection to the broker"})
	} else {
		s.cause(err)
	}
	if d.left > 0 {
		d.left = 0
		s.down.dead = true
		s.yield(&s.down)
	}
	s.after(nil)
	for s.down.busy {
		s.changed.Wait()
	}
	wait := lingerWait
	if s.rt.Closing() && !s.rt.Closed() && !s.down.dead {
		wait = closeOkWait
	}
	if s.rt.Closed() || s.down.dead || !s.rt.Closing() {
		closeWrite(s.client)
	}
	s.changed.Broadcast()
	s.mu.Unlock()
	_ = s.client.SetReadDeadline(time.Now().Add(wait))
}

// refusedLogin reports whether the broker has dropped the connection as it does with refused credentials, when the client has not
// announced authentication_failure_close.
func (s *session) refusedLogin(err error) bool {
	return errors.Is(err, io.EOF) && !s.rt.Tuned() && !s.rt.WantsAuthFailureClose()
}

// goAway tells the client that the proxy stops.
func (s *session) goAway() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broker == nil || !s.rt.Tuned() {
		s.cutLocked(errDrained)
		return
	}
	s.cause(errors.New("proxy is shutting down"))
	s.rt.RaiseConnection(&frames.Exception{Code: frames.ConnectionForced, Text: "shardmq is shutting down"})
	s.after(nil)
}

func (s *session) handshakeOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.rt.Established() && !s.rt.Closing() {
		s.cutLocked(errHandshake)
	}
}

// cut ends the session at once.
func (s *session) cut(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cutLocked(cause)
}

func (s *session) cutLocked(cause error) {
	s.cause(cause)
	s.end(cause)
	s.up.dead, s.down.dead = true, true
	_ = s.client.Close()
	if s.broker != nil {
		_ = s.broker.Close()
	}
	s.changed.Broadcast()
}

func closeWrite(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
}
