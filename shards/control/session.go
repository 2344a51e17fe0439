package control

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards/coordination"
)

const (
	// A message that nobody has taken by then is of no use: there is a newer one.
	messageLife = "5000" // ms
	// Bounds of an inbox, which drops its oldest messages beyond them.
	inboxMessages = 1000
	inboxOctets   = 64 << 20
	// deafAfter: for so long after a message was sent nothing at all has come back.
	deafAfter = 5 * time.Second
	// markAgain is the pause before the queue that tells of us is declared again
	// after a failure, and markEvery after a success: an operator may delete it.
	markAgain = time.Second
	markEvery = 10 * time.Second
)

var (
	errDeaf      = errors.New("messages do not come back: the queue lacks its binding")
	errInboxGone = errors.New("the queue for messages was deleted")
)

// session is a transport's life on one pair of connections.
//
// Messages come in on a queue of the session's own. It is not the one that tells
// others that this proxy is alive: after the loss of a connection that the broker
// has not noticed yet, that one cannot be had again for a while.
type session struct {
	t       *Transport
	ctx     context.Context // ends with the session; its cause says why
	fail    context.CancelCauseFunc
	in, out *wire // all but publishing; publishing
	inbox   <-chan amqp.Delivery
	members *amqp.Channel // of out
	confirm *amqp.Channel // of out, in confirm mode
	returns chan amqp.Return
	slot    chan struct{} // taken while something is being written to out
	alarm   alarm
	running sync.WaitGroup

	sent  atomic.Int64 // when the first message was sent after the last that came in; 0 = none
	began time.Time
}

// connect opens a session to a node.
func (t *Transport) connect(node NodeAddress) (*session, error) {
	ctx, cancel := context.WithTimeout(t.ctx, t.o.ConnectTimeout)
	defer cancel()
	s := &session{t: t, slot: make(chan struct{}, 1), began: time.Now()}
	s.ctx, s.fail = context.WithCancelCause(t.ctx)
	var stops [2]func() bool
	for i, w := range []struct {
		to   **wire
		name string
	}{{&s.in, "shardmq coordination"}, {&s.out, "shardmq coordination (publishing)"}} {
		var err error
		if *w.to, stops[i], err = t.dial(ctx, node, w.name); err != nil {
			s.close()
			return nil, err
		}
	}
	err := s.prepare()
	for _, stop := range stops {
		stop()
	}
	if cause := context.Cause(ctx); cause != nil {
		err = unreachable(node.Address, cause)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// prepare declares what messages take. The end of the sockets is what ends it.
func (s *session) prepare() error {
	const op = "prepare coordination"
	in, err := s.in.conn.Channel()
	if err != nil {
		return refusal(op, s.in, err)
	}
	if s.inbox, err = openInbox(in, coordination.InboxQueue+s.t.id+"."+randomHex(4)); err != nil {
		return refusal(op, s.in, err)
	}
	blocked := s.out.conn.NotifyBlocked(make(chan amqp.Blocking, 16))
	s.running.Go(func() { s.alarm.follow(blocked) })
	if s.members, err = s.out.conn.Channel(); err != nil {
		return refusal(op, s.out, err)
	}
	if s.confirm, err = s.out.conn.Channel(); err != nil {
		return refusal(op, s.out, err)
	}
	s.returns = s.confirm.NotifyReturn(make(chan amqp.Return, 16))
	if err = s.confirm.Confirm(false); err != nil {
		return refusal(op, s.out, err)
	}
	return nil
}

func openInbox(ch *amqp.Channel, name string) (<-chan amqp.Delivery, error) {
	if err := ch.ExchangeDeclare(coordination.MembersExchange, amqp.ExchangeFanout, true, false, false, false, nil); err != nil {
		return nil, err
	}
	_, err := ch.QueueDeclare(name, false, true, true, false, amqp.Table{
		"x-queue-type": "classic", "x-max-length": inboxMessages, "x-max-length-bytes": inboxOctets, "x-overflow": "drop-head",
	})
	if err != nil {
		return nil, err
	}
	if err := ch.QueueBind(name, "", coordination.MembersExchange, false, nil); err != nil {
		return nil, err
	}
	return ch.Consume(name, "", true, false, false, false, nil)
}

// serve runs the session until it ends, and returns why.
func (s *session) serve() error {
	s.running.Go(s.receive)
	s.running.Go(s.watch)
	s.running.Go(s.mark)
	s.running.Go(func() { (&elector{s: s, look: desk{w: s.in}}).run() })
	<-s.ctx.Done()
	s.close()
	return context.Cause(s.ctx)
}

// close ends what is open of the session and waits for it.
func (s *session) close() {
	s.fail(coordination.ErrTransportClosed) // unless it has another reason
	var closing sync.WaitGroup
	for _, w := range []*wire{s.in, s.out} {
		if w != nil {
			closing.Go(w.close)
		}
	}
	closing.Wait()
	s.running.Wait()
}

// watch ends the session when something of it breaks.
func (s *session) watch() {
	members, confirm := s.members.NotifyClose(make(chan *amqp.Error, 1)), s.confirm.NotifyClose(make(chan *amqp.Error, 1))
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-s.in.lost:
			s.fail(lost(s.in, err))
		case err := <-s.out.lost:
			s.fail(lost(s.out, err))
		case err := <-members:
			s.fail(lost(s.out, err))
		case err := <-confirm:
			s.fail(lost(s.out, err))
		case <-tick.C:
			if _, blocked := s.alarm.state(); blocked {
				s.sent.Store(0)
			}
			if sent := s.sent.Load(); sent != 0 && time.Since(s.began)-time.Duration(sent) > deafAfter {
				s.fail(errDeaf)
			}
		case <-s.ctx.Done():
			return
		}
	}
}

