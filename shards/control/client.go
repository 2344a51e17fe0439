// Package control is the proxy's own connection to one broker node: it declares
// and inspects topology and implements shards.Broker with amqp091-go.
//
// No client data passes here. There is one Client per node and vhost; it opens
// one AMQP connection with a few channels, and each request has a channel to
// itself, because a refused request closes the channel it was made on. And there
// is one Transport per vhost, over which proxies agree on who consumes what.
package control

import (
	"context"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/shards"
)

// Defaults of Options.
const (
	DefaultConnectTimeout = 5 * time.Second
	DefaultRequestTimeout = 2 * time.Second
	DefaultChannels       = 16
)

const (
	heartbeat = 5 * time.Second
	// firstDelay and maxDelay bound the pause between two connection attempts.
	firstDelay = 100 * time.Millisecond
	maxDelay   = 5 * time.Second
	// A request that finds no connection cuts the pause short, but two attempts
	// are at least this far apart, so that a burst of requests does not become a
	// burst of dials. A broker that refused us is asked less often.
	minGap        = 100 * time.Millisecond
	minGapRefused = time.Second
	// closeTimeout is how long Close waits for the broker's close-ok.
	closeTimeout = 500 * time.Millisecond
)

// Options say how to reach one node. The zero value of a duration or count
// means its default.
type Options struct {
	Node     string // the node's name, e.g. rabbit@host; "" = learn it from the broker
	Address  string // host:port
	Vhost    string
	Username string
	Password string

	ConnectTimeout time.Duration // dial and AMQP handshake together
	RequestTimeout time.Duration // for a request whose context has no earlier deadline
	Channels       int           // requests served at the same time

	// Dial replaces the TCP dialer, e.g. to add TLS.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	Log  shards.Logger
}

// Client is one node's control connection. It connects at the first request,
// and once connected reconnects by itself, with back-off, until Close. It is
// safe for concurrent use.
type Client struct {
	o      Options
	ctx    context.Context // ends at Close
	cancel context.CancelFunc
	start  sync.Once
	kick   chan struct{} // capacity 1: a request waits for a connection

	mu      sync.Mutex
	closed  bool
	link    *link         // nil while not connected
	lastErr error         // why the last attempt failed
	changed chan struct{} // closed and replaced after every attempt
	name    string        // the node's name once known; never changes then
	hash    uint32        // of the node's real name when it was learned, or unknownHash
	again   func()        // see OnReconnect; nil = none
	gone    func()        // see OnDisconnect; nil = none
	running sync.WaitGroup

	learnTimeout time.Duration
}

var (
	_ shards.Broker       = (*Client)(nil)
	_ shards.Reconnector  = (*Client)(nil)
	_ shards.Disconnector = (*Client)(nil)
)

// New returns a client that has not connected yet.
func New(o Options) *Client {
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = DefaultConnectTimeout
	}
	if o.RequestTimeout <= 0 {
		o.RequestTimeout = DefaultRequestTimeout
	}
	if o.Channels <= 0 {
		o.Channels = DefaultChannels
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Client{
		o: o, ctx: ctx, cancel: cancel, name: o.Node, hash: unknownHash, learnTimeout: defaultLearnTimeout,
		kick: make(chan struct{}, 1), changed: make(chan struct{}),
	}
}

// Close ends the connection and waits until nothing of the client runs any
// more. Requests in flight fail with ErrClosed.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
	return nil
}

// Connected reports whether there is a connection now. It asks and waits for
// nothing.
func (c *Client) Connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link != nil && !c.link.conn.IsClosed()
}

// OnReconnect implements shards.Reconnector. A later call replaces fn.
func (c *Client) OnReconnect(fn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.again = fn
}

// OnDisconnect implements shards.Disconnector: fn is called when the socket
// broke, when the broker closed the connection, and when nothing has come for two
// heartbeats. Close is no loss. A later call replaces fn.
func (c *Client) OnDisconnect(fn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = fn
}

