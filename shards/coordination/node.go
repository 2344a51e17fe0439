package coordination

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Errors of Node.Plan.
var (
	// ErrClosed is returned after Node.Close.
	ErrClosed = errors.New("coordination closed")
	// ErrNoPlan: the context ended before anything was decided on the exchange.
	ErrNoPlan = errors.New("nothing decided on the exchange yet")

	errNoTopologist = errors.New("nobody to change shards at the broker")
	errNotAwaited   = errors.New("this proxy does not lead any more")
)

// Logger takes what is worth a line in the log; key-value pairs follow the message.
type Logger interface {
	Info(msg string, keyvals ...any)
	Warn(msg string, keyvals ...any)
}

// ExchangeReporter is a Participant that can report on one exchange alone, which
// makes Node.Changed cheaper.
type ExchangeReporter interface {
	// ReportOn returns what Report has on an exchange, and whether it has any. It
	// must not block.
	ReportOn(exchange string) (ExchangeReport, bool)
}

// Watcher is a Participant that wants to know of exchanges others have to do with.
type Watcher interface {
	// Seen says that another proxy has come to report an exchange. It must not block
	// nor call Node.
	Seen(exchange string)
}

// NodeOptions are what a Node is made of.
type NodeOptions struct {
	// Transport connects to the other proxies; Node.Close closes it. nil: there are
	// none, this proxy leads, and nothing is stored.
	Transport Transport
	// Participant is this proxy; required.
	Participant Participant
	// Topologist changes shards at the broker while this proxy leads. Without one
	// nothing is changed there, and shard sets stay as they are.
	Topologist Topologist
	// Log may be nil.
	Log Logger
	// Timing is for tests; the zero value is right.
	Timing Timing
}

// Node runs the coordination of one virtual host for one proxy. It is safe for
// concurrent use.
//
// Lock order: sessions, then mu, then what Participant locks. Participant is
// called with mu held; Transport and Topologist are not.
type Node struct {
	o     NodeOptions
	began time.Time
	ctx   context.Context // ends at Close
	stop  context.CancelFunc
	once  sync.Once

	mu      sync.Mutex
	core    *Core
	waiters map[string]chan struct{} // by exchange: closed at the next Apply
	started bool
	closed  bool
	running sync.WaitGroup
	kick    chan struct{} // capacity 1: Wake may be earlier now
	outbox  outbox
	effects chan struct{} // slots for what the topologist does at once

	// The last computation in Changed: when it ended and how long it took.
	computed time.Duration
	cost     time.Duration
	stale    map[string]bool // exchanges whose Changed was put off

	refusal time.Time // when a message was last said to have been refused; run's
}

const (
	// manyConsumers is from how many of this proxy on Changed may be put off.
	manyConsumers = 64
	// effectsAtOnce bounds the topologist's calls at one time, effectTimeout each.
	effectsAtOnce = 4
	effectTimeout = 15 * time.Second
	// storeTimeout and sendTimeout bound the transport's calls.
	storeTimeout = 10 * time.Second
	sendTimeout  = 5 * time.Second
	aliveTimeout = 2 * time.Second
	lockTimeout  = 2 * time.Second
	// refusedEvery is how often at most messages that are not understood are logged.
	refusedEvery = time.Minute
)

// NewNode returns the coordination of one proxy. Without a transport it decides
// from now on; with one, and for changes of shards, it needs Start. Close must be
// called in the end.
func NewNode(o NodeOptions) *Node {
	if o.Log == nil {
		o.Log = discard{}
	}
	id := "alone"
	if o.Transport != nil {
		id = o.Transport.ID()
	}
	n := &Node{
		o: o, began: time.Now(), core: NewCore(id, o.Transport == nil, o.Timing),
		waiters: make(map[string]chan struct{}), kick: make(chan struct{}, 1),
		effects: make(chan struct{}, effectsAtOnce), stale: make(map[string]bool),
	}
	_, n.core.local.lockable = o.Transport.(Locker)
	n.ctx, n.stop = context.WithCancel(context.Background())
	n.outbox.init()
	return n
}