// lost is the error of a connection or channel that ended, for a reason or, with
// nil, for none that is known.
func lost(w *wire, err *amqp.Error) error {
	if err == nil {
		return unreachable(w.node.Address, errLost)
	}
	return refusal("coordinate", w, err)
}

// receive hands messages on.
func (s *session) receive() {
	for d := range s.inbox {
		s.sent.Store(0)
		if !s.t.foreign(d) {
			s.t.deliver(d.Body)
		}
	}
	if !s.in.conn.IsClosed() { // else watch knows why
		s.fail(errInboxGone)
	}
}

// mark declares the queue that tells others of this proxy. It is there as long as
// the connection that declared it; what it is about is that it exists.
func (s *session) mark() {
	d := desk{w: s.in}
	for {
		_, err := at(s.ctx, &d, func(ch *amqp.Channel) (amqp.Queue, error) {
			return ch.QueueDeclare(coordination.MemberQueue+s.t.id, false, true, true, false,
				amqp.Table{"x-queue-type": "classic", "x-max-length": 1})
		})
		pause := markEvery
		if err != nil {
			pause = markAgain
			if r := refusal("declare queue '"+coordination.MemberQueue+s.t.id+"'", s.in, err); errors.Is(r, coordination.ErrNoRights) {
				s.fail(r)
			}
		}
		if !s.pause(pause) {
			return
		}
	}
}

// pause waits, and reports whether the session goes on.
func (s *session) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// alive looks for the queue of another proxy.
func (s *session) alive(ctx context.Context, id string) (bool, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
	d := desk{w: s.in}
	_, err := at(ctx, &d, func(ch *amqp.Channel) (amqp.Queue, error) {
		return ch.QueueDeclarePassive(coordination.MemberQueue+id, false, true, true, false, nil)
	})
	switch {
	case isCode(err, frames.ResourceLocked): // it belongs to another connection
		return true, nil
	case isCode(err, frames.NotFound):
		return false, nil
	case err != nil:
		return false, refusal(fmt.Sprintf("look for proxy %s", id), s.in, err)
	}
	return true, nil
}
