package shards

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardmq/shardmq/shards/coordination"
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
	start  sync.Once
	retry  chan struct{} // capacity 1: unfinished has changed
	again  chan struct{} // capacity 1: a broker has connected anew

	mu         sync.Mutex // a leaf: nothing else is locked or called under it
	closed     bool
	running    sync.WaitGroup
	unfinished map[*Exchange]time.Time // and when they are due
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
		ctx: ctx, cancel: cancel, retry: make(chan struct{}, 1), again: make(chan struct{}, 1),
		unfinished: make(map[*Exchange]time.Time),
	}
	for _, b := range brokers {
		if r, ok := b.(Reconnector); ok {
			r.OnReconnect(func() { signal(t.again) })
		}
	}
	t.routes.init(vhost, policies)
	return t
}

// Coordinate has the topology decide together with the other proxies of tr. It
// is to be called before Start, Resolve and Group; without it the proxy decides
// for itself alone. Close closes tr.
func (t *Topology) Coordinate(tr coordination.Transport) {}

// Unsettled reports that deliveries of basic.get on a shard queue that await
// their acknowledgement have become more or fewer by delta.
func (t *Topology) Unsettled(x *Exchange, queue string, delta int) {}

// Start begins, in the background, to set up the existing exchanges that
// policies name literally, and to look after all that are set up, until ctx ends
// or Close is called: what is deleted or changed at the broker is found out within
// seconds, and what cannot be set up is tried again. Further calls do nothing.
func (t *Topology) Start(ctx context.Context) {
	t.start.Do(func() {
		for _, x := range t.routes.literals() {
			t.finishLater(x)
		}
		t.spawn(func() { t.untilClosed(ctx, t.finishAll) })
		t.spawn(func() { t.untilClosed(ctx, t.watch) })
	})
}

// untilClosed runs fn with a context that ends with ctx and at Close.
func (t *Topology) untilClosed(ctx context.Context, fn func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	fn(ctx)
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
	if x.group.Load() == nil {
		t.routes.keep(x)
		x = t.routes.canonical(x) // another one may have been quicker
	}
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

// onAny runs fn with the broker that answered last, and with the others if it is
// down: exchanges and names are the same on every node of a cluster.
func (t *Topology) onAny(ctx context.Context, fn func(Broker) error) error {
	return t.onAnyBut(ctx, nil, fn)
}

// onAnyBut is onAny without the nodes known to be down.
func (t *Topology) onAnyBut(ctx context.Context, down map[string]bool, fn func(Broker) error) error {
	var errs []error
	first := int(t.prefer.Load())
	for i := range t.brokers {
		at := (first + i) % len(t.brokers)
		if len(down) > 0 && down[t.brokers[at].Node()] {
			continue
		}
		err := fn(t.brokers[at])
		if !nodeDown(err) {
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
