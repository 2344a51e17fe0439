package proxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/shardmq/shardmq/frames"
)

// malformed answers frames that make no sense: the client gets the reply code the specification names, behind the answers to what it has sent
// before. The stream cannot be read any further. mu is held.
func (s *session) malformed(d *relay, err error) error {
	var e *frames.Exception
	if !errors.As(err, &e) {
		return err
	}
	if d.out == &s.down {
		err = fmt.Errorf("upstream sent a malformed frame: %w", err)
		e = &frames.Exception{Code: frames.InternalError, Text: "the broker sent a malformed frame"}
	}
	inFrame := d.left > 0 && !d.drop
	if inFrame {
		d.out.dead = true // nothing else can be said there
	}
	if d.out == &s.up {
		s.rt.Refuse(e, inFrame)
	} else {
		s.rt.RaiseConnection(e)
	}
	return err
}

// clientEnded goes on when nothing more comes from the client: what it has sent reaches the broker, then the broker sees the end.
func (s *session) clientEnded(d *relay, err error) {
	s.mu.Lock()
	s.gone.client = true
	malformed := errors.As(err, new(*frames.Exception))
	if malformed || !s.rt.Closing() {
		s.causeOf("client", err)
	}
	if d.left > 0 {
		d.left = 0
		s.up.dead = true // half a frame
		s.yield(&s.up)
	}
	s.awaitHeld()
	if malformed {
		s.awaitRefusal()
	}
	s.waiting = false
	for s.up.busy {
		s.changed.Wait()
	}
	s.up.busy = true
	s.yield(&s.up)
	s.up.dead = true
	if err != nil && !malformed {
		s.down.dead = true
		_ = s.client.SetWriteDeadline(time.Unix(1, 0)) // a write to it that is blocked ends
	} else {
		_ = s.client.SetWriteDeadline(time.Now().Add(closeOkWait))
	}
	s.mu.Unlock()
	if malformed {
		s.linger()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone.broker { // else the session ends
		closeWrite(s.broker)
	}
	s.readUntil(s.relays.Load()[1], time.Now().Add(lingerWait))
}

// awaitHeld waits until what is held of a client that has gone is with the broker: not for ever for a broker that does not answer. mu is held.
func (s *session) awaitHeld() {
	var p patience
	for s.rt.Holding() && !s.outOf(&p) && !s.gone.broker && s.ctx.Err() == nil {
		s.waiting = true
		s.keepTime()
		s.changed.Wait()
	}
}

// awaitRefusal waits until the broker has dealt with what the client sent before it sent rubbish, for as long as for a close-ok. mu is held.
func (s *session) awaitRefusal() {
	timer := time.AfterFunc(closeOkWait, func() {
		defer s.guard()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.rt.RefuseNow()
		s.after(nil)
		s.changed.Broadcast()
	})
	defer timer.Stop()
	for s.rt.Refusing() && s.ctx.Err() == nil {
		s.waiting = true
		s.changed.Wait()
	}
}

// linger lets the client read the close that the proxy has just sent, or the answer to its own, which may be on its way: closing a socket with unread input
// would reset it. Inside a frame that the
// broker does not go on with nothing can be sent, and the client sees the end alone.
func (s *session) linger() {
	s.mu.Lock()
	overdue := false
	timer := time.AfterFunc(closeOkWait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		overdue = true
		s.changed.Broadcast()
	})
	for (s.down.busy || s.rt.OwedCloseOk() && !s.gone.broker) && !overdue && s.ctx.Err() == nil {
		s.changed.Wait()
	}
	timer.Stop()
	s.mu.Unlock()
	closeWrite(s.client)
	_ = s.client.SetReadDeadline(time.Now().Add(lingerWait))
	_, _ = io.Copy(io.Discard, s.client)
}

