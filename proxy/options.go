// Package proxy accepts AMQP 0-9-1 clients and connects each of them to a RabbitMQ node: sockets, goroutines, deadlines, buffers and logs.
// What happens to a frame is decided by package router; what a sharded exchange is made of, by package shards.
package proxy

import (
	"fmt"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/shardmq/shardmq/admin"
	"github.com/shardmq/shardmq/config/certs"
	"github.com/shardmq/shardmq/config/secret"
	"github.com/shardmq/shardmq/shards"
	"github.com/shardmq/shardmq/shards/discovery"
)

// Defaults of Options.
const (
	DefaultDialTimeout      = 5 * time.Second
	DefaultHandshakeTimeout = 10 * time.Second
	DefaultDrainTimeout     = 10 * time.Second
)

// Node is one RabbitMQ node.
type Node struct {
	Name    string // cluster name, such as rabbit@host; "" = learned from the broker, for a single node only
	Address string // host:port
	Zone    string // "" = none
	TLS     bool   // reached with Options.UpstreamTLS
}

// Prefer says which node a client is connected to first. Nodes that have just failed come last in any case.
type Prefer string

// The ways to choose; the zero value is LeastConnections.
const (
	LeastConnections Prefer = "least-connections" // the one with the fewest clients of this proxy
	PreferZone       Prefer = "zone"              // likewise, but those of the proxy's zone before all others
	ListOrder        Prefer = "list-order"        // the first in Nodes
)

// Update is a new configuration for a running proxy.
type Update struct {
	Nodes    []Node
	Policies *shards.Policies
	Applied  func() // called once everything goes by it; may be nil
}

// Options configure a proxy.
type Options struct {
	Listeners []Listener
	Nodes     []Node // at least one, unless Discovery is set
	// UpstreamTLS is for nodes with TLS; nil: whom the system trusts, and no certificate of the proxy's.
	UpstreamTLS *certs.Live
	Identities  []Identity // of clients, for nodes with TLS
	// ProxyProtocol is what connections to nodes begin with.
	ProxyProtocol ProxyVersion
	// Discovery finds nodes beside those listed, every DiscoveryInterval (0 = that of package discovery); nil = there are no others.
	Discovery         discovery.Source
	DiscoveryInterval time.Duration
	DiscoveryTLS      bool // those nodes have TLS
	Prefer            Prefer
	Zone              string // the proxy's own, for PreferZone
	// Credentials of the control connections, which make shards and count messages.
	ControlUsername, ControlPassword string
	Policies                         *shards.Policies
	// Updates replace Nodes and Policies, each as a whole, until the context of Run ends; nil = never.
	Updates <-chan Update
	// Admin is where health checks and metrics are served, host:port; "" = nowhere.
	Admin string
	// Jobs are served there too, beside the proxy's own state; nil = there are none. AdminToken is what changing them takes; "" = nobody can.
	Jobs       admin.Jobs
	AdminToken secret.String
	// DialTimeout bounds reaching a node for one client, all nodes tried included. HandshakeTimeout bounds a client's way to
	// connection.open-ok. DrainTimeout bounds the wait for clients after the context of Run has ended. 0 = the default.
	DialTimeout, HandshakeTimeout, DrainTimeout time.Duration
	// MaxConnections is how many clients may be connected; 0 = as many as the limit on open files allows for.
	MaxConnections int
	Log            *zap.Logger
	Flags          bool // the options come from flags: what is to be changed is called by their names
	Version        string
	Ready          func(addrs []net.Addr) // called once, when every listener accepts; may be nil
}

func (o *Options) defaults() {
	if o.DialTimeout <= 0 {
		o.DialTimeout = DefaultDialTimeout
	}
	if o.HandshakeTimeout <= 0 {
		o.HandshakeTimeout = DefaultHandshakeTimeout
	}
	if o.DrainTimeout <= 0 {
		o.DrainTimeout = DefaultDrainTimeout
	}
	if o.MaxConnections <= 0 {
		o.MaxConnections = room()
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.UpstreamTLS == nil {
		system, _ := certs.LoadClient(certs.ClientOptions{}) // no file that could be wrong
		o.UpstreamTLS = certs.NewLive(system)
	}
	if o.Policies == nil {
		o.Policies = shards.NewPolicies(nil)
	}
}

// ListenError says that an address cannot be listened on.
type ListenError struct {
	Address string
	Err     error
}

// Error implements error.
func (e *ListenError) Error() string { return fmt.Sprintf("listen on %s: %v", e.Address, e.Err) }

// Unwrap returns the cause.
func (e *ListenError) Unwrap() error { return e.Err }
