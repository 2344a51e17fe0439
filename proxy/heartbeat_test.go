package proxy

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// interval is what 60 seconds are to a proxy with fast heartbeats.
const interval = 60 * fastSecond

const fastSecond = 10 * time.Millisecond

var heartbeat = frames.AppendFrame(nil, frames.TypeHeartbeat, 0, nil)

// beating starts a proxy with fast heartbeats and connects a client.
func beating(t *testing.T) (r *rig, client, broker *peer) {
	t.Helper()
	r = startPrepared(t, nil, func(s *server) { s.second = fastSecond })
	client, broker = r.openChannel(0)
	return r, client, broker
}

// beats sends heartbeats until the returned function is called or the connection ends.
func (p *peer) beats() (stop func()) {
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(interval / 20)
		defer tick.Stop()
		for {
			if _, err := p.Conn.Write(heartbeat); err != nil {
				return
			}
			select {
			case <-tick.C:
			case <-end:
				return
			}
		}
	}()
	return func() {
		close(end)
		<-done
	}
}

// dies waits until the proxy has ended the connection, in whatever way.
func (p *peer) dies() { _, _ = io.Copy(io.Discard, p.r) }

// A client that is not heard of is dropped as RabbitMQ drops it, without a word, whatever the broker goes on sending. The broker is told.
func TestSilentClient(t *testing.T) {
	r, client, broker := beating(t)
	defer broker.beats()()
	began := time.Now()
	rest, _ := io.ReadAll(broker.r) // the end, or a reset for a heartbeat that came after it
	require.Empty(t, rest)
	require.GreaterOrEqual(t, time.Since(began), 3*interval/2, "that was no silence yet")
	for f, err := client.next(); err == nil; f, err = client.next() {
		require.Equal(t, heartbeat, []byte(f))
	}
	require.Equal(t, errClientSilent.Error(), r.cause())
}

// A broker that is not heard of: the client is told so that it connects anew.
func TestSilentBroker(t *testing.T) {
	r, client, broker := beating(t)
	stop := client.beats()
	m := expect(client, &frames.ConnectionClose{})
	stop()
	require.EqualValues(t, 320, m.ReplyCode)
	require.Contains(t, m.ReplyText, "lost its connection to the broker")
	client.send(0, &frames.ConnectionCloseOk{})
	client.eof()
	require.NoError(t, client.Close())
	broker.dies()
	require.Equal(t, errBrokerSilent.Error(), r.cause())
}

// Whoever sends heartbeats stays, and so does whoever sends anything else.
func TestHeartbeats(t *testing.T) {
	_, client, broker := beating(t)
	defer broker.beats()()
	tick := time.NewTicker(interval / 4)
	defer tick.Stop()
	for range 4 * 4 {
		<-tick.C
		client.write(publish(1, "x", nil))
		expect(broker, &frames.BasicPublish{})
		broker.frame()
		require.Equal(t, heartbeat, []byte(client.frame()))
	}
}

// A client that reads nothing is alive as long as it sends heartbeats. When it stops, it is dropped, though the proxy waits for it to read
// and so sees nothing of the broker.
func TestSilentSlowReader(t *testing.T) {
	r, client, broker := beating(t)
	flood(t, broker)
	stop := client.beats()
	began := time.Now()
	for time.Since(began) < 4*interval {
		require.Equal(t, heartbeat, []byte(broker.frame()))
	}
	stop()
	broker.dies()
	require.Equal(t, errClientSilent.Error(), r.cause())
}

// While the broker takes nothing, what its client sends goes unread, and no silence counts.
func TestHeldUpIsNotSilent(t *testing.T) {
	_, client, broker := beating(t)
	defer broker.beats()()
	all := repeated(publish(1, "x", pattern(50_000)))
	done := writeAside(client, all)
	for began := time.Now(); time.Since(began) < 4*interval; {
		require.Equal(t, heartbeat, []byte(client.frame()))
	}
	requireSame(broker, all)
	require.NoError(t, <-done)
}

// Without heartbeats nobody is watched.
func TestNoHeartbeats(t *testing.T) {
	r := startPrepared(t, nil, func(s *server) { s.second = fastSecond })
	client, broker := r.begin()
	client.send(0, startOk())
	expect(broker, &frames.ConnectionStartOk{})
	broker.send(0, tuneMethod)
	expect(client, &frames.ConnectionTune{})
	client.send(0, &frames.ConnectionTuneOk{ChannelMax: 5, FrameMax: 8192, Heartbeat: 0}, &frames.ConnectionOpen{VirtualHost: "/"})
	require.Zero(t, expect(broker, &frames.ConnectionTuneOk{}).Heartbeat)
	expect(broker, &frames.ConnectionOpen{})
	broker.send(0, &frames.ConnectionOpenOk{})
	expect(client, &frames.ConnectionOpenOk{})
	s := r.session()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Nil(t, s.beats)
}

// Sessions look at their peers at the same few moments, and each as often as its interval says.
func TestSessionsLookTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const every = 10 * time.Second
		s := newServer(Options{})
		moments := map[time.Duration]bool{}
		for i := range 1000 {
			time.Sleep(time.Duration(i) * time.Millisecond)
			first := s.untilLook(every)
			require.InDelta(t, every, first, float64(every/lookMoments/2))
			time.Sleep(first)
			moments[time.Since(s.began)%every] = true
			late := time.Duration(i) * 100 * time.Microsecond // the machine is busy
			time.Sleep(late)
			require.Equal(t, every-late, s.untilLook(every))
		}
		require.LessOrEqual(t, len(moments), lookMoments)
	})
}
