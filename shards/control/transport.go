package control

import (
	"context"
	crypto "crypto/rand"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardmq/shardmq/shards"
	"github.com/shardmq/shardmq/shards/coordination"
)

const (
	// eventsKept bounds what waits for the reader of Events, and inboxOctets how much
	// that may be. Messages beyond it are dropped, as the broker may drop them.
	eventsKept = 256
	// requestTimeout is how long the broker has for an answer.
	requestTimeout = 2 * time.Second
	// storeTimeout is longer: a confirm waits for the broker's disk.
	storeTimeout = 5 * time.Second
	// noRightsDelay is the pause before the broker is asked again for what it has
	// refused for lack of rights. It doubles, up to noRightsMax: the broker logs an
	// error each time, and an operator may never see to it.
	noRightsDelay = 5 * time.Second
	noRightsMax   = 30 * time.Second
	// steady is how long a connection must have lasted for its loss not to count as
	// another failure in a row.
	steady = 5 * time.Second
)

// NodeAddress is where a cluster node is reached. Name may be empty while it is
// not known.
type NodeAddress struct{ Name, Address string }

// TransportOptions say how proxies of one vhost reach each other. The zero value
// of a duration or function means its default.
type TransportOptions struct {
	// Nodes returns the nodes there are now. It is called from several goroutines,
	// and must not block.
	Nodes    func() []NodeAddress
	Vhost    string
	Username string
	Password string

	ConnectTimeout time.Duration // dial, AMQP handshake and declarations together
	// Dial replaces the TCP dialer, e.g. to add TLS.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Newer reports whether a stored state a is newer than b; default
	// coordination.Newer.
	Newer func(a, b []byte) bool
	Log   shards.Logger
}

// Transport is coordination.Transport over AMQP: messages go over a fanout
// exchange, the lead is the exclusive consumption of a queue, and the state is
// the one message in it, which the leader keeps unacknowledged.
//
// It holds two connections to one node, that of the first answer. One of them
// only publishes, for a broker with a memory or disk alarm reads nothing more
// from a connection that has published: so the lead, and who is alive, can be
// told during an alarm too. Either one's loss is the loss of both.
type Transport struct {
	o       TransportOptions
	account account
	id      string
	ctx     context.Context // ends at Close
	cancel  context.CancelFunc
	events  chan coordination.Event
	running sync.WaitGroup // run
	waiting int            // octets put into events since that was empty; deliver's
	warned  atomic.Bool    // see foreign

	mu      sync.Mutex
	session *session // nil while not connected
	lastErr error    // why there is no session
	lead    *hold    // nil unless elected
}

var _ coordination.Transport = (*Transport)(nil)

// NewTransport returns a transport that is about to connect.
func NewTransport(o TransportOptions) *Transport {
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = DefaultConnectTimeout
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	if o.Newer == nil {
		o.Newer = coordination.Newer
	}
	ctx, cancel := context.WithCancel(context.Background())
	t := &Transport{
		o: o, id: randomHex(8), ctx: ctx, cancel: cancel,
		account: account{vhost: o.Vhost, username: o.Username, password: o.Password},
		events:  make(chan coordination.Event, eventsKept),
		lastErr: coordination.ErrNotConnected,
	}
	t.running.Go(t.run)
	return t
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = crypto.Read(b) // never fails
	return hex.EncodeToString(b)
}

// jitter returns a duration between three quarters and five quarters of d.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}

// ID implements coordination.Transport.
func (t *Transport) ID() string { return t.id }

// Events implements coordination.Transport. The channel is closed by Close. A
// reader that is slow loses messages, but none of the other events.
func (t *Transport) Events() <-chan coordination.Event { return t.events }

// Err returns nil while connected, and otherwise why not. It matches
// coordination.ErrNoRights when it is for lack of rights.
func (t *Transport) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lastErr
}

// Close gives the lead up if need be, ends the connections, waits until nothing
// of the transport runs any more, and closes Events.
func (t *Transport) Close() error {
	t.cancel()
	t.running.Wait()
	return nil
}

// Send implements coordination.Transport. It fails with coordination.ErrBlocked
// at once while the broker takes nothing in, and after two seconds, or at the
// deadline of ctx, if the message cannot be written by then.
func (t *Transport) Send(ctx context.Context, body []byte) error {
	s, _, err := t.current()
	if err != nil {
		return err
	}
	return s.announce(ctx, body)
}

// Store implements coordination.Transport. One that fails may yet come to be
// stored, unless another one succeeds after it.
func (t *Transport) Store(ctx context.Context, state []byte) error {
	s, h, err := t.current()
	switch {
	case err != nil:
		return err
	case h == nil:
		return coordination.ErrNotElected
	}
	return h.store(ctx, s, state)
}

// Resign implements coordination.Transport.
func (t *Transport) Resign() {
	t.mu.Lock()
	h := t.lead
	t.mu.Unlock()
	if h != nil {
		h.end(errResigned)
	}
}

// Alive implements coordination.Transport: a connected proxy has an exclusive
// queue that is named after it. The broker has two seconds to answer.
func (t *Transport) Alive(ctx context.Context, id string) (bool, error) {
	s, _, err := t.current()
	switch {
	case err != nil:
		return false, err
	case id == t.id:
		return true, nil
	}
	return s.alive(ctx, id)
}

// current returns the session and, if this proxy leads, its hold on the lead.
func (t *Transport) current() (*session, *hold, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ctx.Err() != nil:
		return nil, nil, coordination.ErrTransportClosed
	case t.session == nil:
		return nil, nil, &disconnectedError{t.lastErr}
	}
	return t.session, t.lead, nil
}

// disconnectedError matches coordination.ErrNotConnected and the reason.
type disconnectedError struct{ reason error }

// Error implements error.
func (e *disconnectedError) Error() string {
	if errors.Is(e.reason, coordination.ErrNotConnected) {
		return e.reason.Error()
	}
	return coordination.ErrNotConnected.Error() + ": " + e.reason.Error()
}

// Unwrap returns the class and the reason.
func (e *disconnectedError) Unwrap() []error { return []error{coordination.ErrNotConnected, e.reason} }

// emit delivers an event that must not be lost.
func (t *Transport) emit(e coordination.Event) {
	select {
	case t.events <- e:
	case <-t.ctx.Done():
	}
}

// deliver delivers a message, unless it is too large or too much waits already.
// Sessions call it one at a time.
func (t *Transport) deliver(body []byte) {
	if len(t.events) == 0 {
		t.waiting = 0
	}
	if len(body) > coordination.MaxMessage || t.waiting+len(body) > inboxOctets {
		return
	}
	select {
	case t.events <- coordination.Event{Kind: coordination.Received, Body: body}:
		t.waiting += len(body)
	default:
	}
}
