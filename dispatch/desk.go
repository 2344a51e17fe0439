package dispatch

import (
	"context"
	"crypto/tls"
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

// Close ends the connection; what was looked at and not taken is back in its queue.
func (d *Desk) Close() { d.s.close() }

// DeadLetters gives each dead letter that the job has now, the oldest first, to visit, until it returns an error. What
// visit returns is done with the letter. All that stay are back in their order once the desk is closed.
func (d *Desk) DeadLetters(ctx context.Context, visit func(Letter) (Fate, error)) error {
	if err := d.s.ensure(d.job.deadQueue(), d.job.lasting()); err != nil {
		return err
	}
	// Those that are replayed may come again meanwhile.
	now, err := d.s.jobs.QueueDeclarePassive(d.job.deadQueue(), true, false, false, false, nil)
	if err != nil {
		return explain(err, "look for queue %q", d.job.deadQueue())
	}
	for try := 0; now.Messages == 0 && try < 5 && err == nil; try++ { // a quorum queue has back what was looked at a little later
		time.Sleep(50 * time.Millisecond)
		now, err = d.s.jobs.QueueDeclarePassive(d.job.deadQueue(), true, false, false, false, nil)
	}
	if err != nil {
		return explain(err, "look for queue %q", d.job.deadQueue())
	}
	for range now.Messages {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		delivery, ok, err := d.s.jobs.Get(d.job.deadQueue(), false)
		if err != nil {
			return explain(err, "get from queue %q", d.job.deadQueue())
		}
		if !ok {
			return nil
		}
		fate, err := visit(letter(delivery))
		if err != nil {
			return err
		}
		switch fate {
		case Replay:
			err = d.s.publish(ctx, d.job.Queue, revive(delivery))
		case Discard:
		default:
			continue
		}
		if err != nil {
			return explain(err, "publish into queue %q", d.job.Queue)
		}
		if err := delivery.Ack(false); err != nil {
			return explain(err, "acknowledge")
		}
	}
	return nil
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
		_, name := atLeast(delay)
		names = append(names, d.job.retryQueue(name))
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
