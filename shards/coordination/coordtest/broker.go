// Package coordtest lets several coordination.Nodes of one test process
// coordinate, without a broker.
package coordtest

import (
	"context"
	"errors"
	"sync"

	"github.com/shardmq/shardmq/shards/coordination"
)

// ErrCut is returned while a Transport is not connected.
var ErrCut = errors.New("not connected")

// Broker stands in for the broker that proxies coordinate over: one stored state
// with one exclusive consumer, and a fanout. It is safe for concurrent use.
type Broker struct {
	mu         sync.Mutex
	stored     []byte
	leader     *Transport
	transports []*Transport // in the order of connecting
}

// NewBroker returns a broker nobody is connected to.
func NewBroker() *Broker { return &Broker{} }

// Connect returns a transport of a proxy with that ID.
func (b *Broker) Connect(id string) *Transport {
	t := &Transport{b: b, id: id, events: make(chan coordination.Event), more: make(chan struct{}, 1), done: make(chan struct{})}
	t.running.Go(t.deliver)
	t.Restore()
	return t
}

// elect makes the one that has been connected longest the leader, if there is
// none. mu is held.
func (b *Broker) elect() {
	if b.leader != nil || len(b.transports) == 0 {
		return
	}
	b.leader = b.transports[0]
	b.leader.push(coordination.Event{Kind: coordination.Elected, Body: b.stored})
}

// Leader returns the ID of the proxy that may store, "" for none.
func (b *Broker) Leader() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leader == nil {
		return ""
	}
	return b.leader.id
}

// Transport is one proxy's connection to a Broker.
type Transport struct {
	b       *Broker
	id      string
	events  chan coordination.Event
	running sync.WaitGroup
	done    chan struct{}
	once    sync.Once

	mu    sync.Mutex // a leaf
	queue []coordination.Event
	more  chan struct{} // capacity 1: the queue is not empty
}

var _ coordination.Transport = (*Transport)(nil)

// ID implements coordination.Transport.
func (t *Transport) ID() string { return t.id }

// Events implements coordination.Transport.
func (t *Transport) Events() <-chan coordination.Event { return t.events }

// Send implements coordination.Transport.
func (t *Transport) Send(_ context.Context, body []byte) error {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	if !t.connected() {
		return ErrCut
	}
	for _, other := range t.b.transports {
		other.push(coordination.Event{Kind: coordination.Received, Body: body})
	}
	return nil
}

// Store implements coordination.Transport.
func (t *Transport) Store(_ context.Context, state []byte) error {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	if t.b.leader != t {
		return ErrCut
	}
	t.b.stored = state
	return nil
}

// Resign implements coordination.Transport.
func (t *Transport) Resign() {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	if t.b.leader != t || !t.connected() {
		return
	}
	t.remove()
	t.b.transports = append(t.b.transports, t)
	t.b.elect()
}

// Alive implements coordination.Transport.
func (t *Transport) Alive(_ context.Context, id string) (bool, error) {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	for _, other := range t.b.transports {
		if other.id == id {
			return true, nil
		}
	}
	return false, nil
}

// Cut loses the connection, as a network or the death of a process does.
func (t *Transport) Cut() {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	if !t.connected() {
		return
	}
	led := t.b.leader == t
	t.remove()
	if led {
		t.push(coordination.Event{Kind: coordination.Deposed})
	}
	t.push(coordination.Event{Kind: coordination.Disconnected})
	t.b.elect()
}

// Restore connects again after Cut.
func (t *Transport) Restore() {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	if t.connected() {
		return
	}
	t.b.transports = append(t.b.transports, t)
	t.push(coordination.Event{Kind: coordination.Connected})
	t.b.elect()
}

// Close implements coordination.Transport.
func (t *Transport) Close() error {
	t.Cut()
	t.once.Do(func() { close(t.done) })
	t.running.Wait()
	return nil
}

// connected reports whether t is. The broker's mu is held.
func (t *Transport) connected() bool {
	for _, other := range t.b.transports {
		if other == t {
			return true
		}
	}
	return false
}

// remove takes t off the broker. The broker's mu is held.
func (t *Transport) remove() {
	var rest []*Transport
	for _, other := range t.b.transports {
		if other != t {
			rest = append(rest, other)
		}
	}
	t.b.transports = rest
	if t.b.leader == t {
		t.b.leader = nil
	}
}

// push queues an event, without bound: a test ends.
func (t *Transport) push(e coordination.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = append(t.queue, e)
	select {
	case t.more <- struct{}{}:
	default:
	}
}

// deliver is the goroutine that hands events over, until Close.
func (t *Transport) deliver() {
	for {
		t.mu.Lock()
		queue := t.queue
		t.queue = nil
		t.mu.Unlock()
		for _, e := range queue {
			select {
			case t.events <- e:
			case <-t.done:
				return
			}
		}
		select {
		case <-t.more:
		case <-t.done:
			return
		}
	}
}
