package control

import (
	"bufio"
	"context"
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards"
)

// piped returns a client whose connections to the peer are no sockets, for use
// with synctest, and what ends both.
func (p *peer) piped(t *testing.T) (c *Client, stop func()) {
	var serving sync.WaitGroup
	c = New(Options{Node: "a@h", Address: "a:1", Vhost: "/", Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		serving.Go(func() {
			p.serve(server, bufio.NewReader(server))
			_ = server.Close()
		})
		return client, nil
	}})
	return c, func() {
		require.NoError(t, c.Close())
		serving.Wait()
	}
}

// TestSilenceIsNoticed: a node that hangs keeps its sockets open. Two missed
// heartbeats are enough, right after the handshake and later.
func TestSilenceIsNoticed(t *testing.T) {
	for _, after := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			hung := make(chan struct{})
			p := &peer{t: t, conns: make(map[net.Conn]bool), beat: hung}
			c, stop := p.piped(t)
			defer stop()
			gone, again := make(chan struct{}, 1), make(chan struct{}, 1)
			c.OnDisconnect(func() { gone <- struct{}{} })
			c.OnReconnect(func() { again <- struct{}{} })
			_, err := c.Version(t.Context())
			require.NoError(t, err)
			time.Sleep(after) // the bubble's time
			synctest.Wait()
			require.Empty(t, gone, "heartbeats keep it")
			close(hung)
			began := time.Now()
			<-gone
			require.LessOrEqual(t, time.Since(began), 2*heartbeat)
			p.set(func() { p.beat = make(chan struct{}) })
			<-again
			require.NoError(t, c.Close())
			require.Empty(t, gone, "Close is no loss")
		})
	}
}

// TestAsksAgain: one answer that does not come in time is not the end of a
// request whose caller has the time.
func TestAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{t: t, conns: make(map[net.Conn]bool)}
		asked := 0
		p.answer = func(uint16, uint16, []byte) []byte {
			if asked++; asked%2 == 1 {
				return nil
			}
			return declareOK(7, 0)
		}
		c, stop := p.piped(t)
		defer stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		count, err := c.QueueCount(ctx, "q")
		require.NoError(t, err)
		require.Equal(t, shards.Count{Messages: 7, Exists: true}, count)
		p.set(func() { require.Equal(t, 2, asked) })

		_, err = c.QueueCount(t.Context(), "q") // without a deadline the request timeout is it
		require.ErrorIs(t, err, shards.ErrUnreachable)
		p.set(func() { require.Equal(t, 3, asked) })
	})
}

func TestDeleteQueue(t *testing.T) {
	p := newPeer(t)
	var args []byte
	p.answer = func(_, id uint16, a []byte) []byte {
		require.EqualValues(t, 40, id)
		args = a
		return binary.BigEndian.AppendUint32(method(50, 41), 12)
	}
	c := p.client(t, nil)
	for bits := range byte(4) {
		n, err := c.DeleteQueue(t.Context(), "q", bits&1 != 0, bits&2 != 0)
		require.NoError(t, err)
		require.EqualValues(t, 12, n)
		require.Equal(t, []byte{0, 0, 1, 'q', bits}, args)
	}
	for code, text := range map[uint16]string{406: "PRECONDITION_FAILED - queue 'q' in vhost '/' in use", 403: "ACCESS_REFUSED - access to queue 'q' in vhost '/' refused for user 'u'"} {
		p.set(func() { p.answer = func(uint16, uint16, []byte) []byte { return closing(20, 40, code, text) } })
		_, err := c.DeleteQueue(t.Context(), "q", true, true)
		var refused *shards.BrokerError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, code, refused.Code)
		require.Equal(t, "delete queue 'q'", refused.Op)
		if code == 403 {
			require.Equal(t, "configure on queue 'q'", refused.Right)
		}
	}
}

// TestOtherQueueAnswers: the broker takes an exchange's name for its first shard's.
func TestOtherQueueAnswers(t *testing.T) {
	p := newPeer(t)
	p.answer = func(uint16, uint16, []byte) []byte { return declareOK(7, 2) } // of queue q
	count, err := p.client(t, nil).QueueCount(t.Context(), "images")
	require.NoError(t, err)
	require.Zero(t, count)
}

// TestDormantQueue: a 404 that is not for want of a queue.
func TestDormantQueue(t *testing.T) {
	for text, dormant := range map[string]bool{
		"NOT_FOUND - no queue 'q' in vhost '/'":                                                      false,
		"NOT_FOUND - home node 'rabbit@b' of durable queue 'q' in vhost '/' is down or inaccessible": true,
		"NOT_FOUND - queue 'q' in vhost '/' process is stopped by supervisor":                        true,
	} {
		p := newPeer(t)
		p.answer = func(uint16, uint16, []byte) []byte { return closing(20, 40, 404, text) }
		count, err := p.client(t, nil).QueueCount(t.Context(), "q")
		require.NoError(t, err)
		require.Equal(t, shards.Count{Dormant: dormant}, count, text)
	}
}
