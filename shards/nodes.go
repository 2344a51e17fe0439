package shards

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// nodes is the cluster as a Topology knows it: the control connections, and which
// nodes are down. A node is taken to be down from the moment its control
// connection is lost or it leaves a request unanswered, until it answers again.
// It is safe for concurrent use.
type nodes struct {
	brokers atomic.Pointer[[]Broker]
	prefer  atomic.Pointer[Broker] // the one that last answered

	mu     sync.Mutex // a leaf
	losses map[string]uint64
	down   map[string]bool
	probed bool // probeDown runs
}

func (n *nodes) init(brokers []Broker) {
	n.losses, n.down = make(map[string]uint64), make(map[string]bool)
	n.set(brokers)
}

func (n *nodes) set(brokers []Broker) {
	brokers = slices.Clone(brokers)
	n.brokers.Store(&brokers)
}

// all returns the brokers, one per node; not to be modified.
func (n *nodes) all() []Broker { return *n.brokers.Load() }

// broker returns the connection to a node, nil when there is none: the shards of
// such a node are known from other proxies, which have a newer configuration.
func (n *nodes) broker(node string) Broker {
	for _, b := range n.all() {
		if b.Node() == node {
			return b
		}
	}
	return nil
}

// asking is to be called before a node is asked; its result goes to answered.
func (n *nodes) asking(node string) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.losses[node]
}

// answered notes that the node has answered what was asked when asking returned
// asked, and reports whether that is news. An answer to what was asked before the
// node was lost tells nothing.
func (n *nodes) answered(node string, asked uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.losses[node] != asked || !n.down[node] {
		return false
	}
	delete(n.down, node)
	return true
}

// failed notes that the node is down, and reports whether that is news.
func (n *nodes) failed(node string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.losses[node]++
	news := !n.down[node]
	n.down[node] = true
	return news
}

// startProbing reports whether probeDown is to be started.
func (n *nodes) startProbing() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	start := !n.probed
	n.probed = true
	return start
}

// stopProbing reports whether probeDown is to end, for no node is down.
func (n *nodes) stopProbing() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.down) == 0 {
		n.probed = false
	}
	return !n.probed
}

// isDown reports whether the node is taken to be down.
func (n *nodes) isDown(node string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.down[node]
}

// downNames returns the nodes taken to be down, by name.
func (n *nodes) downNames() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.down))
}

// order returns the brokers in the order to try them in when any will do: the one
// that last answered first, those of nodes that are down last.
func (n *nodes) order() []Broker {
	brokers := n.all()
	var up, down []Broker
	first := 0
	if last := n.prefer.Load(); last != nil {
		first = max(slices.Index(brokers, *last), 0)
	}
	for i := range brokers {
		b := brokers[(first+i)%len(brokers)]
		if n.isDown(b.Node()) {
			down = append(down, b)
		} else {
			up = append(up, b)
		}
	}
	return append(up, down...)
}

// anyUp returns a broker that is not known to be down, or any; nil without one.
func (n *nodes) anyUp() Broker {
	if order := n.order(); len(order) > 0 {
		return order[0]
	}
	return nil
}

// usable reports whether some node other than this one is not known to be down,
// so that this one need not be tried.
func (n *nodes) usable(but string) bool {
	return slices.ContainsFunc(n.all(), func(b Broker) bool {
		return b.Node() != but && !n.isDown(b.Node())
	})
}

// nodeNames returns the names of all nodes, or why one of them cannot be told.
func (t *Topology) nodeNames(ctx context.Context) ([]string, error) {
	brokers := t.nodes.all()
	names := make([]string, len(brokers))
	for i, b := range brokers {
		name, err := b.NodeName(ctx)
		if err != nil {
			return nil, err
		}
		names[i] = name
	}
	return names, nil
}

// nodeFailed takes a node to be down: its shards get no publishes from now on,
// and what else follows from it is done in the background.
func (t *Topology) nodeFailed(node string, why error) {
	if t.ctx.Err() != nil || !t.nodes.failed(node) {
		return
	}
	kv := []any{"node", node, "vhost", t.vhost}
	if why != nil {
		kv = append(kv, "error", why.Error())
	}
	t.log.Warn("node is down", kv...)
	for _, x := range t.routes.exchanges() {
		t.dropDown(x)
	}
	signal(t.lost)
	if t.nodes.startProbing() {
		t.spawn(t.probeDown)
	}
}

// nodeAnswered takes a node to be up again that has answered what was asked when
// nodes.asking returned asked.
func (t *Topology) nodeAnswered(node string, asked uint64) {
	if t.nodes.answered(node, asked) {
		t.log.Info("node is up", "node", node, "vhost", t.vhost)
		signal(t.again)
	}
}

// store makes a state the exchange's present one, without the shards of nodes
// that are down: a node may have been lost since the state was made. A node lost
// after the look at them here is taken out by dropDown, which waits.
func (t *Topology) store(x *Exchange, state *State) *State {
	x.work.stores.Lock()
	defer x.work.stores.Unlock()
	return t.storeLocked(x, state)
}

func (t *Topology) storeLocked(x *Exchange, state *State) *State {
	live, fewer := t.withoutDown(state)
	keep, paused := x.Policy().Definition.OnNodeDown == Keep, x.work.pauses(state)
	if fewer || state.Set != nil && keep != state.Keep || paused != state.Paused {
		next := *state // states are shared, save by amend
		next.Live, next.Keep, next.Paused = live, keep, paused
		state = &next
	}
	x.work.gate(paused)
	x.state.Store(state)
	return state
}

// amend changes the exchange's State: fn gets a copy of the present one.
func (t *Topology) amend(x *Exchange, fn func(*State)) *State {
	x.work.stores.Lock()
	defer x.work.stores.Unlock()
	next := *x.State()
	fn(&next)
	return t.storeLocked(x, &next)
}

// dropDown takes the shards of nodes that are down out of the exchange's State.
func (t *Topology) dropDown(x *Exchange) {
	x.work.stores.Lock()
	defer x.work.stores.Unlock()
	if _, fewer := t.withoutDown(x.State()); fewer {
		t.storeLocked(x, x.State())
	}
}

// withoutDown returns state's Live without the shards of nodes that are down, and
// whether any was among them. When that leaves none it changes nothing: there is
// nowhere to place their messages instead.
func (t *Topology) withoutDown(state *State) (live []int, fewer bool) {
	down := t.nodes.downNames()
	if state.Set == nil || len(down) == 0 {
		return state.Live, false
	}
	live = []int{}
	for i := range state.Set.Len() {
		switch {
		case !state.IsLive(i):
		case slices.Contains(down, state.Set.At(i).Node):
			fewer = true
		default:
			live = append(live, i)
		}
	}
	if !fewer || len(live) == 0 {
		return state.Live, false
	}
	return live, true
}

// onAny runs fn with the broker that answered last, and with the others if it is
// down: exchanges and names are the same on every node of a cluster. Nodes known
// to be down come last.
func (t *Topology) onAny(ctx context.Context, fn func(Broker) error) error {
	return t.onAnyBut(ctx, nil, fn)
}

// onAnyBut is onAny without some of the nodes.
func (t *Topology) onAnyBut(ctx context.Context, not map[string]bool, fn func(Broker) error) error {
	var errs []error
	for _, b := range t.nodes.order() {
		if name := b.Node(); name != "" && not[name] {
			continue
		}
		err := fn(b)
		if !nodeDown(err) {
			t.nodes.prefer.Store(&b)
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
