package proxy

import (
	"bytes"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/certs/certtest"
	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
)

// startParkingByHand is a rig that parks nobody by itself: whoever has been woken stays awake until park.
func startParkingByHand(t *testing.T, change func(*Options)) *rig {
	t.Helper()
	return startPrepared(t, change, func(s *server) { s.parkEvery = time.Hour })
}

// park has the relays parked and waits until they are.
func park(t testing.TB, all ...*relay) {
	t.Helper()
	for _, d := range all {
		require.Eventually(t, func() bool {
			d.s.kick(d)
			return d.parked.Load()
		}, time.Minute, 100*time.Microsecond)
	}
}

// Heartbeats pass while both relays are parked, and count as signs of life; nobody is woken for them.
func TestHeartbeatsWakeNobody(t *testing.T) {
	r := startParkingByHand(t, nil)
	client, broker := r.openChannel(0)
	s := r.session()
	both := s.relays.Load()
	park(t, both[0], both[1])
	up, down := s.up.total, s.down.total
	for i := range 50 {
		some := bytes.Repeat(heartbeat, 1+i%4)
		before := both[0].from.n.Load()
		client.write(some)
		require.Equal(t, some, broker.read(len(some)))
		broker.write(some)
		require.Equal(t, some, client.read(len(some)))
		require.Eventually(t, func() bool { n := both[0].from.n.Load(); return n >= before+2 && n%2 == 0 }, time.Minute, 100*time.Microsecond)
		up, down = up+int64(len(some)), down+int64(len(some))
	}
	require.True(t, both[0].parked.Load())
	require.True(t, both[1].parked.Load())
	s.mu.Lock()
	require.Equal(t, up, s.up.total)
	require.Equal(t, down, s.down.total)
	s.mu.Unlock()
	roundTrip(client, broker)
}

// All else wakes the relay, which finds what has been read already.
func TestOthersThanHeartbeatsWake(t *testing.T) {
	ack := frames.AppendMethod(nil, 1, &frames.BasicAck{DeliveryTag: 1})
	for name, said := range map[string][][]byte{
		"a heartbeat in two":              {heartbeat[:5], heartbeat[5:]},
		"a heartbeat and half of another": {append(bytes.Clone(heartbeat), heartbeat[:1]...), heartbeat[1:]},
		"a heartbeat and a method":        {append(bytes.Clone(heartbeat), ack...)},
		"a method and a heartbeat":        {append(bytes.Clone(ack), heartbeat...)},
		"a method in two":                 {ack[:9], ack[9:]},
		"one octet":                       {ack[:1], ack[1:]},
		"a large message":                 {publish(1, "x", pattern(100_000))},
		"more heartbeats than fit":        {bytes.Repeat(heartbeat, 3*smallBuffer/len(heartbeat))},
	} {
		t.Run(name, func(t *testing.T) {
			r := startParkingByHand(t, nil)
			client, broker := r.openChannel(0)
			d := r.session().relays.Load()[0]
			park(t, d)
			for i, part := range said {
				client.write(part)
				if i < len(said)-1 {
					require.Eventually(t, func() bool { return !d.parked.Load() }, time.Minute, 100*time.Microsecond)
				}
			}
			all := bytes.Join(said, nil)
			require.Equal(t, all, broker.read(len(all)))
			roundTrip(client, broker)
		})
	}
}

// What looks like a heartbeat and is none is answered as by a relay that is awake.
func TestAlmostHeartbeats(t *testing.T) {
	for name, said := range map[string][]byte{
		"unknown type":        {7, 0, 0, 0, 0, 0, 0, frames.End},
		"without its end":     {frames.TypeHeartbeat, 0, 0, 0, 0, 0, 0, 0},
		"behind a proper one": append(bytes.Clone(heartbeat), 7, 0, 0, 0, 0, 0, 0, frames.End),
	} {
		t.Run(name, func(t *testing.T) {
			var told [2]*frames.ConnectionClose
			for i := range told {
				r := startParkingByHand(t, nil)
				client, broker := r.openChannel(0)
				if i == 1 {
					park(t, r.session().relays.Load()[0])
				}
				client.write(said)
				for f := broker.frame(); f.Type() == frames.TypeHeartbeat; f = broker.frame() {
				}
				broker.send(0, &frames.ConnectionCloseOk{})
				told[i] = closeOk(client)
				require.NoError(t, client.Close())
				require.NoError(t, broker.Close())
			}
			require.EqualValues(t, frames.FrameError, told[0].ReplyCode)
			require.Equal(t, told[0], told[1])
		})
	}
}

