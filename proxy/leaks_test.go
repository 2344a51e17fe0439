package proxy

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/shardmq/shardmq/frames"
)

// badInput is what peers say that makes no sense, by how far the connection has come.
var badInput = struct{ first, handshake, open, broker [][]byte }{
	first: [][]byte{
		[]byte("GET / HTTP/1.1\r\n\r\n"), []byte("AMQP\x00\x01\x00\x00"), []byte("\x16\x03\x01"), []byte("PROXY UNKNOWN\r\n"), []byte("12345678"), []byte("AMQ"),
	},
	handshake: [][]byte{
		[]byte("rubbish!"), {frames.TypeMethod, 0, 0, 0, 0xff, 0xff, 0xff}, {frames.TypeMethod, 0, 0, 0, 0, 0, 4, 0, 10}, frames.AppendMethod(nil, 1, &frames.ChannelOpen{}),
	},
	open: [][]byte{
		[]byte("rubbish!"), {7, 0, 1, 0, 0, 0, 0, frames.End}, {frames.TypeBody, 0, 1, 0x7f, 0xff, 0xff, 0xff}, {frames.TypeMethod, 0, 1, 0, 0, 0, 4, 0, 60, 0, 40, 0},
		frames.AppendFrame(nil, frames.TypeMethod, 1, []byte{0, 60, 0, 99}), frames.AppendFrame(nil, frames.TypeBody, 1, []byte("x")),
		publish(9, "x", []byte("x")), publish(1, "x", pattern(1000))[:500], announcing(publish(1, "x", nil), 10),
	},
	broker: [][]byte{
		[]byte("HTTP/1.1 400 Bad"), {frames.TypeMethod, 0, 1, 0xff, 0xff, 0xff, 0xff}, deliver(1, 1, pattern(1000))[:500], deliver(9, 1, nil),
		frames.AppendFrame(nil, frames.TypeBody, 1, []byte("x")), frames.AppendFrame(nil, frames.TypeMethod, 1, []byte{0, 60, 0, 99}),
	},
}

// Whatever peers say, and in whatever way they go then, neither a socket nor a goroutine nor a session is left, and others go on.
func TestBadInputLeavesNothing(t *testing.T) {
	r := startRig(t, nil)
	neighbour, neighboursBroker := r.openChannel(0)
	before, routines := sockets(), goleak.IgnoreCurrent()
	ends := []func(*peer){func(p *peer) { _ = p.Close() }, (*peer).reset, func(p *peer) { p.closeWrite(); _ = p.Close() }}
	n := 0
	leave := func(all ...*peer) {
		for _, p := range all {
			ends[n%len(ends)](p)
		}
		n++
	}
	for range len(ends) + 1 { // each with each end, for the number of inputs is no multiple
		for _, said := range badInput.first {
			client := r.dial()
			client.write(said)
			leave(client)
		}
		for _, said := range badInput.handshake {
			client, broker := r.begin()
			client.write(said)
			leave(client, broker)
		}
		for _, said := range badInput.open {
			client, broker := r.openChannel(0)
			client.write(said)
			leave(client, broker)
		}
		for _, said := range badInput.broker {
			client, broker := r.openChannel(0)
			broker.write(bytes.Clone(said))
			leave(broker, client)
		}
	}
	require.Eventually(t, func() bool { return r.srv.Status().Connections == 1 }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool { return sockets() == before }, time.Minute, time.Millisecond)
	require.NoError(t, goleak.Find(routines, goleak.IgnoreTopFunction("github.com/shardmq/shardmq/proxy.(*crew).work")))
	require.EqualValues(t, 1, r.srv.upstreams()[0].clients.Load())
	roundTrip(neighbour, neighboursBroker)
}
