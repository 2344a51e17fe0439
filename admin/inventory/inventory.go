// Package inventory lists the shards there are at a broker, whether or not a
// proxy runs, and removes those that nobody wants any more. It asks over control
// connections, and listens to what running proxies tell each other.
package inventory

import (
	"context"
	"errors"
	"time"

	"github.com/shardmq/shardmq/shards"
)

// ErrNoNode is returned when no node has answered.
var ErrNoNode = errors.New("no RabbitMQ node has answered")

// Broker is what a look takes of the control connection to one node in one
// vhost; a shards.Broker has it.
type Broker interface {
	Node() string
	NodeName(ctx context.Context) (string, error)
	ExchangeExists(ctx context.Context, name string) (bool, error)
	QueueCounts(ctx context.Context, names []string) ([]shards.Count, error)
	UnbindQueue(ctx context.Context, queue, key, exchange string) error
	DeleteQueue(ctx context.Context, name string, ifUnused, ifEmpty bool) (messages uint32, err error)
}

// Stats are what RabbitMQ's management API knows of one queue.
type Stats struct {
	Unacked          *int64  // nil = it has not counted yet
	Publish, Deliver float64 // messages a second
	Type             string  // "classic", "quorum"; may be empty
	// Node is the one that the queue is on, of a replicated one its leader's; may be
	// empty.
	Node string
}

// Options say what to look at, in one vhost.
type Options struct {
	Vhost    string
	Policies *shards.Policies
	// Exchanges are looked at, whether or not a policy matches them; nil means all
	// that policies name literally.
	Exchanges []string
	Brokers   []Broker // one per node
	// Listen gathers what running proxies say, for at least that long; nil when
	// there is nothing to listen to.
	Listen func(ctx context.Context, atLeast time.Duration) (*View, error)
	// Insist tells running proxies something again and again, until ctx ends, and
	// then returns nil; nil when there is nobody to tell.
	Insist func(ctx context.Context, messages ...[]byte) error
	// Stats returns what the management API says of the vhost's queues, by name; nil
	// without such an API.
	Stats func(ctx context.Context) (map[string]Stats, error)
	// Warnings are those that there are already, for the listing.
	Warnings []string
	// Interval is the time between the two looks that rates come from; 0 = one look.
	Interval time.Duration
}

// Status says what a shard is to an exchange.
type Status string

// The states of a shard.
const (
	Active Status = "active" // publishes go to it
	Coming Status = "coming" // publishes will go to it
	// Draining: it is consumed until it is empty, then the leader removes it; but if
	// it is replicated it stays until somebody asks for its end.
	Draining Status = "draining"
	Surplus  Status = "surplus" // nobody wants it
)

// Listing is what there is in one vhost.
type Listing struct {
	Vhost string `json:"vhost"`
	// Leader is the ID of the proxy that leads, "" when none does; Term counts
	// elections. Proxies is how many have been heard.
	Leader    string     `json:"leader,omitempty"`
	Term      uint64     `json:"term,omitempty"`
	Proxies   int        `json:"proxies"`
	Exchanges []Exchange `json:"exchanges"`
	// Warnings say what could not be found out, so that something may be missing.
	Warnings []string `json:"warnings,omitempty"`

	view  *View
	found *found
	blind bool // the management API should have been asked and has not answered
}

// Exchange is one exchange and its shards.
type Exchange struct {
	Name   string  `json:"exchange"`
	Policy string  `json:"policy,omitempty"` // "" when none matches
	Shards []Shard `json:"shards"`           // by name
	Total  Numbers `json:"total"`
}

// Shard is one shard. Numbers that are not known are nil.
type Shard struct {
	Queue  string `json:"queue"`
	Node   string `json:"node,omitempty"` // of a replicated one the leader's; "" when it is not known
	Index  int    `json:"index"`
	Status Status `json:"status"`
	// Problem says why there are no numbers: the queue does not exist, or its node
	// does not answer. "" = there is none.
	Problem string `json:"problem,omitempty"`
	// Type is the queue's type as the management API names it, "" if not known.
	Type string `json:"type,omitempty"`
	Numbers

	home    string // the node to ask about it, "" = any
	planned bool   // the leader's plan has it, so that home says whether it is replicated
	present bool
	seen    map[string]int // unsettled deliveries, by proxy
}

// Numbers of a shard or of all of an exchange.
type Numbers struct {
	Messages  *int64 `json:"messages"` // ready and unacked
	Ready     *int64 `json:"ready"`
	Unacked   *int64 `json:"unacked"`
	Consumers *int64 `json:"consumers"`
	// Rate is how Ready changes, a second.
	Rate *float64 `json:"rate"`
	// Publish and Deliver are what the management API says, a second.
	Publish *float64 `json:"publish_rate,omitempty"`
	Deliver *float64 `json:"deliver_rate,omitempty"`
	// Skew is the shard's ready messages by the mean of all active shards, or the
	// highest of these.
	Skew *float64 `json:"skew"`
}

// Problems of shards.
const (
	missing   = "the queue does not exist"
	dormant   = "its node is down, or it has crashed"
	nodeDown  = "its node does not answer"
	otherNode = "its node is none of those given"
	silent    = "it does not answer"
)

// List looks at the shards of one vhost. What cannot be found out is in the
// listing's Warnings; only without any node that answers it returns an error, which
// matches ErrNoNode, or the cause of ctx's end.
func List(ctx context.Context, o Options) (*Listing, error) {
	return look(ctx, o, 0)
}
