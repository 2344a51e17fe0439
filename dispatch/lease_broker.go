package dispatch

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// leaseTag begins the tags of consumers that are leases or signs.
const leaseTag = "lease-"

// leaseQueue is where leases are counted, as consumers. It stays empty.
func (j *Job) leaseQueue() string { return j.Name + ".lease" }

// signQueue is where those that show a sign are counted.
func (j *Job) signQueue(s sign) string {
	return j.leaseQueue() + [signs]string{member: ".members", short: ".short", starved: ".starved"}[s]
}

// brokerRegistry is a registry of consumers, on the channel that the executors are on too: they end together.
type brokerRegistry struct {
	s     *session
	job   *Job
	tags  []string // of leases, the oldest first
	taken int      // leases so far
}

func (r *brokerRegistry) count() (t tally, err error) {
	queues, counts := []string{r.job.leaseQueue()}, []*int{&t.leases}
	for s := range signs {
		queues, counts = append(queues, r.job.signQueue(s)), append(counts, &t.shown[s])
	}
	for _, queue := range queues {
		if err := r.s.ensure(queue, r.job.plain()); err != nil {
			return t, err
		}
	}
	err = r.s.aside(func(ch *amqp.Channel) error {
		for i, queue := range queues {
			q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
			if err != nil {
				return explain(err, "count the consumers of queue %q", queue)
			}
			*counts[i] = q.Consumers
		}
		return nil
	})
	return t, err
}

func (r *brokerRegistry) take() error {
	tag := fmt.Sprintf("%s%d", leaseTag, r.taken+1)
	if err := r.consume(r.job.leaseQueue(), tag); err != nil {
		return err
	}
	r.taken++
	r.tags = append(r.tags, tag)
	return nil
}

func (r *brokerRegistry) give() error {
	last := len(r.tags) - 1
	if err := r.s.jobs.Cancel(r.tags[last], false); err != nil {
		return explain(err, "cancel a consumer of queue %q", r.job.leaseQueue())
	}
	r.tags = r.tags[:last]
	return nil
}

func (r *brokerRegistry) show(s sign, on bool) error {
	queue := r.job.signQueue(s)
	tag := leaseTag + queue[len(r.job.leaseQueue())+1:]
	if !on {
		return explain(r.s.jobs.Cancel(tag, false), "cancel the consumer of queue %q", queue)
	}
	return r.consume(queue, tag)
}

// consume adds a consumer that is there to be counted.
func (r *brokerRegistry) consume(queue, tag string) error {
	if err := r.s.ensure(queue, r.job.plain()); err != nil {
		return err
	}
	messages, err := r.s.jobs.Consume(queue, tag, true, false, false, false, nil)
	if err != nil {
		return explain(err, "consume from queue %q", queue)
	}
	r.s.counted.Go(func() {
		for range messages { // whoever sent one was wrong here
		}
	})
	return nil
}
