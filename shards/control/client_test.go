package control

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards"
)

func TestQueueCounts(t *testing.T) {
	p := newPeer(t)
	p.answer = func(_, _ uint16, args []byte) []byte {
		if name := string(args[3 : 3+args[2]]); name == "gone" {
			return closing(20, 40, 404, "NOT_FOUND - no queue 'gone' in vhost '/'")
		}
		return declareOK(7, 2)
	}
	c := p.client(t, nil)
	names, want := make([]string, 200), make([]shards.Count, 200)
	for i := range names {
		names[i], want[i] = "q", shards.Count{Messages: 7, Consumers: 2, Exists: true}
		if i%3 == 0 {
			names[i], want[i] = "gone", shards.Count{}
		}
	}
	counts, err := c.QueueCounts(t.Context(), names)
	require.NoError(t, err)
	require.Equal(t, want, counts)
	version, err := c.Version(t.Context())
	require.NoError(t, err)
	require.Equal(t, "3.99.1", version)
	require.Equal(t, 1, p.accepted)
	require.Contains(t, string(p.startOK), "shardmq control")
	require.Contains(t, string(p.startOK), "authentication_failure_close")
}

func TestRefusals(t *testing.T) {
	exchange := shards.ExchangeSpec{Name: "x", Type: "direct", AlternateExchange: "x.unsharded"}
	for _, tt := range []struct {
		text, right, op string
		code            uint16
		call            func(context.Context, *Client) error
	}{
		{
			code: 403, text: "ACCESS_REFUSED - access to queue 'q' in vhost '/' refused for user 'u'",
			op: "declare queue 'q'", right: "configure on queue 'q'",
			call: func(ctx context.Context, c *Client) error {
				return c.DeclareQueue(ctx, shards.QueueSpec{Name: "q", Arguments: map[string]any{"x-queue-type": "classic"}})
			},
		}, {
			code: 403, text: "ACCESS_REFUSED - access to queue 'q' in vhost '/' refused for user 'u'",
			op: "bind queue 'q' to exchange 'x'", right: "write on queue 'q'",
			call: func(ctx context.Context, c *Client) error { return c.BindQueue(ctx, "q", "k", "x") },
		}, {
			code: 403, text: "ACCESS_REFUSED - access to exchange 'x' in vhost '/' refused for user 'u'",
			op: "unbind queue 'q' from exchange 'x'", right: "read on exchange 'x'",
			call: func(ctx context.Context, c *Client) error { return c.UnbindQueue(ctx, "q", "k", "x") },
		}, {
			code: 403, text: "ACCESS_REFUSED - access to exchange 'x' in vhost '/' refused for user 'u'",
			op: "declare exchange 'x'", right: "configure and read on exchange 'x'",
			call: func(ctx context.Context, c *Client) error { return c.DeclareExchange(ctx, exchange) },
		}, {
			code: 403, text: "ACCESS_REFUSED - access to exchange 'x.unsharded' in vhost '/' refused for user 'u'",
			op: "declare exchange 'x'", right: "write on exchange 'x.unsharded'",
			call: func(ctx context.Context, c *Client) error { return c.DeclareExchange(ctx, exchange) },
		}, {
			code: 403, text: "ACCESS_REFUSED - read access to exchange 'x' in vhost '/' refused for user 'u'",
			op: "declare exchange 'x'", right: "read on exchange 'x'",
			call: func(ctx context.Context, c *Client) error { return c.DeclareExchange(ctx, exchange) },
		}, {
			code: 403, text: "ACCESS_REFUSED - exchange name 'amq.x' contains reserved prefix 'amq.*'",
			op:   "delete exchange 'amq.x'",
			call: func(ctx context.Context, c *Client) error { return c.DeleteExchange(ctx, "amq.x") },
		}, {
			code: 405, text: "RESOURCE_LOCKED - cannot obtain exclusive access", op: "look for queue 'q'",
			call: func(ctx context.Context, c *Client) error { _, err := c.QueueCount(ctx, "q"); return err },
		}, {
			code: 541, text: "INTERNAL_ERROR", op: "look for exchange 'x'",
			call: func(ctx context.Context, c *Client) error { _, err := c.ExchangeExists(ctx, "x"); return err },
		},
	} {
		t.Run(tt.op, func(t *testing.T) {
			p := newPeer(t)
			p.answer = func(uint16, uint16, []byte) []byte { return closing(20, 40, tt.code, tt.text) }
			err := tt.call(t.Context(), p.client(t, nil))
			var refused *shards.BrokerError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, shards.BrokerError{Code: tt.code, Text: tt.text, Op: tt.op, Node: "a@h", Right: tt.right}, *refused)
			require.NotErrorIs(t, err, shards.ErrUnreachable)
		})
	}
}

func TestExchangeExists(t *testing.T) {
	p := newPeer(t)
	p.answer = func(uint16, uint16, []byte) []byte { return closing(20, 40, 404, "NOT_FOUND") }
	c := p.client(t, nil)
	exists, err := c.ExchangeExists(t.Context(), "x")
	require.NoError(t, err)
	require.False(t, exists)
	p.set(func() { p.answer = func(uint16, uint16, []byte) []byte { return method(40, 11) } })
	exists, err = c.ExchangeExists(t.Context(), "x")
	require.NoError(t, err)
	require.True(t, exists)
}

