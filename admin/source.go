// Package admin serves health checks and metrics of a proxy and of dispatched jobs over HTTP, and lets jobs be changed.
package admin

import (
	"context"

	"github.com/shardmq/shardmq/shards"
	"github.com/shardmq/shardmq/shards/coordination"
)

// Source is the proxy that is served. Its methods are safe for concurrent use.
type Source interface {
	// Status tells how the proxy stands, from what it knows: it asks no broker.
	Status() Status
	// Reachable returns nil if a client could be connected to some node now, else
	// the reason why not.
	Reachable(ctx context.Context) error
}

// Status is how a proxy stands.
type Status struct {
	Version     string
	Connections int    // of clients, now
	Accepted    uint64 // since the start
	Refused     uint64 // of these, because no node could be reached
	Limit       int    // of connections at the same time
	TurnedAway  uint64 // of those accepted, because of the limit
	// AcceptErrors is how often accepting a connection has failed.
	AcceptErrors uint64
	Nodes        []Node
	Vhosts       []Vhost // with sharded exchanges, by name
}

// Node is one RabbitMQ node.
type Node struct {
	Name        string // its address while the name is not known
	Up, Known   bool   // whether control connections stand; Known is false while there are none to be
	Connections int64  // of clients, to this node
}

// Vhost is one virtual host with policies.
type Vhost struct {
	Name string
	// Alone: the proxy lacks the rights to coordinate with others.
	Alone        bool
	Coordination coordination.Status
	Exchanges    []shards.ExchangeSnapshot // by name
}
