package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Why a message was not taken by the broker. It may be published again.
var (
	errNotRouted = errors.New("no queue took it")
	errNacked    = errors.New("the broker could not take it (basic.nack)")
	errGone      = errors.New("the connection is gone")
)

// publisher publishes messages and tells what became of each, over a connection of its own: a broker that is short of
// memory or disk reads nothing more of a connection that publishes, acknowledgements included. Safe for concurrent use.
type publisher struct {
	line   *connection
	ch     *amqp.Channel
	closed chan *amqp.Error // why the channel was closed, if not by us
	number atomic.Int64
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
func newPublisher(line *connection) (*publisher, error) {
	ch, err := line.Channel()
	if err != nil {
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	if err := ch.Confirm(false); err != nil {
		return nil, fmt.Errorf("ask for confirms: %w", err)
	}
	p := &publisher{line: line, ch: ch, closed: ch.NotifyClose(make(chan *amqp.Error, 1)),
		returns: ch.NotifyReturn(make(chan amqp.Return)), asked: make(chan question), done: make(chan struct{})}
	go p.keepReturns()
	return p, nil
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
	select {
	case <-confirm.Done():
	case <-p.done:
		return p.why
	case <-ctx.Done():
		return context.Cause(ctx)
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
