package coordination

import "context"

// Transport carries what proxies tell each other. Implementations are safe for
// concurrent use and reconnect by themselves until Close.
type Transport interface {
	// ID names this proxy among the others; it does not change.
	ID() string
	// Events delivers what happens, until Close. Nobody else reads it.
	Events() <-chan Event
	// Send tells every proxy, this one included. A message may be lost.
	Send(ctx context.Context, body []byte) error
	// Store replaces the stored state, and returns once the broker has confirmed
	// it. It fails unless this proxy is elected.
	Store(ctx context.Context, state []byte) error
	// Resign gives the lead up, after which another election follows.
	Resign()
	// Alive reports whether the proxy with that ID is connected to the broker.
	Alive(ctx context.Context, id string) (bool, error)
	Close() error
}

// Locker is a Transport whose broker keeps locks. While messages cannot be sent,
// and proxies thus cannot agree, a lock is what keeps two of them from consuming
// one shard.
type Locker interface {
	// Lock gets the lock of that name, and reports false if another proxy has it. It
	// lasts until Unlock, or until the connection to the broker ends. It fails with
	// ErrNotBlocked while messages can be sent: then it is for a leader to decide.
	Lock(ctx context.Context, name string) (bool, error)
	// Unlock lets go of a lock, if it is there.
	Unlock(ctx context.Context, name string) error
}

// EventKind tells Events apart.
type EventKind uint8

const (
	// Received: a message of some proxy, this one included, is in Body.
	Received EventKind = iota + 1
	// Elected: this proxy leads; Body is the stored state, nil when there is none.
	Elected
	// Deposed: this proxy leads no more.
	Deposed
	// Connected and Disconnected: messages come and go again, or no more.
	Connected
	Disconnected
)

// Event is one happening on a Transport.
type Event struct {
	Kind EventKind
	Body []byte // the receiver's to keep
}
