package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/shardmq/shardmq/frames"
)

// Logger is what the package needs of a logger; kv are alternating snake_case
// keys and values. Implementations must be safe for concurrent use.
type Logger interface {
	Info(msg string, kv ...any)
	Warn(msg string, kv ...any)
}

// Broker is the control connection to one node of a RabbitMQ cluster, in one
// vhost. Implementations are safe for concurrent use, bound every call by the
// context's deadline or one of their own, and report a refusal by the broker as
// a *BrokerError.
type Broker interface {
	// Node is the cluster name of the node ("rabbit@host"), or "" while neither
	// the configuration nor a connection has told it yet.
	Node() string
	// NodeName is Node, but connects first if that is what it takes.
	NodeName(ctx context.Context) (string, error)
	// Version is the broker's version, for example "3.10.8".
	Version(ctx context.Context) (string, error)
	// DeclareExchange declares actively: it creates the exchange or checks that
	// an existing one is equivalent (406 if not).
	DeclareExchange(ctx context.Context, spec ExchangeSpec) error
	// ExchangeExists declares passively; a 404 is false, not an error.
	ExchangeExists(ctx context.Context, name string) (bool, error)
	// DeleteExchange deletes the exchange whether or not it is in use.
	DeleteExchange(ctx context.Context, name string) error
	// DeclareQueue declares actively on this very node.
	DeclareQueue(ctx context.Context, spec QueueSpec) error
	// DeleteQueue deletes a queue and returns how many messages went with it. With
	// ifUnused or ifEmpty a queue that has consumers, or ready messages, is refused
	// (406). A queue that is not there is no error.
	DeleteQueue(ctx context.Context, name string, ifUnused, ifEmpty bool) (messages uint32, err error)
	// QueueCount declares passively; a 404 is Count{Exists: false}, not an error.
	QueueCount(ctx context.Context, name string) (Count, error)
	// QueueCounts is QueueCount for many queues at once, parallel to names.
	QueueCounts(ctx context.Context, names []string) ([]Count, error)
	// BindQueue binds the queue to the exchange with that binding key.
	BindQueue(ctx context.Context, queue, key, exchange string) error
	// UnbindQueue undoes BindQueue; without such a binding it does nothing.
	UnbindQueue(ctx context.Context, queue, key, exchange string) error
	Close() error
}

// Reconnector is a Broker that tells when it has a new connection after a lost
// one. fn must not block; it may be called until Close has returned.
type Reconnector interface {
	OnReconnect(fn func())
}

// Disconnector is a Broker that tells the moment its connection is lost, whatever
// the reason, Close excepted. fn must not block; it may be called until Close has
// returned.
type Disconnector interface {
	OnDisconnect(fn func())
}

// BrokerError is a refusal in the broker's own words, or in words it would use:
// it can be given to the client as it is.
type BrokerError struct {
	Code  uint16 // AMQP reply code, for example 403
	Text  string // reply text
	Op    string // what was tried, for example "declare queue 'images'"; may be empty
	Node  string // cluster node that answered; may be empty
	Right string // for 403: the missing right, for example "configure on queue 'images'"; may be empty
	// Connecting: it was the connection that the node refused, not a request.
	Connecting bool
}

// Error implements error.
func (e *BrokerError) Error() string {
	switch {
	case e.Op != "" && e.Node != "":
		return fmt.Sprintf("%s on %s: %d %s", e.Op, e.Node, e.Code, e.Text)
	case e.Op != "":
		return fmt.Sprintf("%s: %d %s", e.Op, e.Code, e.Text)
	}
	return fmt.Sprintf("%d %s", e.Code, e.Text)
}

// isRefusal reports whether err is the broker's refusal with one of the codes.
func isRefusal(err error, codes ...frames.Code) bool {
	refused, ok := errors.AsType[*BrokerError](err)
	return ok && slices.Contains(codes, frames.Code(refused.Code))
}

// nodeDown reports whether a node gave no answer, or lets nobody in: one that is
// starting or stopping refuses connections while its virtual host is down.
func nodeDown(err error) bool {
	if errors.Is(err, ErrUnreachable) {
		return true
	}
	refused, ok := errors.AsType[*BrokerError](err)
	return ok && refused.Connecting &&
		isRefusal(refused, frames.ConnectionForced, frames.NotAllowed, frames.InternalError)
}

// Count is what a passive declare tells about a queue.
type Count struct {
	Messages  uint32 // ready messages
	Consumers uint32
	Exists    bool // false: there is no such queue, and the numbers are 0
	// Dormant: not Exists, for now. The node that it is on is down, or the queue has
	// crashed, and what is in it may come back.
	Dormant bool
}

// ExchangeSpec describes an exchange to declare.
type ExchangeSpec struct {
	Name, Type                    string
	Durable, AutoDelete, Internal bool
	AlternateExchange             string // "" = no such argument
}

// QueueSpec describes a queue to declare.
type QueueSpec struct {
	Name      string
	Durable   bool
	Arguments map[string]any
}

// DeclarePlan says how to forward a client's exchange.declare.
type DeclarePlan struct {
	Type         string // exchange type to send
	AddAlternate string // alternate-exchange to add to the arguments, "" = none
}