// Start begins to exchange messages and to keep time, until ctx ends or Close is
// called. Further calls do nothing.
func (n *Node) Start(ctx context.Context) {
	n.once.Do(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.closed {
			return
		}
		n.started = true
		n.running.Go(func() { n.run(ctx) })
		if n.o.Transport != nil {
			n.running.Go(n.send)
		}
	})
}

// Changed says that the participant's report on an exchange has changed. When
// this proxy leads, what follows has been applied on return, unless calls come
// faster than they can be dealt with: then a moment later. Callers may hold
// session locks, but none that Report or Apply take.
func (n *Node) Changed(exchange string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	// Among many consumers a computation that is long compared with the time since
	// the last one is put off, so that a thousand joins cost some and not a thousand.
	now := n.now()
	if n.started && n.core.ownConsumers(exchange) >= manyConsumers && now-n.computed < 4*n.cost {
		n.stale[exchange] = true
		n.wake()
		return
	}
	n.compute(exchange)
	n.computed = n.now()
	n.cost = n.computed - now
	n.wake()
}

// compute passes the report on one exchange to the core, and again as long as that
// has something applied. mu is held.
func (n *Node) compute(exchange string) {
	reporter, ok := n.o.Participant.(ExchangeReporter)
	if !ok || n.core.WantsReport(n.now(), nil) {
		n.settle()
		return
	}
	report, has := reporter.ReportOn(exchange)
	n.core.OwnExchange(n.now(), exchange, report, has)
	if n.perform() {
		n.settle()
	}
}

// settle passes the report to the core until nothing follows from it. mu is held.
func (n *Node) settle() {
	// What is applied changes the report once or twice; the bound is for a
	// participant that never comes to rest.
	for range 10 {
		n.core.Own(n.now(), n.o.Participant.Report())
		if !n.perform() {
			return
		}
	}
}

// Plan returns what was decided last on an exchange that the participant reports,
// and waits until something is. Without a leader this proxy decides for itself
// after three seconds. Errors: ErrClosed, or ErrNoPlan with the context's.
func (n *Node) Plan(ctx context.Context, exchange string) (*Plan, error) {
	for {
		p, wait, err := n.planOrWait(exchange)
		if p != nil || err != nil {
			return p, err
		}
		select {
		case <-wait:
		case <-n.ctx.Done():
			return nil, ErrClosed
		case <-ctx.Done():
			n.giveUp(exchange, wait)
			return nil, fmt.Errorf("%w: '%s': %w", ErrNoPlan, exchange, context.Cause(ctx))
		}
	}
}

// giveUp forgets a wait, lest those for exchanges that come to nothing pile up. Any
// other that waits there begins again.
func (n *Node) giveUp(exchange string, wait chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiters[exchange] == wait {
		close(wait)
		delete(n.waiters, exchange)
	}
}

func (n *Node) planOrWait(exchange string) (*Plan, chan struct{}, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, nil, ErrClosed
	}
	if p := n.core.Plan(exchange); p != nil {
		return p, nil, nil
	}
	n.compute(exchange)
	n.wake()
	if p := n.core.Plan(exchange); p != nil {
		return p, nil, nil
	}
	if n.waiters[exchange] == nil {
		n.waiters[exchange] = make(chan struct{})
	}
	return nil, n.waiters[exchange], nil
}

// Close says good-bye to the other proxies, ends what runs, waits for it, and
// closes the transport.
func (n *Node) Close() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	n.core.Bye(n.now())
	n.perform()
	n.closed = true
	n.mu.Unlock()
	n.stop()
	n.running.Wait()
	if n.o.Transport == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, s := range n.outbox.take() {
		if n.o.Transport.Send(ctx, s.body) != nil {
			break // the others find out by themselves, if later
		}
	}
	return n.o.Transport.Close()
}

// now is the time the core goes by.
func (n *Node) now() time.Duration { return time.Since(n.began) }

// wake has run look at the clock anew.
func (n *Node) wake() {
	select {
	case n.kick <- struct{}{}:
	default:
	}
}

// discard is the Logger of those who want none.
type discard struct{}

func (discard) Info(string, ...any) {}
func (discard) Warn(string, ...any) {}
