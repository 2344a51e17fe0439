package coordination

import "context"

// Shard is one queue of a sharded exchange.
type Shard struct {
	Queue string `json:"queue"`
	// Node is the cluster node the queue was placed on; "" when any node may be
	// asked about it (a replicated queue).
	Node string `json:"node,omitempty"`
	// Index counts within the node, or over all shards of a fixed total.
	Index int `json:"index"`
}

// Spec is what a proxy's configuration asks of an exchange: what decides its
// shards' names, and how they may be consumed. Specs are compared by Key.
type Spec struct {
	// Shards is what the configuration comes to on the nodes this proxy knows,
	// in name order.
	Shards []Shard `json:"shards"`
	// Ordered: one consumer per shard at most, and the next one only after the
	// former has settled all it was given (max-consumers-per-shard: 1).
	Ordered bool `json:"ordered,omitempty"`
	// Barrier: the shards are consumed until nothing is left in them, and nothing
	// published meanwhile, before others replace them (order-barrier).
	Barrier bool `json:"barrier,omitempty"`
	// Placement says in a few words by what messages are placed on shards, for
	// example "xxhash on routing key"; "" = the proxy does not say. Nothing is
	// decided by it, and Key does not have it: it is compared between proxies.
	Placement string `json:"placement,omitempty"`
}

// ConsumerReport is one client consumer on an exchange, as its proxy sees it.
type ConsumerReport struct {
	// ID names the consumer within its proxy.
	ID uint64 `json:"id"`
	// Node is the cluster node of its upstream connection, "" = unknown.
	Node string `json:"node,omitempty"`
	// Exclusive: it wants all shards and nobody else on them.
	Exclusive bool `json:"exclusive,omitempty"`
	// Left: it is gone, but still holds shards (see Held).
	Left bool `json:"left,omitempty"`
	// Held are the queues of the shards that nobody else may be granted yet: what
	// it was granted and has not given back. Sorted.
	Held []string `json:"held,omitempty"`
}

// ExchangeReport is what a proxy has and wants of one exchange.
type ExchangeReport struct {
	Want Spec `json:"want"`
	// Prepared is the highest generation whose shards are bound as this proxy
	// needs it, so that it could go over to it.
	Prepared uint64 `json:"prepared,omitempty"`
	// Routing is the generation that this proxy's publishes go by.
	Routing uint64 `json:"routing,omitempty"`
	// Fenced is the generation that this proxy has stopped publishing for: since it
	// has applied the pause nothing is published, and what was before is in its
	// shards. 0 while it publishes.
	Fenced uint64 `json:"fenced,omitempty"`
	// Consumers in join order.
	Consumers []ConsumerReport `json:"consumers,omitempty"`
	// Unsettled counts, per queue, attachments and deliveries not acknowledged,
	// whether or not their consumer is still there.
	Unsettled map[string]int `json:"unsettled,omitempty"`
	// Found are shards of the exchange that nobody wants and no plan knows: they
	// are consumed, unbound and removed as those of a former set.
	Found []Shard `json:"found,omitempty"`
}

// Plan is what the leader has decided on one exchange, as one proxy gets it. It
// is not to be modified.
type Plan struct {
	// Term and Version order plans: of two, the one with the higher term counts,
	// then the one with the higher version.
	Term, Version uint64
	// Generation numbers Set.
	Generation uint64
	// Set is what publishes are hashed over, in name order.
	Set []Shard
	// Next, of generation Generation+1, is to replace Set once every proxy is
	// prepared for it; nil when nothing is to change.
	Next []Shard
	// Old are shards of earlier sets that are still to be consumed.
	Old []Shard
	// Ordered as in Spec.
	Ordered bool
	// Pause: nothing is to be published until there is a plan without it. Next is
	// about to replace Set.
	Pause bool
	// Taken: a consumer of another proxy has the exchange to itself.
	Taken bool
	// Targets are the shards this proxy's consumers may consume, by consumer ID;
	// queues sorted. A consumer that is not there has none.
	Targets map[uint64][]string
}

// All returns every shard that is to be consumed: Set, Next and Old, each once,
// in name order.
func (p *Plan) All() []Shard { return union(p.Set, p.Next, p.Old) }

// Participant is a proxy as its coordination sees it. Its methods may be called
// from any goroutine, one at a time, with no lock of the caller's held that they
// could want.
type Participant interface {
	// Report returns what the proxy has and wants, by exchange. It must not block.
	Report() map[string]ExchangeReport
	// Apply hands over what has been decided on an exchange. It must not block.
	Apply(exchange string, p *Plan)
}

// Topologist does at the broker what only the leader may. Its methods are called
// from a goroutine of their own and may block until ctx ends.
type Topologist interface {
	// Prepare declares shards and binds them as far as the leader needs it.
	Prepare(ctx context.Context, exchange string, shards []Shard) error
	// Retire unbinds shards: nothing new reaches them.
	Retire(ctx context.Context, exchange string, shards []Shard) error
	// Idle reports whether a shard's node is up and it has no ready message.
	Idle(ctx context.Context, exchange string, shard Shard) (bool, error)
	// Remove deletes a shard if it has no message and no consumer, and reports
	// whether it is gone.
	Remove(ctx context.Context, exchange string, shard Shard) (bool, error)
	// Uncovered lists the queues among shards that have no consumer at the broker, or
	// only such as this proxy has there to help out.
	Uncovered(ctx context.Context, exchange string, shards []Shard) ([]string, error)
	// Loads counts what is in shards, in their order. A shard that is not there is
	// empty; one whose node does not answer is an error.
	Loads(ctx context.Context, exchange string, shards []Shard) ([]Load, error)
}

// Load is what the broker says of one shard.
type Load struct {
	Ready, Consumers uint32
}
