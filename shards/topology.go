package shards

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
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
	// realQueueTimeout bounds the question about a queue that may be anywhere, on a
	// node that is down too.
	realQueueTimeout = 2 * time.Second
	// missingFor and refusedFor are how long a negative answer is remembered.
	missingFor = time.Second
	refusedFor = time.Second
	// resolveAtOnce bounds the exchanges resolved at the same time in the
	// background, requestsAtOnce the requests to one node for one exchange.
	resolveAtOnce  = 4
	requestsAtOnce = 16
)

// Topology is all sharded exchanges of one vhost: it finds out what they are in
// the broker, and declares and binds their shards. It is safe for concurrent use.
type Topology struct {
	vhost  string
	nodes  nodes
	log    Logger
	routes routes

	ctx    context.Context // ends at Close
	cancel context.CancelFunc
	start  sync.Once
	retry  chan struct{} // capacity 1: unfinished has changed
	again  chan struct{} // capacity 1: a node is there again
	lost   chan struct{} // capacity 1: a node is down

	node  *coordination.Node // see participant.go
	alone bool               // node has no other proxies to decide with

	fencer Fencer // see barrier.go; nil: nobody publishes

	leftovers leftovers // see replicated.go

	listMu sync.Mutex           // taken under the node's lock, before those of an exchange
	listed map[string]*Exchange // by name: what is reported to the coordination

	reconfigured sync.Mutex // held by Reconfigure and while Close closes the brokers

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
		vhost: vhost, log: log,
		ctx: ctx, cancel: cancel, retry: make(chan struct{}, 1), again: make(chan struct{}, 1), lost: make(chan struct{}, 1),
		unfinished: make(map[*Exchange]time.Time),
		listed:     make(map[string]*Exchange),
	}
	t.nodes.init(brokers)
	t.routes.init(vhost, policies)
	t.Coordinate(nil)
	for _, b := range brokers {
		t.wire(b)
	}
	return t
}

// wire has a broker tell when its connection is lost and when it is back.
func (t *Topology) wire(b Broker) {
	if d, ok := b.(Disconnector); ok {
		d.OnDisconnect(func() {
			if node := b.Node(); node != "" {
				t.nodeFailed(node, nil)
			}
		})
	}
	if r, ok := b.(Reconnector); ok {
		r.OnReconnect(func() {
			node := b.Node()
			t.nodeAnswered(node, t.nodes.asking(node))
			signal(t.again)
		})
	}
}

// Start begins, in the background, to set up the existing exchanges that
// policies name literally, and to look after all that are set up, until ctx ends
// or Close is called: what is deleted or changed at the broker is found out within
// seconds, and what cannot be set up is tried again. Further calls do nothing.
func (t *Topology) Start(ctx context.Context) {
	t.start.Do(func() {
		t.node.Start(t.ctx) // sessions need it until Close
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
	errs := []error{t.node.Close()}
	t.cancel()
	t.running.Wait()
	t.reconfigured.Lock()
	defer t.reconfigured.Unlock()
	for _, b := range t.nodes.all() {
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
	return t.groupOf(x)
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
