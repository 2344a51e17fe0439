// Package sink is a broker stand-in for measuring proxies: it speaks AMQP 0-9-1, throws every message away, counts
// exactly, and can send deliveries as fast as the socket takes them. It keeps a registry of exchanges, queues and
// bindings, with RabbitMQ's answers to declares, so that a proxy's control connection finds a broker it can work with.
//
// It is strict on purpose: content out of order, a frame with a wrong end or a sharded message without its shard key
// is a failure of the run (see [Sink.Err]), never a lower number.
package sink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// NodeName is the sink's name as a RabbitMQ node.
const NodeName = "sink@localhost"

// Sink is a running broker stand-in. Safe for concurrent use.
type Sink struct {
	listener net.Listener
	registry *registry
	tally    atomic.Pointer[Tally]
	conns    sync.WaitGroup
	beats    atomic.Uint64
	failed   chan struct{} // closed at the first failure
	closing  chan struct{} // closed by Close

	mu   sync.Mutex
	open map[net.Conn]bool // nil when closed
	err  error             // the first failure
}

// Listen starts a sink on a TCP address; port 0 picks a free one.
func Listen(address string) (*Sink, error) {
	return listen(address, &net.ListenConfig{})
}

func listen(address string, how *net.ListenConfig) (*Sink, error) {
	l, err := how.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	s := &Sink{
		listener: l, registry: newRegistry(), open: map[net.Conn]bool{},
		failed: make(chan struct{}), closing: make(chan struct{}),
	}
	s.conns.Go(s.accept)
	return s, nil
}

// Addr is the address the sink listens on.
func (s *Sink) Addr() string { return s.listener.Addr().String() }

// Heartbeats is the number of heartbeats received so far.
func (s *Sink) Heartbeats() uint64 { return s.beats.Load() }

// Close ends all connections and waits for their goroutines. It is called once.
func (s *Sink) Close() error {
	err := s.listener.Close()
	close(s.closing)
	s.mu.Lock()
	for c := range s.open {
		_ = c.Close() // its goroutine notices
	}
	s.open = nil
	s.mu.Unlock()
	s.conns.Wait()
	return err
}

// Err is the first thing that went wrong: a peer that broke the protocol or a message without its shard key.
func (s *Sink) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *Sink) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		close(s.failed)
	}
}

func (s *Sink) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil { // closed
			return
		}
		s.mu.Lock()
		alive := s.open != nil
		if alive {
			s.open[c] = true
		}
		s.mu.Unlock()
		if !alive {
			_ = c.Close()
			return
		}
		s.conns.Go(func() { s.serve(c) })
	}
}

func (s *Sink) serve(c net.Conn) {
	conn := newConn(s, c)
	err := conn.run()
	_ = c.Close()
	conn.wait()
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
	if !errors.Is(err, errGone) {
		s.fail(fmt.Errorf("sink: connection from %s: %w", c.RemoteAddr(), err))
	}
}

// Count replaces the present tally by a new one, which counts the messages published to one exchange. Call it between
// runs, while nothing is being published. With sharded, messages are sampled, and each sample must carry exactly one
// shard key in BCC, bound to that exchange in the registry.
func (s *Sink) Count(exchange string, sharded bool) *Tally {
	t := &Tally{sink: s, exchange: exchange, sharded: sharded, queues: map[string]uint64{}, changed: make(chan struct{}, 1)}
	s.tally.Store(t)
	return t
}

// sampleEvery is how many messages there are to one that is looked into. It is a prime: a number that divides the
// client's cycle of keys would look at the same key for ever.
const sampleEvery = 997

// Tally counts the messages to one exchange.
type Tally struct {
	sink     *Sink
	exchange string
	sharded  bool
	messages atomic.Uint64
	wanted   atomic.Uint64
	changed  chan struct{} // has an element when messages may have reached wanted

	mu     sync.Mutex
	queues map[string]uint64 // samples by the queue their shard key is bound to
}

// Messages is the number of messages received whole.
func (t *Tally) Messages() uint64 { return t.messages.Load() }

// Samples returns how many of the sampled messages went to each queue.
func (t *Tally) Samples() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[string]uint64, len(t.queues))
	for q, n := range t.queues {
		out[q] = n
	}
	return out
}

// Await waits until n messages have been received. It fails when the sink does, or with ctx. One goroutine at a time.
func (t *Tally) Await(ctx context.Context, n uint64) error {
	t.wanted.Store(n)
	for t.Messages() < n {
		select {
		case <-t.changed:
		case <-t.sink.failed:
			return t.sink.Err()
		case <-ctx.Done():
			return fmt.Errorf("%d of %d messages arrived: %w", t.Messages(), n, context.Cause(ctx))
		}
	}
	return t.sink.Err()
}

// add counts messages, many at a time: the counter is shared by all connections.
func (t *Tally) add(n uint64) {
	if wanted := t.wanted.Load(); t.messages.Add(n) >= wanted && wanted != 0 {
		select {
		case t.changed <- struct{}{}:
		default:
		}
	}
}