func TestConnectRefused(t *testing.T) {
	for _, tt := range []struct {
		code  uint16
		text  string
		right string
	}{
		{403, "ACCESS_REFUSED - Login was refused", "login of user 'u' (name or password is wrong)"},
		{530, "NOT_ALLOWED - vhost / not found", ""},
		{530, "NOT_ALLOWED - access to vhost '/' refused for user 'u'", "any permission in vhost '/'"},
	} {
		p := newPeer(t)
		p.refuse, p.text = tt.code, tt.text
		_, err := p.client(t, nil).Version(t.Context())
		var refused *shards.BrokerError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, tt.code, refused.Code)
		require.Equal(t, tt.right, refused.Right)
		require.NotContains(t, err.Error(), "pw")
	}
}

func TestUnreachable(t *testing.T) {
	t.Run("nobody listens", func(t *testing.T) {
		p := newPeer(t)
		p.stop()
		_, err := p.client(t, nil).QueueCount(t.Context(), "q")
		require.ErrorIs(t, err, shards.ErrUnreachable)
		var lost *UnreachableError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, p.addr(), lost.Address)
	})
	t.Run("mute at the handshake", func(t *testing.T) {
		p := newPeer(t)
		p.mute = true
		c := p.client(t, func(o *Options) { o.ConnectTimeout = 20 * time.Millisecond })
		_, err := c.QueueCount(t.Context(), "q")
		require.ErrorIs(t, err, shards.ErrUnreachable)
	})
	t.Run("no answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, stop := (&peer{t: t, conns: make(map[net.Conn]bool), beat: make(chan struct{})}).piped(t)
			defer stop()
			_, err := c.Version(t.Context())
			require.NoError(t, err)
			for range DefaultChannels + 3 { // more than there are channels, all of which are stuck
				began := time.Now()
				_, err := c.QueueCount(t.Context(), "q")
				require.ErrorIs(t, err, shards.ErrUnreachable)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, DefaultRequestTimeout, time.Since(began))
			}
		})
	})
	t.Run("the caller gives up", func(t *testing.T) {
		p := newPeer(t)
		ctx, cancel := context.WithCancel(t.Context())
		p.answer = func(uint16, uint16, []byte) []byte { cancel(); return nil }
		_, err := p.client(t, nil).QueueCount(ctx, "q")
		require.ErrorIs(t, err, context.Canceled)
	})
}

// TestLostConnection drops the connection under a request, which then succeeds
// on the next one.
func TestLostConnection(t *testing.T) {
	p := newPeer(t)
	var asked int
	p.answer = func(uint16, uint16, []byte) []byte {
		if asked++; asked == 1 {
			for c := range p.conns {
				_ = c.Close()
			}
			return nil
		}
		return declareOK(1, 0)
	}
	count, err := p.client(t, nil).QueueCount(t.Context(), "q")
	require.NoError(t, err)
	require.Equal(t, shards.Count{Messages: 1, Exists: true}, count)
	require.Equal(t, 2, p.accepted)
}

// TestReconnects wants a new connection without a request that asks for one.
func TestReconnects(t *testing.T) {
	p := newPeer(t)
	logs := make(logChannel, 100)
	c := p.client(t, func(o *Options) { o.Log = logs })
	_, err := c.Version(t.Context())
	require.NoError(t, err)
	require.Equal(t, "control connection open", <-logs)
	p.drop()
	require.Equal(t, "control connection lost", <-logs)
	require.Equal(t, "control connection open", <-logs)
}

func TestCloseReleasesRequests(t *testing.T) {
	p := newPeer(t)
	c := p.client(t, nil)
	asked := make(chan struct{}, 8)
	p.answer = func(uint16, uint16, []byte) []byte { asked <- struct{}{}; return nil }
	errs := make(chan error, 8)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { _, err := c.QueueCount(t.Context(), "q"); errs <- err })
	}
	for range 8 {
		<-asked
	}
	require.NoError(t, c.Close())
	wg.Wait()
	for range 8 {
		require.ErrorIs(t, <-errs, ErrClosed)
	}
	_, err := c.QueueCount(t.Context(), "q")
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, c.Close())
}

func TestDialOption(t *testing.T) {
	boom := errors.New("boom")
	c := New(Options{Address: "nowhere:1", Dial: func(context.Context, string, string) (net.Conn, error) { return nil, boom }})
	defer func() { require.NoError(t, c.Close()) }()
	_, err := c.NodeName(t.Context())
	require.ErrorIs(t, err, boom)
	require.ErrorIs(t, err, shards.ErrUnreachable)
}

// logChannel is a Logger that hands on messages.
type logChannel chan string

func (l logChannel) Info(msg string, _ ...any) { l <- msg }
func (l logChannel) Warn(msg string, _ ...any) { l <- msg }