// brokerEnded goes on when nothing more comes from the broker: unless the connection was being closed anyway the client is told.
func (s *session) brokerEnded(d *relay, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone.broker = true
	s.up.dead = true
	_ = s.broker.SetWriteDeadline(time.Unix(1, 0))
	_ = s.client.SetWriteDeadline(time.Now().Add(closeOkWait))
	if !s.gone.client && !s.rt.Closing() && !s.refusedLogin() {
		if !s.rt.Refusing() { // else that is why
			s.causeOf("upstream connection lost", err)
		}
		s.rt.RaiseLost(&frames.Exception{Code: frames.ConnectionForced, Text: "shardmq lost its connection to the broker"})
	} else if !s.rt.Closing() || errors.As(err, new(*frames.Exception)) {
		s.causeOf("upstream", err)
	}
	if d.left > 0 {
		d.left = 0
		s.down.dead = true
		s.yield(&s.down)
	}
	s.rt.UpstreamEnded()
	s.after(nil)
	for s.down.busy {
		s.changed.Wait()
	}
	wait := lingerWait
	switch {
	case s.rt.OwesCloseOk() && !s.down.dead:
		wait = closeOkWait
	case !s.gone.client: // else the session ends
		closeWrite(s.client)
	}
	s.readUntil(s.relays.Load()[0], time.Now().Add(wait))
	s.changed.Broadcast()
}

// refusedLogin reports whether the broker has dropped the connection before it has accepted the client's credentials, as it does with
// a mechanism it does not know, a response it cannot read and, unless the client has announced authentication_failure_close, wrong
// credentials. RabbitMQ may reset it, which a crash of the broker's at that point cannot be told from.
func (s *session) refusedLogin() bool { return !s.rt.Tuned() }

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
	if both := s.relays.Load(); both != nil {
		s.wake(both[0])
		s.wake(both[1])
	}
	s.changed.Broadcast()
}

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// cause remembers why the session ends; the first cause counts.
func (s *session) cause(err error) {
	if err != nil {
		s.endCause.CompareAndSwap(nil, &err)
	}
}

// causeOf is cause for an error of one side's; nil is none.
func (s *session) causeOf(side string, err error) {
	if err != nil {
		s.cause(fmt.Errorf("%s: %w", side, err))
	}
}

// quiet ends the session without a line in the log.
func (s *session) quiet() { s.silent = true }

// note remembers a write error as a cause.
func (s *session) note(o *outlet, err error) {
	side := "client"
	if o == &s.up {
		side = "upstream"
	}
	s.cause(fmt.Errorf("write to %s: %w", side, err))
}

// finish closes what is open, gives the consumers' shards back and logs the connection's one line.
func (s *session) finish() {
	if s.over != nil {
		defer s.over()
	}
	cause := s.endCause.Load() // nil: client and broker have closed the connection in due form
	s.shutdown()
	s.helpers.Wait()
	if both := s.relays.Load(); both != nil {
		s.srv.parker.forget(both[0])
		s.srv.parker.forget(both[1])
		both[0].in.release()
	}
	if s.in != nil {
		s.in.release()
	}
	if s.node != nil {
		s.node.clients.Add(-1)
	}
	if s.silent || s.up.total == 0 && cause != nil && errors.Is(*cause, io.EOF) {
		return // a probe: connected, perhaps saw connection.start, and went
	}
	fields := []zap.Field{zap.String("vhost", s.rt.Vhost()), zap.Duration("lasted", time.Since(s.started)),
		zap.Int64("bytes_to_broker", s.up.total), zap.Int64("bytes_to_client", s.down.total)}
	if s.node != nil {
		fields = append(fields, zap.String("upstream", s.node.Address))
	}
	fields = append(fields, s.tlsFields()...)
	if e := s.rt.Raised(); cause == nil && e != nil {
		cause = new(error(e))
	}
	if cause == nil {
		s.log.Info("connection closed", fields...)
	} else {
		s.log.Warn("connection ended", append(fields, zap.Error(*cause))...)
	}
}

func (s *session) shutdown() {
	defer s.guard()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cutLocked(net.ErrClosed)
	if s.beats != nil {
		s.beats.Stop() // it would keep the session from being collected
	}
	s.rt.Shutdown()
	s.runAsks(s.rt.TakeAsks())
}
