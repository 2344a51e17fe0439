package shards

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardmq/shardmq/shards/internal/parallel"
)

// ErrUnreachable is matched by the errors of a Broker that gave no answer: the
// node cannot be reached, or the connection or the deadline was lost.
var ErrUnreachable = errors.New("broker unreachable")

// ErrTopologyClosed is returned after Topology.Close.
var ErrTopologyClosed = errors.New("topology closed")

const (
	// resolveTimeout bounds one look at an exchange with all that follows from it.
	resolveTimeout = 10 * time.Second
	// missingFor and refusedFor are how long a negative answer is remembered.
	missingFor = 5 * time.Second
	refusedFor = time.Second
	// retryFirst and retryMost bound the pause before unfinished exchanges are
	// looked at again.
	retryFirst = 250 * time.Millisecond
	retryMost  = 5 * time.Second
	// resolveAtOnce bounds the exchanges resolved at the same time in the
	// background, requestsAtOnce the requests to one node for one exchange.
	resolveAtOnce  = 4
	requestsAtOnce = 16
)

// Topology is all sharded exchanges of one vhost: it finds out what they are in
// the broker, and declares and binds their shards. It is safe for concurrent use.
type Topology struct {
	vhost    string
	policies *Policies
	brokers  []Broker
	log      Logger
	routes   routes
	prefer   atomic.Int32 // index of the broker that last answered

	ctx    context.Context // ends at Close
	cancel context.CancelFunc
	retry  chan struct{} // capacity 1: unfinished is not empty

	mu         sync.Mutex // a leaf: nothing else is locked or called under it
	closed     bool
	running    sync.WaitGroup
	unfinished map[*Exchange]struct{}
}

// NewTopology returns the topology of a vhost on a cluster, with one Broker per
// node. Nothing is asked of the brokers before Start or Resolve. Close must be
// called in the end; it closes the brokers too. log may be nil.
func NewTopology(vhost string, policies *Policies, brokers []Broker, log Logger) *Topology {
	if log == nil {
		log = discard{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	t := &Topology{
		vhost: vhost, policies: policies, brokers: brokers, log: log,
		ctx: ctx, cancel: cancel, retry: make(chan struct{}, 1),
		unfinished: make(map[*Exchange]struct{}),
	}
	t.routes.init(vhost, policies)
	return t
}

// Start begins, in the background, to set up the existing exchanges that
// policies name literally, and goes on trying while brokers are unreachable,
// until ctx ends or Close is called.
func (t *Topology) Start(ctx context.Context) {
	for _, x := range t.routes.literals() {
		t.finishLater(x)
	}
	t.spawn(func() { t.finishAll(ctx) })
}

// Close ends what runs in the background, waits for it, and closes the brokers.
func (t *Topology) Close() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	t.running.Wait()
	var errs []error
	for _, b := range t.brokers {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

// Lookup returns what a publish to that exchange name concerns, or nil if it is
// none of the proxy's business. It does not allocate for a name seen lately, nor
// for any unknown name while all policies are literal. The Route is for the
// method at hand: look it up again for the next.
func (t *Topology) Lookup(name []byte) *Route { return t.routes.lookup(name) }

// Group returns the consumers this proxy serves on an exchange.
func (t *Topology) Group(x *Exchange) *Group {
	x = t.routes.canonical(x)
	return x.groupOf(func(ctx context.Context) ([]Count, error) { return t.Counts(ctx, x) })
}

// spawn runs fn in a goroutine that Close waits for.
func (t *Topology) spawn(fn func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.running.Go(fn)
	return true
}

// finishLater has an exchange resolved again in the background.
func (t *Topology) finishLater(x *Exchange) {
	t.mu.Lock()
	t.unfinished[x] = struct{}{}
	t.mu.Unlock()
	select {
	case t.retry <- struct{}{}:
	default:
	}
}

// finishAll resolves unfinished exchanges, with a growing pause while some of
// them cannot be finished.
func (t *Topology) finishAll(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	pause := retryFirst
	for {
		select {
		case <-t.retry:
		case <-ctx.Done():
			return
		}
		if t.finishOnce(ctx) {
			pause = retryFirst
			continue
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, retryMost)
	}
}

// finishOnce resolves all that is unfinished now and reports whether nothing is
// left to do.
func (t *Topology) finishOnce(ctx context.Context) bool {
	t.mu.Lock()
	var todo []*Exchange
	for x := range t.unfinished {
		todo = append(todo, x)
	}
	clear(t.unfinished)
	t.mu.Unlock()
	_ = parallel.Do(ctx, len(todo), resolveAtOnce, func(ctx context.Context, i int) error {
		_, err := t.Resolve(ctx, todo[i], true)
		var refused *BrokerError
		switch {
		case err == nil, ctx.Err() != nil:
		case errors.As(err, &refused): // only an operator can change that
			t.log.Warn("exchange cannot be set up", "exchange", todo[i].Name, "vhost", t.vhost,
				"error", err.Error(), "missing_right", refused.Right)
		default:
			t.finishLater(todo[i])
		}
		return nil
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.unfinished) == 0
}

// onAny runs fn with the broker that answered last, and with the others if it is
// unreachable: exchanges and names are the same on every node of a cluster.
func (t *Topology) onAny(ctx context.Context, fn func(Broker) error) error {
	var errs []error
	first := int(t.prefer.Load())
	for i := range t.brokers {
		at := (first + i) % len(t.brokers)
		err := fn(t.brokers[at])
		if err == nil || !errors.Is(err, ErrUnreachable) {
			t.prefer.Store(int32(at))
			return err
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	if len(errs) == 0 {
		return ErrUnreachable
	}
	return errors.Join(errs...)
}

// brokerOf returns the connection to a node, by position if not by name: the
// names were read from the brokers, so one of them has it.
func (t *Topology) brokerOf(node string) Broker {
	for _, b := range t.brokers {
		if b.Node() == node {
			return b
		}
	}
	return t.brokers[0]
}

// versionAtLeast compares "4.3.6" and the like by their first two numbers; a
// version that is no such text is older than any.
func versionAtLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, errA := strconv.Atoi(parts[0])
	b, errB := strconv.Atoi(parts[1])
	if errA != nil || errB != nil {
		return false
	}
	return a > major || a == major && b >= minor
}

// discard is the Logger of those who want none.
type discard struct{}

func (discard) Info(string, ...any) {}
func (discard) Warn(string, ...any) {}
