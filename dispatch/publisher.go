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

// publisher publishes messages and tells what became of each. Safe for concurrent use.
type publisher struct {
	ch     *amqp.Channel
	number atomic.Int64
	// The channel hands over a return before it handles the confirm that follows. returns has no room, so whoever asks
	// after the confirm is served after the return.
	returns chan amqp.Return
	asked   chan question
	done    chan struct{} // closed with the channel
}

// question is whether a publish was returned, and why.
type question struct {
	number int64
	answer chan<- string // "" = it was not
}

// newPublisher puts ch into confirm mode and uses it until it is closed.
func newPublisher(ch *amqp.Channel) (*publisher, error) {
	if err := ch.Confirm(false); err != nil {
		return nil, fmt.Errorf("ask for confirms: %w", err)
	}
	p := &publisher{ch: ch, returns: ch.NotifyReturn(make(chan amqp.Return)), asked: make(chan question), done: make(chan struct{})}
	go p.keepReturns()
	return p, nil
}

// keepReturns ends with the channel, which closes returns.
func (p *publisher) keepReturns() {
	defer close(p.done)
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
		return errGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	answer := make(chan string, 1)
	select {
	case p.asked <- question{n, answer}:
	case <-p.done:
		return errGone
	}
	if why := <-answer; why != "" {
		return fmt.Errorf("%w: %s", errNotRouted, why)
	}
	if !confirm.Acked() {
		return errNacked
	}
	return nil
}
