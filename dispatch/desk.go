package dispatch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Letter is a job that has failed for good.
type Letter struct {
	ID                   string
	Reason, Class        string
	Status               int // of the last answer; 0 = there was none
	Attempts             int
	Failed               time.Time // the last time
	Exchange, RoutingKey string    // of the first publish
	ContentType          string
	Body                 []byte
}

// Desk works on the queues of a job by a connection of its own. Close it. It is not safe for concurrent use.
type Desk struct {
	job *Job
	s   *session
}

// OpenDesk connects to the job's server. The job itself need not run.
func OpenDesk(ctx context.Context, job *Job, tlsConfig *tls.Config) (*Desk, error) {
	s, err := dial(ctx, job, tlsConfig)
	if err != nil {
		return nil, err
	}
	return &Desk{job: job, s: s}, nil
}

// Close ends the connection.
func (d *Desk) Close() { d.s.close() }

// DeadLetters gives each dead letter that the job has now, the oldest first, to visit, until it returns an error. What
// visit returns is done with the letter. All that stay are back in their order once DeadLetters returns.
func (d *Desk) DeadLetters(ctx context.Context, visit func(Letter) (Fate, error)) error {
	if err := d.s.ensure(d.job.deadQueue(), d.job.lasting()); err != nil {
		return err
	}
	ch, err := d.s.conn.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	stay, err := d.visit(ctx, ch, visit)
	if err := ch.Close(); err != nil && !errors.Is(err, amqp.ErrClosed) {
		return explain(err, "close the channel of queue %q", d.job.deadQueue())
	}
	d.awaitBack(ctx, stay)
	return err
}

// visit does what DeadLetters does, and returns how many letters stay: those are back once the channel is closed.
func (d *Desk) visit(ctx context.Context, ch *amqp.Channel, visit func(Letter) (Fate, error)) (stay int, err error) {
	// Those that are replayed may come again meanwhile.
	now, err := ch.QueueDeclarePassive(d.job.deadQueue(), true, false, false, false, nil)
	if err != nil {
		return 0, explain(err, "look for queue %q", d.job.deadQueue())
	}
	for range now.Messages {
		if ctx.Err() != nil {
			return stay, context.Cause(ctx)
		}
		delivery, ok, err := ch.Get(d.job.deadQueue(), false)
		if err != nil {
			return stay, explain(err, "get from queue %q", d.job.deadQueue())
		}
		if !ok {
			return stay, nil
		}
		stay++
		fate, err := visit(letter(delivery))
		if err != nil {
			return stay, err
		}
		switch fate {
		case Replay:
			err = d.s.publish(ctx, d.job.Queue, revive(delivery))
		case Discard:
		default:
			continue
		}
		if err != nil {
			return stay, explain(err, "publish into queue %q", d.job.Queue)
		}
		if err := delivery.Ack(false); err != nil {
			return stay, explain(err, "acknowledge")
		}
		stay--
	}
	return stay, nil
}

// backWithin bounds how long letters are waited for, which somebody else may have taken meanwhile.
const backWithin = 5 * time.Second

// awaitBack waits until so many letters are in their queue: a quorum queue has them back a moment after the channel was
// closed, and whoever looks again before that would miss them.
func (d *Desk) awaitBack(ctx context.Context, letters int) {
	ctx, cancel := context.WithTimeout(ctx, backWithin)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		q, err := d.s.jobs.QueueDeclarePassive(d.job.deadQueue(), true, false, false, false, nil)
		if err != nil || q.Messages >= letters {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Fate is what is done with a dead letter.
type Fate int

// The fates.
const (
	Stay    Fate = iota
	Replay       // to the job's queue, to be done from the first attempt on
	Discard      // it is gone
)

func letter(d amqp.Delivery) Letter {
	return Letter{
		ID: text(d.Headers, headerID), Reason: text(d.Headers, headerReason), Class: text(d.Headers, headerClass),
		Status: int(number(d.Headers, headerStatus)), Attempts: int(number(d.Headers, headerAttempt)),
		Failed: time.UnixMilli(number(d.Headers, headerFailed)), Exchange: text(d.Headers, headerExchange),
		RoutingKey: text(d.Headers, headerRoutingKey), ContentType: d.ContentType, Body: d.Body,
	}
}

// Purge empties the job's queue and those of its retries, and returns how many jobs are gone. Dead letters stay.
func (d *Desk) Purge(ctx context.Context) (gone int, err error) {
	if gone, err = d.s.jobs.QueuePurge(d.job.Queue, false); err != nil {
		return gone, explain(err, "purge queue %q", d.job.Queue)
	}
	names := []string{d.job.dueQueue()}
	for _, delay := range ladder {
		names = append(names, d.job.retryQueue(delayName(delay)))
	}
	for _, name := range names {
		err := d.s.aside(func(ch *amqp.Channel) error {
			n, err := ch.QueuePurge(name, false)
			gone += n
			return err
		})
		if err != nil && !isMissing(err) {
			return gone, explain(err, "purge queue %q", name)
		}
	}
	return gone, nil
}
