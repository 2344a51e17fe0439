package control

import (
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// alarm is whether the broker blocks publishing. The zero value is that it does
// not.
type alarm struct {
	mu      sync.Mutex
	on      bool
	changed chan struct{} // closed when the broker begins to block; made when asked for
}

// follow takes what the broker says until the connection ends.
func (a *alarm) follow(said <-chan amqp.Blocking) {
	for b := range said {
		a.mu.Lock()
		if b.Active && !a.on && a.changed != nil {
			close(a.changed)
			a.changed = nil
		}
		a.on = b.Active
		a.mu.Unlock()
	}
}

// state reports whether the broker blocks now, and returns a channel that is
// closed when it begins to.
func (a *alarm) state() (begins <-chan struct{}, on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.changed == nil {
		a.changed = make(chan struct{})
	}
	return a.changed, a.on
}