// With TLS on one side heartbeats of the other, which is parked, go through its relay.
func TestHeartbeatsWithTLSOnOneSide(t *testing.T) {
	front, back := certtest.NewCA(t, "front"), certtest.NewCA(t, "back")
	for name, secure := range map[string]struct{ client, broker bool }{"client": {true, false}, "broker": {false, true}, "both": {true, true}} {
		t.Run(name, func(t *testing.T) {
			r := startPrepared(t, func(o *Options) {
				if secure.client {
					o.Listeners[0].TLS = serverTLS(t, front, nil)
				}
				if secure.broker {
					o.Nodes[0].TLS, o.UpstreamTLS = true, trusting(t, back, nil)
				}
			}, func(s *server) { s.parkEvery = time.Millisecond })
			if secure.client {
				r.secure = trusting(t, front, nil).Client("127.0.0.1")
			}
			if secure.broker {
				r.broker.secure = serverTLS(t, back, nil).Server()
			}
			client, broker := r.openChannel(0)
			both := r.session().relays.Load()
			for range 20 {
				for i, encrypted := range []bool{secure.client, secure.broker} {
					if !encrypted {
						require.Eventually(t, both[i].parked.Load, time.Minute, 100*time.Microsecond)
					}
				}
				client.write(heartbeat)
				require.Equal(t, heartbeat, broker.read(len(heartbeat)))
				broker.write(heartbeat)
				require.Equal(t, heartbeat, client.read(len(heartbeat)))
			}
			roundTrip(client, broker)
		})
	}
}

// stuff writes to a socket until it takes no more, and returns how much it took.
func stuff(fd int, b []byte) (total int) {
	for {
		n, err := syscall.Write(fd, b)
		if err != nil {
			return total
		}
		total += n
	}
}

// A heartbeat for a peer that takes nothing waits for it, and holds up nobody else.
func TestHeartbeatsForWhoTakesNothing(t *testing.T) {
	r := startParkingByHand(t, nil)
	client, broker := r.openChannel(0)
	s := r.session()
	both := s.relays.Load()
	park(t, both[0], both[1])
	full := 0
	junk := pattern(64 << 10)
	require.NoError(t, both[1].in.raw.Control(func(fd uintptr) { full = stuff(int(fd), junk) }))
	before := both[0].from.n.Load()
	client.write(heartbeat)
	require.Eventually(t, func() bool { return both[0].from.n.Load() == before+2 }, time.Minute, time.Millisecond)
	s.mu.Lock()
	require.True(t, s.up.busy)
	s.mu.Unlock()
	other, otherBroker := r.openChannel(0)
	park(t, newest(r.srv).relays.Load()[0])
	other.write(heartbeat)
	require.Equal(t, heartbeat, otherBroker.read(len(heartbeat)))
	require.True(t, both[0].parked.Load())
	client.write(publish(1, "x", nil)) // waits behind it
	for ; full > 0; full -= min(full, len(junk)) {
		broker.read(min(full, len(junk)))
	}
	require.Equal(t, heartbeat, broker.read(len(heartbeat)))
	expect(broker, &frames.BasicPublish{})
	broker.frame()
	roundTrip(client, broker)
}

// A peer that is gone when a heartbeat is passed on to it ends the connection as always.
func TestHeartbeatForWhoHasGone(t *testing.T) {
	r := startParkingByHand(t, nil)
	client, broker := r.openChannel(0)
	both := r.session().relays.Load()
	park(t, both[0], both[1])
	client.write(heartbeat)
	client.reset()
	require.Equal(t, heartbeat, broker.read(len(heartbeat)))
	broker.eof()
	require.NoError(t, broker.Close())
	require.Equal(t, "client: read: connection reset by peer", r.cause())
}

// A panic while a heartbeat is dealt with ends the one session, and the parker goes on.
func TestPanicAtAHeartbeat(t *testing.T) {
	r := startParkingByHand(t, nil)
	client, broker := r.openChannel(0)
	d := r.session().relays.Load()[0]
	park(t, d)
	d.s.mu.Lock()
	d.frame = func(frames.Frame) router.Verdict { panic("boom") }
	d.s.mu.Unlock()
	client.write(heartbeat)
	client.dies()
	broker.dies()
	require.Contains(t, r.cause(), "panic")
	require.Eventually(t, func() bool { return r.srv.Status().Connections == 0 }, time.Minute, time.Millisecond)
	other, otherBroker := r.openChannel(0)
	both := r.session().relays.Load()
	park(t, both[0], both[1])
	other.write(heartbeat)
	require.Equal(t, heartbeat, otherBroker.read(len(heartbeat)))
}
