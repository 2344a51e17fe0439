package proxy

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestDialTakesTheNextNode(t *testing.T) {
	b := listenBroker(t)
	s := newServer(Options{Nodes: []Node{deadNode(t), {Address: b.addr()}}})
	conn, n, err := s.dial(t.Context())
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.Equal(t, b.addr(), n.Address)
}

func TestDialTakesTheNodeWithFewestClients(t *testing.T) {
	a, b := listenBroker(t), listenBroker(t)
	s := newServer(Options{Nodes: []Node{{Address: a.addr()}, {Address: b.addr()}}})
	s.nodes[0].clients.Store(2)
	s.nodes[1].clients.Store(1)
	conn, n, err := s.dial(t.Context())
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.Equal(t, b.addr(), n.Address)
}

// The first node's share of the time is over at once: the second still gets its own.
func TestDialTimeoutIsShared(t *testing.T) {
	b := listenBroker(t)
	// 192.0.2.0/24 leads nowhere (RFC 5737): unanswered or unreachable, as the network has it.
	s := newServer(Options{DialTimeout: 2 * time.Second, Nodes: []Node{{Address: "192.0.2.1:9"}, {Address: b.addr()}}})
	conn, n, err := s.dial(t.Context())
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.Equal(t, b.addr(), n.Address)
}

func TestDialGivesUp(t *testing.T) {
	s := newServer(Options{Nodes: []Node{deadNode(t), deadNode(t)}})
	_, _, err := s.dial(t.Context())
	var de *dialError
	require.ErrorAs(t, err, &de)
	require.Len(t, de.tried, 2)

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGoing)
	_, _, err = s.dial(ctx)
	require.ErrorIs(t, err, errGoing)
}

// brokenListener fails for a while, then is closed.
type brokenListener struct {
	net.Listener
	left int
}

func (l *brokenListener) Accept() (net.Conn, error) {
	if l.left--; l.left < 0 {
		return nil, net.ErrClosed
	}
	return nil, errors.New("too many open files")
}

func TestAcceptErrorsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.WarnLevel)
		s := newServer(Options{Log: zap.New(core)})
		began := time.Now()
		s.accept(t.Context(), &brokenListener{left: 10})
		var pauses []time.Duration
		var sum time.Duration
		for _, e := range logs.FilterMessage("accept failed").All() {
			pauses = append(pauses, e.ContextMap()["pause"].(time.Duration))
			sum += pauses[len(pauses)-1]
		}
		require.Len(t, pauses, 10)
		require.Equal(t, acceptPauseMin, pauses[0])
		require.Equal(t, 2*acceptPauseMin, pauses[1])
		require.Equal(t, acceptPauseMax, pauses[9])
		require.Equal(t, sum, time.Since(began))
	})
}

func TestListenErrorNamesTheAddress(t *testing.T) {
	b := listenBroker(t)
	err := Run(t.Context(), Options{Listeners: []string{"127.0.0.1:0", b.addr()}, Nodes: []Node{{Address: "127.0.0.1:1"}}})
	var le *ListenError
	require.ErrorAs(t, err, &le)
	require.Equal(t, b.addr(), le.Address)
	require.Error(t, Run(t.Context(), Options{Listeners: []string{"127.0.0.1:0"}}))
}
