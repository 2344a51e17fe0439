package proxy

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// startParking is a rig that parks at once.
func startParking(t *testing.T, change func(*Options)) *rig {
	t.Helper()
	return startPrepared(t, change, func(s *server) { s.parkEvery = time.Millisecond })
}

// parked waits until both relays of the only session are.
func (r *rig) parked() *session {
	r.t.Helper()
	s := r.session()
	require.Eventually(r.t, func() bool {
		both := s.relays.Load()
		return both != nil && both[0].parked.Load() && both[1].parked.Load()
	}, time.Minute, time.Millisecond)
	return s
}

// A connection on which nothing passes has no goroutine, and goes on with whatever comes next.
func TestIdleRelaysAreParked(t *testing.T) {
	r := startParking(t, nil)
	client, broker := r.openChannel(0)
	for range 20 {
		r.parked()
		client.write(publish(1, "x", []byte("body")))
		require.Equal(t, publish(1, "x", []byte("body")), broker.read(len(publish(1, "x", []byte("body")))))
		r.parked()
		broker.write(deliver(1, 1, []byte("body")))
		require.Equal(t, deliver(1, 1, []byte("body")), client.read(len(deliver(1, 1, []byte("body")))))
	}
	half := publish(1, "x", []byte("body"))
	client.write(half[:len(half)-3]) // inside a frame nothing is parked
	require.Equal(t, half[:len(half)-3], broker.read(len(half)-3))
	client.write(half[len(half)-3:])
	broker.read(3)
	r.parked()
	client.send(0, &frames.ConnectionClose{ReplyCode: 200})
	expect(broker, &frames.ConnectionClose{})
	broker.send(0, &frames.ConnectionCloseOk{})
	expect(client, &frames.ConnectionCloseOk{})
	require.NoError(t, client.Close())
	require.NoError(t, broker.Close())
	require.Empty(t, r.cause())
}

func TestMemoryIsGivenBackAfterACrowd(t *testing.T) {
	now := time.Now()
	var l slimmed
	for _, look := range []struct {
		parked int64
		later  time.Duration
		due    bool
		why    string
	}{
		{crowdSize, 0, false, "they are just going idle"},
		{crowdSize, time.Second, true, "a crowd has"},
		{crowdSize, time.Minute, false, "nobody has since"},
		{2*crowdSize - 1, time.Minute, false, "just going idle"},
		{2*crowdSize - 1, time.Minute, false, "too few"},
		{2 * crowdSize, 0, true, "a crowd has"},
		{4 * crowdSize, time.Second, false, "just going idle"},
		{4 * crowdSize, time.Second, false, "so soon"},
		{4*crowdSize - 20, slimEvery, true, "a crowd has, though some stir"},
		{4*crowdSize + 5, slimEvery, false, "too few since"},
		{0, slimEvery, false, "all are busy"},
		{3 * crowdSize, slimEvery, false, "just going idle"},
		{3*crowdSize + 10, slimEvery, true, "a crowd has, after it was busy"},
		{10 * crowdSize, slimEvery, false, "just going idle"},
		{10*crowdSize + 100, slimEvery, false, "still too many that come"},
		{10*crowdSize + 130, slimEvery, true, "a crowd has"},
	} {
		now = now.Add(look.later)
		require.Equal(t, look.due, l.due(look.parked, now), "%d parked: %s", look.parked, look.why)
	}
}

// Connections that are parked have no goroutines at all: those of the crew wait for others.
func TestParkedConnectionsHaveNoGoroutines(t *testing.T) {
	r := startParking(t, nil)
	routines := func() int { return runtime.NumGoroutine() - int(r.srv.crew.idle.Load()) }
	before := routines()
	for range 20 {
		r.openChannel(0)
	}
	require.Eventually(t, func() bool { return r.srv.parked.Load() == 2*20 }, time.Minute, time.Millisecond)
	// One more is what looks.
	require.Eventually(t, func() bool { return routines() <= before+1 }, time.Minute, time.Millisecond)
}

// A session whose mutex is taken for long keeps nobody else from being woken, and goes on itself once it is free.
func TestOneSessionDoesNotKeepOthersParked(t *testing.T) {
	r := startParking(t, nil)
	stuck, stuckBroker := r.openChannel(0)
	s := r.parked()
	s.mu.Lock()
	other, otherBroker := r.openChannel(0)
	require.Eventually(t, func() bool { return r.srv.parked.Load() == 4 }, time.Minute, time.Millisecond)
	stuck.send(1, &frames.BasicQos{PrefetchCount: 7})
	woken := make(chan struct{})
	go func() {
		defer close(woken)
		_, _ = other.Write(heartbeat)
		_, _ = otherBroker.next()
	}()
	ok := false
	select {
	case <-woken:
		ok = true
	case <-time.After(time.Minute):
	}
	s.mu.Unlock()
	require.True(t, ok, "the other session waits")
	expect(stuckBroker, &frames.BasicQos{})
}
