package proxy

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// parkedPair is a connection, both relays of which are parked, between two ends.
func parkedPair(t testing.TB) (s *session, client, broker net.Conn) {
	t.Helper()
	nearIn, farIn := tcpPair(t)
	nearOut, farOut := tcpPair(t)
	s = scripted(t, nearIn, nearOut, 8192, nil)
	p, err := newParker()
	require.NoError(t, err)
	s.srv.parker = p
	done := make(chan error, 1)
	go func() { done <- p.run() }()
	ended := make(chan struct{})
	s.over = func() { close(ended) }
	s.srv.crew.start(s.converse)
	require.Eventually(t, func() bool { return s.relays.Load() != nil }, time.Minute, time.Millisecond)
	both := s.relays.Load()
	park(t, both[0], both[1])
	t.Cleanup(func() {
		require.True(t, both[0].parked.Load())
		require.True(t, both[1].parked.Load())
		s.cut(errDrained)
		<-ended
		p.close()
		require.NoError(t, <-done)
		close(s.srv.crew.over)
		require.NoError(t, farIn.Close())
		require.NoError(t, farOut.Close())
	})
	return s, farIn, farOut
}

// BenchmarkHeartbeatOfIdle is a heartbeat of a connection that is parked.
func BenchmarkHeartbeatOfIdle(b *testing.B) {
	_, client, broker := parkedPair(b)
	got := make([]byte, len(heartbeat))
	b.ReportAllocs()
	for b.Loop() {
		_, err := client.Write(heartbeat)
		if err == nil {
			_, err = io.ReadFull(broker, got)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
