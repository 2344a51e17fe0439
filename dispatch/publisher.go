package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Why a message was not taken by the broker. It may be published again.
var (
	errNotRouted = errors.New("no queue took it")
	errNacked    = errors.New("the broker could not take it (basic.nack)")
	errGone      = errors.New("the connection is gone")
	// A quorum queue without a leader takes nothing and refuses nothing.
	errUnconfirmed = errors.New("the broker has not confirmed it in time, and has not said that it is short of memory or disk (connection.blocked)")
)

// How long a confirm is waited for, connection.blocked apart. A broker that is merely slow must not be sent the same job
// again and again, so the time doubles for as long as nothing is confirmed at all.
const (
	patience     = 15 * time.Second
	mostPatience = 4 * time.Minute
)

// publisher publishes messages and tells what became of each, over a connection of its own: a broker that is short of
// memory or disk reads nothing more of a connection that publishes, acknowledgements included. Safe for concurrent use.
type publisher struct {
	line     *connection
	ch       *amqp.Channel
	closed   chan *amqp.Error // why the channel was closed, if not by us
	patience time.Duration    // how long a confirm is waited for
	blocked  chan amqp.Blocking
	number   atomic.Int64
	// free is since when the connection is not blocked, in Unix nanoseconds; 0 = it is blocked.
	free atomic.Int64
	// confirmed says that there was a confirm; late, that one was given up.
	confirmed, late atomic.Bool
	// The channel hands over a return before it handles the confirm that follows. returns has no room, so whoever asks
	// after the confirm is served after the return.
	returns chan amqp.Return
	asked   chan question
	done    chan struct{} // closed with the channel; then why is there
	why     error
}

// question is whether a publish was returned, and why.
type question struct {
	number int64
	answer chan<- string // "" = it was not
}

// newPublisher opens a channel in confirm mode and uses it until it is closed, and the connection with it.
func newPublisher(line *connection, patience time.Duration) (*publisher, error) {
	ch, err := line.Channel()
	if err != nil {
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	if err := ch.Confirm(false); err != nil {
		return nil, fmt.Errorf("ask for confirms: %w", err)
	}
	p := &publisher{line: line, ch: ch, closed: ch.NotifyClose(make(chan *amqp.Error, 1)), patience: patience,
		blocked: line.NotifyBlocked(make(chan amqp.Blocking)),
		returns: ch.NotifyReturn(make(chan amqp.Return)), asked: make(chan question), done: make(chan struct{})}
	p.free.Store(time.Now().UnixNano())
	go p.keepReturns()
	go p.heed()
	return p, nil
}

// heed ends with the connection, which closes blocked.
func (p *publisher) heed() {
	for b := range p.blocked {
		if b.Active {
			p.free.Store(0)
			continue
		}
		p.free.Store(time.Now().UnixNano())
	}
}

// patienceAfter returns how long its successor is to wait for a confirm. Called when it is over.
func (p *publisher) patienceAfter() time.Duration {
	if p.late.Load() && !p.confirmed.Load() {
		return min(2*p.patience, mostPatience)
	}
	return patience
}

// over reports whether there is nothing to be published with it any more.
func (p *publisher) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// keepReturns ends with the channel, which closes returns.
func (p *publisher) keepReturns() {
	defer func() {
		p.why = errGone
		if said := <-p.closed; said != nil {
			p.why = said
		}
		close(p.done)
		p.line.close()
	}()
	kept := map[int64]string{}
	for {
		select {
		case r, ok := <-p.returns:
			if !ok {
				return
			}
			kept[number(r.Headers, headerPublish)] = fmt.Sprintf("%d %s", r.ReplyCode, r.ReplyText)
		case q := <-p.asked:
			q.answer <- kept[q.number]
			delete(kept, q.number)
		}
	}
}

// publish returns nil once the broker is responsible for the message and a queue has it.
func (p *publisher) publish(ctx context.Context, exchange, key string, m amqp.Publishing) error {
	n := p.number.Add(1)
	m.Headers[headerPublish] = n
	confirm, err := p.ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, true, false, m)
	if err != nil {
		return err
	}
	if err := p.await(ctx, confirm); err != nil {
		return err
	}
	answer := make(chan string, 1)
	select {
	case p.asked <- question{n, answer}:
	case <-p.done:
		return p.why
	}
	if why := <-answer; why != "" {
		return fmt.Errorf("%w: %s", errNotRouted, why)
	}
	if !confirm.Acked() {
		return errNacked
	}
	return nil
}

// await returns nil once there is an answer. One that does not come in time ends the connection: what is published from
// then on goes by another.
func (p *publisher) await(ctx context.Context, confirm *amqp.DeferredConfirmation) error {
	began := time.Now()
	late := time.NewTimer(p.patience)
	defer late.Stop()
	for {
		select {
		case <-confirm.Done():
			if confirm.Acked() || !p.ch.IsClosed() {
				p.confirmed.Store(true)
				return nil
			}
			<-p.done // it is no answer: all that is open is let go when the channel closes
			return p.unanswered(began)
		case <-p.done:
			return p.unanswered(began)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late.C:
			if more := p.moreTime(); more > 0 {
				late.Reset(more)
				continue
			}
			p.late.Store(true)
			p.line.hangUp()
			<-p.done
			return errUnconfirmed
		}
	}
}

// unanswered says why there will be no answer to what was published then. Called when the publisher is over.
func (p *publisher) unanswered(began time.Time) error {
	// Those that were published with one that was late have the same to say.
	if p.late.Load() && time.Since(began) > p.patience/2 {
		return errUnconfirmed
	}
	return p.why
}

// moreTime returns for how much longer a confirm that is late may be: the broker has all its time once it reads again.
func (p *publisher) moreTime() time.Duration {
	free := p.free.Load()
	if free == 0 {
		return p.patience
	}
	return p.patience - time.Since(time.Unix(0, free))
}
