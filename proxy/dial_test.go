package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// answering is a node that says something to whoever connects; silent accepts and says nothing.
func answering(t *testing.T, answer string) Node {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var conns sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		conns.Wait()
	})
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer conn.Close()
				_, _ = conn.Write([]byte(answer))
				_, _ = io.Copy(io.Discard, conn)
			})
		}
	})
	return Node{Address: l.Addr().String()}
}

func reached(t *testing.T, s *server) string {
	t.Helper()
	in, n, err := s.dial(t.Context(), upstreamAs{})
	require.NoError(t, err)
	require.Equal(t, "x", string(in.unread()))
	in.release()
	require.NoError(t, in.conn.Close())
	return n.Address
}

func TestDialTakesTheNextNode(t *testing.T) {
	b := answering(t, "x")
	s := newServer(Options{Nodes: []Node{deadNode(t), b}})
	require.Equal(t, b.Address, reached(t, s))
	require.Equal(t, b.Address, s.preferred()[0].Address, "the dead one is tried last for a while")
}

func TestDialTakesTheNodeWithFewestClients(t *testing.T) {
	a, b := answering(t, "x"), answering(t, "x")
	s := newServer(Options{Nodes: []Node{a, b}})
	s.upstreams()[0].clients.Store(2)
	s.upstreams()[1].clients.Store(1)
	require.Equal(t, b.Address, reached(t, s))
}

// Clients that come all at once find each other counted, before any of them is through.
func TestDialCountsBeforeItConnects(t *testing.T) {
	dead := deadNode(t)
	s := newServer(Options{Nodes: []Node{dead, answering(t, "x"), answering(t, "x")}})
	for range 4 {
		reached(t, s)
	}
	var clients []int64
	for _, n := range s.upstreams() {
		clients = append(clients, n.clients.Load())
	}
	require.Equal(t, []int64{0, 2, 2}, clients)
}

func TestPreferredNodes(t *testing.T) {
	nodes := []Node{{Address: "a:1", Zone: "west"}, {Address: "b:1", Zone: "east"}, {Address: "c:1", Zone: "east"}, {Address: "d:1"}}
	for _, c := range []struct {
		prefer  Prefer
		clients [4]int64
		failing string
		want    string
	}{
		{prefer: LeastConnections, clients: [4]int64{3, 2, 1, 1}, want: "c d b a"},
		{prefer: PreferZone, clients: [4]int64{0, 2, 1, 1}, want: "c b a d"},
		{prefer: PreferZone, clients: [4]int64{0, 2, 1, 1}, failing: "c", want: "b a d c"},
		{prefer: ListOrder, clients: [4]int64{9, 2, 1, 1}, want: "a b c d"},
		{prefer: ListOrder, clients: [4]int64{9, 2, 1, 1}, failing: "a", want: "b c d a"},
	} {
		s := newServer(Options{Nodes: nodes, Prefer: c.prefer, Zone: "east"})
		for i, n := range s.upstreams() {
			n.clients.Store(c.clients[i])
			if c.failing+":1" == n.Address {
				n.avoid.Store(time.Now().Add(time.Hour).UnixNano())
			}
		}
		var got []string
		for _, n := range s.preferred() {
			got = append(got, strings.TrimSuffix(n.Address, ":1"))
		}
		require.Equal(t, c.want, strings.Join(got, " "), "%+v", c)
	}
}

// The first node's share of the time is over: the second still gets its own.
func TestDialTimeoutIsShared(t *testing.T) {
	b := answering(t, "x")
	s := newServer(Options{DialTimeout: time.Second, Nodes: []Node{answering(t, ""), b}})
	require.Equal(t, b.Address, reached(t, s))
}

func TestDialGivesUp(t *testing.T) {
	s := newServer(Options{DialTimeout: time.Second, Nodes: []Node{deadNode(t), answering(t, "")}})
	_, _, err := s.dial(t.Context(), upstreamAs{})
	var de *dialError
	require.ErrorAs(t, err, &de)
	require.Len(t, de.tried, 2)
	require.Contains(t, err.Error(), "no answer to the protocol header")

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGoing)
	_, _, err = s.dial(ctx, upstreamAs{})
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
		s.accept(t.Context(), &brokenListener{left: 10}, Listener{})
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
		require.EqualValues(t, 10, s.Status().AcceptErrors)
	})
}

func TestListenErrorNamesTheAddress(t *testing.T) {
	b := listenBroker(t)
	err := Run(t.Context(), Options{Listeners: []Listener{{Address: "127.0.0.1:0"}, {Address: b.addr()}}, Nodes: []Node{{Address: "127.0.0.1:1"}}})
	var le *ListenError
	require.ErrorAs(t, err, &le)
	require.Equal(t, b.addr(), le.Address)
	require.Error(t, Run(t.Context(), Options{Listeners: []Listener{{Address: "127.0.0.1:0"}}}))
}