// spawn runs fn in a goroutine that Close waits for.
func (c *Client) spawn(fn func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.running.Go(fn)
	return true
}

// acquire returns the live connection, waiting for one connection attempt to
// end if there is none.
func (c *Client) acquire(ctx context.Context) (*link, error) {
	c.start.Do(func() { c.spawn(c.run) })
	c.mu.Lock()
	l, changed, closed, lastErr := c.link, c.changed, c.closed, c.lastErr
	c.mu.Unlock()
	switch {
	case closed:
		return nil, ErrClosed
	case l != nil && !l.conn.IsClosed():
		return l, nil
	}
	select {
	case c.kick <- struct{}{}:
	default:
	}
	select {
	case <-changed:
	case <-c.ctx.Done():
		return nil, ErrClosed
	case <-ctx.Done():
		if lastErr != nil { // the reason says more than "deadline exceeded"
			return nil, lastErr
		}
		return nil, unreachable(c.o.Address, context.Cause(ctx))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil {
		if c.lastErr == nil {
			return nil, unreachable(c.o.Address, errLost)
		}
		return nil, c.lastErr
	}
	return c.link, nil
}

// run connects, waits for the connection's end, and begins again, until Close.
func (c *Client) run() {
	delay, connected := firstDelay, false
	for {
		l, err := c.connect(c.ctx)
		c.settle(l, err)
		if err == nil && connected {
			c.reconnected(l)
		}
		gap := minGap
		switch {
		case err == nil:
			delay, connected = firstDelay, true
			var why *amqp.Error
			select {
			case why = <-l.lost:
			case <-c.ctx.Done():
			}
			c.drop(l, why)
		case isRefused(err):
			gap = minGapRefused
		}
		if !c.pause(delay, gap) {
			return
		}
		delay = min(2*delay, maxDelay)
	}
}

// reconnected sees to what a connection other than the first may have changed.
func (c *Client) reconnected(l *link) {
	c.mu.Lock()
	again := c.again
	c.mu.Unlock()
	if again != nil {
		again()
	}
	if c.o.Node == "" {
		c.spawn(func() { c.checkName(l) })
	}
}

// settle publishes the outcome of a connection attempt to those who wait.
func (c *Client) settle(l *link, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.lastErr
	c.link, c.lastErr = l, err
	if l != nil && c.name == "" {
		c.name, c.hash = l.name, l.hash
	}
	close(c.changed)
	c.changed = make(chan struct{})
	switch {
	case c.o.Log == nil || c.ctx.Err() != nil:
	case err == nil:
		c.o.Log.Info("control connection open", "node", c.name, "address", c.o.Address, "vhost", c.o.Vhost)
	case before == nil || before.Error() != err.Error(): // once per reason, not per attempt
		c.o.Log.Warn("control connection failed", "address", c.o.Address, "vhost", c.o.Vhost, "error", err.Error())
	}
}

// drop forgets a connection that has ended, or that Close ends. why is nil if it
// is not known.
func (c *Client) drop(l *link, why *amqp.Error) {
	c.mu.Lock()
	c.link = nil
	gone := c.gone
	c.mu.Unlock()
	if gone != nil && c.ctx.Err() == nil {
		gone()
	}
	l.close()
	if c.o.Log != nil && c.ctx.Err() == nil {
		kv := []any{"address", c.o.Address, "vhost", c.o.Vhost}
		if why != nil {
			kv = append(kv, "error", why.Error())
		}
		c.o.Log.Warn("control connection lost", kv...)
	}
}

// pause waits for delay, or only for gap once a request wants a connection. It
// reports whether to go on.
func (c *Client) pause(delay, gap time.Duration) bool {
	began := time.Now()
	timer := time.NewTimer(max(delay, gap))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.ctx.Done():
		return false
	case <-c.kick:
		timer.Reset(gap - time.Since(began))
		select {
		case <-timer.C:
		case <-c.ctx.Done():
			return false
		}
	}
	return true
}
