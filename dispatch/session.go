package dispatch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// heartbeat is that of the dispatcher's connections.
const heartbeat = 10 * time.Second

// session is a job's connection while it stands: the consumers of its queues, and the publisher for those to be tried
// again. Its consumers belong to the pool's loop; the rest is safe for concurrent use.
type session struct {
	conn   *amqp.Connection
	socket net.Conn      // under conn
	jobs   *amqp.Channel // consumers and acknowledgements
	again  *amqp.Channel // publishes
	pub    *publisher
	// gone is closed when the session is of no use any more, and why says the reason.
	gone chan struct{}
	once sync.Once
	why  error

	consumers []string // tags of those on the job's queue, the oldest first
	due       string   // the tag of that on the due queue; "" = there is none
	dueFor    int      // the prefetch of that
	tags      int
	order     Order
	sequence  sequence       // where there is an order to keep
	feeding   sync.WaitGroup // those that hand on deliveries
	counted   sync.WaitGroup // those of consumers that are there to be counted
	cancelled chan string    // tags that the broker has cancelled

	mu       sync.Mutex
	declared map[string]bool // queues beside the job's own
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

// connectTimeout bounds connecting and logging in.
const connectTimeout = 10 * time.Second

// dial opens a session. It gives up when ctx ends; from then on the session does not depend on it.
func dial(ctx context.Context, job *Job, tlsConfig *tls.Config) (s *session, err error) {
	var socket net.Conn
	hangUp := func() bool { return true }
	dialer := net.Dialer{Timeout: connectTimeout}
	props := amqp.NewConnectionProperties()
	props.SetClientConnectionName("dispatch: " + job.Name)
	conn, err := amqp.DialConfig(string(job.Server.URL), amqp.Config{Heartbeat: heartbeat, TLSClientConfig: tlsConfig, Properties: props,
		Dial: func(network, address string) (net.Conn, error) {
			if socket, err = dialer.DialContext(ctx, network, address); err != nil {
				return nil, err
			}
			hangUp = context.AfterFunc(ctx, func() { _ = socket.Close() })
			return socket, socket.SetDeadline(time.Now().Add(connectTimeout)) // which amqp takes back
		}})
	if !hangUp() && err == nil {
		err = errors.Join(context.Cause(ctx), conn.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("connect to server %q: %w", job.Server.Name, err)
	}
	defer func() {
		if err != nil {
			_ = conn.Close() // the error that is returned says more
		}
	}()
	s = &session{conn: conn, socket: socket, gone: make(chan struct{}), order: job.Order, declared: map[string]bool{}}
	if s.jobs, err = conn.Channel(); err != nil {
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	if s.again, err = conn.Channel(); err != nil {
		return nil, fmt.Errorf("open a channel: %w", err)
	}
	for _, ch := range []*amqp.Channel{s.jobs, s.again} {
		closed := ch.NotifyClose(make(chan *amqp.Error, 1))
		go func() {
			if why := <-closed; why != nil { // nil: by us
				s.end(why)
			}
			s.end(errGone)
		}()
	}
	if s.pub, err = newPublisher(s.again); err != nil {
		return nil, err
	}
	return s, nil
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
	err := s.jobs.Close()
	s.end(errGone)
	if err == nil || errors.Is(err, amqp.ErrClosed) {
		err = s.conn.Close()
	}
	if err != nil {
		_ = s.conn.Close() // it is over one way or the other
	}
	s.feeding.Wait()
	s.counted.Wait()
}

// consume starts a consumer whose deliveries are given to each, one after the other.
func (s *session) consume(queue string, prefetch int, each func(*item)) (tag string, err error) {
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
			it := newItem(s, d, s.order)
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
	err := s.pub.publish(ctx, "", name, m)
	if errors.Is(err, errNotRouted) {
		s.forget(name)
	}
	if err != nil {
		return explain(err, "publish into queue %q", name)
	}
	return nil
}
