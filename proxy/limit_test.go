package proxy

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/shardmq/shardmq/frames"
)

const tooMany = "too many connections: clients are turned away"

// toldOfTheLimit plays a client that there is no room for.
func toldOfTheLimit(client *peer) {
	client.t.Helper()
	client.write(frames.ProtocolHeader[:])
	expect(client, &frames.ConnectionStart{})
	client.send(0, startOk())
	m := expect(client, &frames.ConnectionClose{})
	require.EqualValues(client.t, frames.ConnectionForced, m.ReplyCode)
	require.Equal(client.t, "CONNECTION_FORCED - shardmq has no room for more connections", m.ReplyText)
	client.eof()
	require.NoError(client.t, client.Close())
}

// Who comes when all places are taken is told so; health checks are answered, and a place that becomes free is given away.
func TestConnectionsBeyondTheLimit(t *testing.T) {
	r := startRig(t, func(o *Options) { o.MaxConnections = 2 })
	first, firstBroker := r.open(0)
	second, secondBroker := r.openChannel(0)
	require.NoError(t, r.dial().Close(), "a port probe")
	health := r.dial()
	health.write(healthHeader[:])
	require.Equal(t, frames.ProtocolHeader[:], health.read(8))
	health.eof()
	for range 3 {
		toldOfTheLimit(r.dial())
	}
	require.Empty(t, r.broker.conns, "the broker hears nothing of it")
	roundTrip(second, secondBroker)
	st := r.srv.Status()
	require.EqualValues(t, 3, st.TurnedAway)
	require.Equal(t, 2, st.Limit)
	require.Zero(t, st.Refused)
	lines := r.logs.FilterMessage(tooMany).All()
	require.Len(t, lines, 1, "not one for each")
	require.Equal(t, map[string]any{"limit": int64(2), "turned_away": int64(1)}, lines[0].ContextMap())

	require.NoError(t, first.Close())
	firstBroker.eof()
	require.NoError(t, firstBroker.Close())
	r.ended(1)
	require.Eventually(t, func() bool { return r.srv.Status().Connections == 1 }, time.Minute, time.Millisecond)
	r.open(0)
}

// A flood finds its connections closed: only so many at a time are told why.
func TestFloodBeyondTheLimit(t *testing.T) {
	r := startRig(t, func(o *Options) { o.MaxConnections = 1 })
	client, broker := r.openChannel(0)
	var silent []*peer
	for range toldAtOnce {
		silent = append(silent, r.dial())
	}
	for range 20 {
		flood := r.dial()
		_, err := flood.next()
		require.Error(t, err, "closed at once: nothing else would end it")
		require.NoError(t, flood.Close())
	}
	require.EqualValues(t, 20, r.srv.Status().TurnedAway)
	require.Equal(t, 1+toldAtOnce, r.srv.Status().Connections)
	roundTrip(client, broker)
	for _, p := range silent {
		require.NoError(t, p.Close())
	}
	require.Eventually(t, func() bool { return r.srv.Status().Connections == 1 }, time.Minute, time.Millisecond)
	toldOfTheLimit(r.dial())
}

func TestLogOfAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.WarnLevel)
		s := newServer(Options{Log: zap.New(core), MaxConnections: 7})
		said := func() (out []int64) {
			for _, e := range logs.TakeAll() {
				out = append(out, e.ContextMap()["turned_away"].(int64))
			}
			return out
		}
		for range 5 {
			s.full()
		}
		require.Equal(t, []int64{1}, said())
		time.Sleep(fullPause - time.Nanosecond)
		s.full()
		require.Empty(t, said())
		time.Sleep(time.Nanosecond)
		s.full()
		require.Equal(t, []int64{6}, said(), "with those in between")
		time.Sleep(time.Hour)
		s.full()
		require.Equal(t, []int64{1}, said())
	})
}

// TestSilentBeyondTheLimit: who is beyond the limit and says nothing is not waited for as others are, so that those who are told make room
// for health checks.
func TestSilentBeyondTheLimit(t *testing.T) {
	t.Parallel() // it takes the proxy's patience
	r := startRig(t, func(o *Options) { o.MaxConnections, o.HandshakeTimeout = 1, time.Hour })
	r.openChannel(0)
	r.dial().eof()
}

// What is asked for may be more than the system gives.
func TestLimitBeyondOpenFiles(t *testing.T) {
	const text = "the limit on open files allows for fewer connections than max-connections"
	require.Positive(t, room())
	r := startRig(t, func(o *Options) { o.MaxConnections = room() + 1 })
	require.Equal(t, 1, r.logs.FilterMessage(text).Len())
	r = startRig(t, nil)
	require.Zero(t, r.logs.FilterMessage(text).Len())
	require.Equal(t, room(), r.srv.Status().Limit)
}
