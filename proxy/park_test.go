package proxy

import (
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

// Whoever ends a connection that is parked ends it as any other.
func TestParkedConnectionsEnd(t *testing.T) {
	for name, end := range map[string]struct {
		how   func(r *rig, client, broker *peer)
		cause string
	}{
		"client goes": {func(r *rig, client, broker *peer) {
			require.NoError(r.t, client.Close())
			broker.eof()
			require.NoError(r.t, broker.Close())
		}, "client: EOF"},
		"broker goes": {func(r *rig, client, broker *peer) {
			require.NoError(r.t, broker.Close())
			require.EqualValues(r.t, frames.ConnectionForced, closeOk(client).ReplyCode)
			client.eof()
			require.NoError(r.t, client.Close())
		}, "upstream connection lost: EOF"},
		"broker goes, client says nothing": {func(r *rig, client, broker *peer) {
			require.NoError(r.t, broker.Close())
			require.EqualValues(r.t, frames.ConnectionForced, expect(client, &frames.ConnectionClose{}).ReplyCode)
			client.eof()
			require.NoError(r.t, client.Close())
		}, "upstream connection lost: EOF"},
		"cut": {func(r *rig, client, broker *peer) {
			r.session().cut(errDrained)
			client.eof()
			require.NoError(r.t, client.Close())
			require.NoError(r.t, broker.Close())
		}, errDrained.Error()},
		"proxy stops": {func(r *rig, client, broker *peer) {
			r.cancel()
			require.EqualValues(r.t, frames.ConnectionForced, closeOk(client).ReplyCode)
			require.NoError(r.t, client.Close())
			require.NoError(r.t, broker.Close())
		}, errGoing.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			r := startParking(t, nil)
			client, broker := r.openChannel(0)
			r.parked()
			end.how(r, client, broker)
			require.Contains(t, r.cause(), end.cause)
		})
	}
}

func TestMemoryIsGivenBackAfterACrowd(t *testing.T) {
	now := time.Now()
	var l slimmed
	for _, look := range []struct {
		parked uint64
		later  time.Duration
		due    bool
		why    string
	}{
		{crowdSize, 0, false, "they are just going idle"},
		{crowdSize, time.Second, true, "a crowd has"},
		{crowdSize, time.Minute, false, "nobody has since"},
		{2*crowdSize - 1, time.Minute, false, "just going idle"},
		{2*crowdSize - 1, time.Minute, false, "too few"},
		{2 * crowdSize, 0, false, "just going idle"},
		{2 * crowdSize, 0, true, "a crowd has"},
		{4 * crowdSize, time.Second, false, "just going idle"},
		{4 * crowdSize, time.Second, false, "so soon"},
		{4 * crowdSize, slimEvery, true, "a crowd has"},
	} {
		now = now.Add(look.later)
		require.Equal(t, look.due, l.due(look.parked, now), "%d parked: %s", look.parked, look.why)
	}
}
