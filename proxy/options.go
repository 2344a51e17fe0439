// Package proxy accepts AMQP 0-9-1 clients and connects each of them to a RabbitMQ node: sockets, goroutines, deadlines, buffers and logs.
// What happens to a frame is decided by package router; what a sharded exchange is made of, by package shards.
package proxy

import (
	"fmt"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/shardmq/shardmq/shards"
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
}

// Options configure a proxy.
type Options struct {
	Listeners []string // host:port each; port 0 picks a free one
	Nodes     []Node   // at least one
	// Credentials of the control connections, which make shards and count messages.
	ControlUsername, ControlPassword string
	Policies                         *shards.Policies
	// DialTimeout bounds reaching a node for one client, all nodes tried included. HandshakeTimeout bounds a client's way to
	// connection.open-ok. DrainTimeout bounds the wait for clients after the context of Run has ended. 0 = the default.
	DialTimeout, HandshakeTimeout, DrainTimeout time.Duration
	Log                                         *zap.Logger
	Version                                     string
	Ready                                       func(addrs []net.Addr) // called once, when every listener accepts; may be nil
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
	if o.Log == nil {
		o.Log = zap.NewNop()
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
