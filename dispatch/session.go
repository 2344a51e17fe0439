package dispatch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// session is a job's connection while it stands: the consumers of its queues, and the publisher for those to be tried
// again. Its consumers belong to the pool's loop; the rest is safe for concurrent use.
type session struct {
	conn *connection
	jobs *amqp.Channel // consumers and acknowledgements
	// dialAgain opens the connection that jobs are published again by, which is there once it is needed.
	dialAgain func(context.Context) (*connection, error)
	// gone is closed when the session is of no use any more, and why says the reason.
	gone chan struct{}
	once sync.Once
	why  error

	consumers []string // tags of those on the job's queue, the oldest first
	due       string   // the tag of that on the due queue; "" = there is none
	dueFor    int      // the prefetch of that
	noDue     bool     // where there is an order to keep: there is no due queue
	tags      int
	order     Order
	sequence  sequence       // where there is an order to keep
	feeding   sync.WaitGroup // those that hand on deliveries
	counted   sync.WaitGroup // those of consumers that are there to be counted
	cancelled chan string    // tags that the broker has cancelled

	mu       sync.Mutex
	declared map[string]bool // queues beside the job's own

	publishing sync.Mutex // guards what follows; held while it is opened
	pub        *publisher // nil: not yet
	shut       bool

	stuck stuck // jobs that it cannot put into another queue
}

// connect opens a session and declares what the job needs. The pool closes it.
func connect(ctx context.Context, job *Job, tlsConfig *tls.Config) (*session, error) {
	s, err := dial(ctx, job, tlsConfig)
	if err != nil {
		return nil, err
	}
	if err := job.declareJob(s.jobs); err != nil {
		s.close()
		return nil, err
	}
	s.cancelled = s.jobs.NotifyCancel(make(chan string, 2*MaxExecutors+1+int(signs)))
	return s, nil
}

// dial opens a session. It gives up when ctx ends; from then on the session does not depend on it.
func dial(ctx context.Context, job *Job, tlsConfig *tls.Config) (s *session, err error) {
	conn, err := dialServer(ctx, job, tlsConfig, "dispatch: "+job.Name)
	if err != nil {
		return nil, err
	}
	s = &session{conn: conn, gone: make(chan struct{}), order: job.Order, declared: map[string]bool{},
		dialAgain: func(ctx context.Context) (*connection, error) {
			return dialServer(ctx, job, tlsConfig, "dispatch: "+job.Name+" (again)")
		}}
	if s.jobs, err = conn.Channel(); err != nil {
		conn.close()
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	closed := s.jobs.NotifyClose(make(chan *amqp.Error, 1))
	go func() {
		if why := <-closed; why != nil { // nil: by us
			s.end(why)
		}
		s.end(errGone)
	}()
	return s, nil
}

// publisher returns that of the session, and opens one if there is none that works.
func (s *session) publisher(ctx context.Context) (*publisher, error) {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	switch {
	case s.shut:
		return nil, errGone
	case s.pub != nil && !s.pub.over():
		return s.pub, nil
	}
	conn, err := s.dialAgain(ctx)
	if err != nil {
		return nil, err
	}
	wait := patience
	if s.pub != nil {
		wait = s.pub.patienceAfter()
	}
	pub, err := newPublisher(conn, wait)
	if err != nil {
		conn.close()
		return nil, err
	}
	s.pub = pub
	return pub, nil
}

// publish returns nil once the broker is responsible for the message and a queue has it.
func (s *session) publish(ctx context.Context, queue string, m amqp.Publishing) error {
	pub, err := s.publisher(ctx)
	if err != nil {
		return err
	}
	return pub.publish(ctx, "", queue, m)
}

// stopPublishing ends what is being published. With hangUp as end it is, also where the broker does not read it.
func (s *session) stopPublishing(end func(*connection)) {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	s.shut = true
	if s.pub != nil {
		end(s.pub.line)
	}
}

// end notes that the session is of no use any more.
func (s *session) end(why error) {
	s.once.Do(func() {
		s.why = why
		close(s.gone)
	})
}

func (s *session) over() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// close ends the session. Closing the channel first makes sure that the broker has what was acknowledged.
func (s *session) close() {
	s.stopPublishing((*connection).close)
	late := time.AfterFunc(closeTimeout, s.conn.hangUp) // a broker may be there and not answer
	defer late.Stop()
	_ = s.jobs.Close() // it is over one way or the other
	s.end(errGone)
	s.conn.close()
	s.feeding.Wait()
	s.counted.Wait()
}

// consume starts a consumer whose deliveries are given to each, one after the other. due: the queue is the due queue.
func (s *session) consume(queue string, due bool, prefetch int, each func(*item)) (tag string, err error) {
	if err := s.jobs.Qos(prefetch, 0, false); err != nil {
		return "", fmt.Errorf("set the prefetch to %d: %w", prefetch, err)
	}
	s.tags++
	tag = fmt.Sprintf("dispatch-%d", s.tags)
	deliveries, err := s.jobs.Consume(queue, tag, false, false, false, false, nil)
	if err != nil {
		return "", explain(err, "consume from queue %q", queue)
	}
	s.feeding.Go(func() {
		for d := range deliveries {
			it := newItem(s, d, s.order, due)
			if s.order.By() {
				s.sequence.push(it, each)
				continue
			}
			each(it)
		}
	})
	return tag, nil
}

// ensure declares a queue beside the job's own, once.
func (s *session) ensure(name string, args amqp.Table) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.declared[name] {
		return nil
	}
	err := s.aside(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(name, true, false, false, false, args)
		return err
	})
	if err != nil {
		return explain(err, "declare queue %q", name)
	}
	s.declared[name] = true
	return nil
}

// aside asks for something that may be refused, on a channel of its own: a refusal closes that.
func (s *session) aside(ask func(*amqp.Channel) error) error {
	ch, err := s.conn.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	if err := ask(ch); err != nil {
		return errors.Join(err, notClosed(ch.Close()))
	}
	return ch.Close()
}

// exists reports whether there is a queue of that name, as far as is told.
func (s *session) exists(name string) bool {
	return s.aside(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		return err
	}) == nil
}

// notClosed is nil for the error of closing what is closed.
func notClosed(err error) error {
	if errors.Is(err, amqp.ErrClosed) {
		return nil
	}
	return err
}

// forget has a queue declared anew: it was found missing.
func (s *session) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.declared, name)
}

// put declares a queue if need be, and publishes into it.
func (s *session) put(ctx context.Context, name string, args amqp.Table, m amqp.Publishing) error {
	if err := s.ensure(name, args); err != nil {
		return err
	}
	err := s.publish(ctx, name, m)
	if errors.Is(err, errNotRouted) {
		s.forget(name)
	}
	if err != nil {
		return explain(err, "publish into queue %q", name)
	}
	return nil
}
