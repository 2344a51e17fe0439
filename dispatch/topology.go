package dispatch

import (
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// dueQueue holds the jobs whose delay is over.
func (j *Job) dueQueue() string { return j.Name + ".due" }

// retryQueue holds jobs for so long, by the name of the delay.
func (j *Job) retryQueue(delay string) string { return j.Name + ".retry." + delay }

// deadQueue holds the jobs that have failed for good.
func (j *Job) deadQueue() string { return j.Name + ".dead" }

// declareJob declares what the configuration asks for, and finds out that the queue is there.
func (j *Job) declareJob(ch *amqp.Channel) error {
	d := j.Declare
	if d == nil {
		_, err := ch.QueueDeclarePassive(j.Queue, true, false, false, false, nil)
		return explain(err, "look for queue %q", j.Queue)
	}
	if d.Exchange != "" {
		if err := ch.ExchangeDeclare(d.Exchange, d.Type, true, false, false, false, nil); err != nil {
			return explain(err, "declare exchange %q", d.Exchange)
		}
	}
	if _, err := ch.QueueDeclare(j.Queue, true, false, false, false, d.Arguments); err != nil {
		return explain(err, "declare queue %q", j.Queue)
	}
	if d.Exchange == "" {
		return nil
	}
	return explain(ch.QueueBind(j.Queue, d.Key, d.Exchange, false, nil), "bind queue %q to exchange %q", j.Queue, d.Exchange)
}

// quorum reports whether the job's queues are to be quorum queues: as the configuration declares its own.
func (j *Job) quorum() bool {
	return j.Quorum || j.Declare != nil && j.Declare.Arguments[amqp.QueueTypeArg] == amqp.QueueTypeQuorum
}

// plain are the arguments of every queue of ours.
func (j *Job) plain() amqp.Table {
	if j.quorum() {
		return amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}
	}
	return amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeClassic}
}

// lasting are those of the due and the dead-letter queue. A crash returns what was in hand, and so does looking at dead
// letters; that is no reason to lose a job, so quorum queues' delivery limit, 20 from RabbitMQ 4.0 on, is as good as none.
func (j *Job) lasting() amqp.Table {
	args := j.plain()
	if j.quorum() {
		args["x-delivery-limit"] = int64(1 << 30)
	}
	return args
}

// holding are the arguments of a retry queue. Quorum queues hand on what has expired only once it has arrived.
func (j *Job) holding(milliseconds int64) amqp.Table {
	args := j.plain()
	args[amqp.QueueMessageTTLArg] = milliseconds
	args["x-dead-letter-exchange"] = ""
	args["x-dead-letter-routing-key"] = j.dueQueue()
	if j.quorum() {
		args["x-dead-letter-strategy"] = "at-least-once"
		args[amqp.QueueOverflowArg] = amqp.QueueOverflowRejectPublish
	}
	return args
}

// waiting is where jobs wait for so long, one of the ladder's delays.
func (j *Job) waiting(delay time.Duration) place {
	return place{queue: j.retryQueue(delayName(delay)), args: j.holding(delay.Milliseconds()), delay: delay}
}

// isMissing reports whether a broker said that there is no such queue or exchange.
func isMissing(err error) bool {
	said, ok := errors.AsType[*amqp.Error](err)
	return ok && said.Code == amqp.NotFound
}

// explain says what was being done when a broker said no.
func explain(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}
