package proxy

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
)

// stop ends the proxy and waits for Run.
func (r *rig) stop() <-chan error {
	r.cancel()
	out := make(chan error, 1)
	go func() {
		err := <-r.done
		r.done <- err
		out <- err
	}()
	return out
}

func TestDrain(t *testing.T) {
	r := startRig(t, nil)
	client, broker := r.openChannel(0)
	done := r.stop()
	m := expect(client, &frames.ConnectionClose{})
	require.EqualValues(t, 320, m.ReplyCode)
	require.Contains(t, m.ReplyText, "shutting down")
	expect(broker, &frames.ConnectionClose{})
	_, err := net.Dial("tcp", r.addr)
	require.Error(t, err) // nobody is accepted any more
	select {
	case <-done:
		require.Fail(t, "the proxy did not wait for its client")
	default:
	}
	client.send(0, &frames.ConnectionCloseOk{})
	require.NoError(t, broker.Close())
	client.eof()
	require.NoError(t, <-done)
	require.Equal(t, errGoing.Error(), r.cause())
}

// What is half delivered is delivered before the proxy's own close: never inside a frame.
func TestDrainInsideStreamedFrame(t *testing.T) {
	r := startRig(t, nil)
	client, broker := r.openChannel(0)
	whole := deliver(1, 1, pattern(100_000))
	at := len(whole) / 2
	broker.write(whole[:at])
	require.Equal(t, whole[:at], client.read(at))
	r.stop()
	expect(broker, &frames.ConnectionClose{}) // so the close for the client is decided too
	for _, part := range [][]byte{whole[at : at+10], whole[at+10 : len(whole)-1], whole[len(whole)-1:]} {
		broker.write(part)
	}
	require.Equal(t, whole[at:], client.read(len(whole)-at))
	require.EqualValues(t, 320, closeOk(client).ReplyCode)
	require.NoError(t, broker.Close())
	client.eof()
}

// The same with the client's frame: the broker sees it whole, and the close behind it.
func TestDrainInsideClientsFrame(t *testing.T) {
	r := startRig(t, nil)
	client, broker := r.openChannel(0)
	whole := publish(1, "x", pattern(100_000))
	at := len(whole) / 2
	client.write(whole[:at])
	require.Equal(t, whole[:at], broker.read(at))
	r.stop()
	require.EqualValues(t, 320, expect(client, &frames.ConnectionClose{}).ReplyCode)
	client.write(whole[at : at+10])
	client.write(whole[at+10:])
	require.Equal(t, whole[at:], broker.read(len(whole)-at))
	expect(broker, &frames.ConnectionClose{})
	client.send(0, &frames.ConnectionCloseOk{})
	require.NoError(t, broker.Close())
	client.eof()
}

// The client goes in the middle of a frame: nothing of the proxy's own may pass for the rest of it.
func TestClientGoneInsideItsFrame(t *testing.T) {
	r := startRig(t, nil)
	client, broker := r.openChannel(0)
	part := publish(1, "x", pattern(100_000))
	part = part[:len(part)/2]
	client.write(part)
	require.Equal(t, part, broker.read(len(part)))
	r.stop()
	expect(client, &frames.ConnectionClose{}) // so the close for the broker is decided too
	require.NoError(t, client.Close())
	broker.eof()
}

func TestDrainIsBounded(t *testing.T) {
	r := startRig(t, func(o *Options) { o.DrainTimeout = time.Millisecond })
	client, _ := r.openChannel(0)
	require.NoError(t, <-r.stop())
	_, _ = client.next() // the close, or the end in whatever form
	r.ended(1)
}

// Who is not logged in has nothing to lose.
func TestDrainCutsHandshakes(t *testing.T) {
	r := startRig(t, nil)
	silent := r.dial()
	r.begin()
	require.NoError(t, <-r.stop())
	_, err := silent.next()
	require.Error(t, err)
	require.Contains(t, r.cause(), errGoing.Error())
}

// panics is a directory that breaks as soon as it is used.
type panics struct{ router.Directory }

func TestPanicEndsOneSession(t *testing.T) {
	r := startRig(t, nil)
	other, otherBroker := r.openChannel(0)

	near, far := tcpPair(t)
	s := newSession(r.srv, Listener{}, near, 99)
	s.rt = router.New(router.Options{Open: func(string) router.Directory { return panics{} }}) // nil inside: Lookup panics
	s.down = outlet{conn: near, take: s.rt.TakeDown, size: s.rt.PendingDown}
	done := make(chan struct{})
	s.over = func() { close(done) }
	go s.serve()
	client := newPeer(t, far)
	client.write(frames.ProtocolHeader[:])
	broker := r.broker.accept()
	broker.send(0, startMethod)
	expect(client, &frames.ConnectionStart{})
	client.send(0, startOk(), &frames.ConnectionTuneOk{ChannelMax: 7, FrameMax: 4096}, &frames.ConnectionOpen{VirtualHost: "/"})
	expect(broker, &frames.ConnectionStartOk{})
	broker.send(0, tuneMethod, &frames.ConnectionOpenOk{})
	expect(client, &frames.ConnectionTune{})
	expect(client, &frames.ConnectionOpenOk{})
	channelOn2(client, broker)
	client.write(publish(1, "x", nil))
	<-done
	_, err := client.next()
	require.Error(t, err)
	for err = nil; err == nil; { // both sides are closed
		_, err = broker.next()
	}
	entries := r.logs.FilterMessage("panic in session").All()
	require.Len(t, entries, 1)
	require.Contains(t, string(entries[0].ContextMap()["stack"].(string)), "router.(*Conn).ClientRun")
	require.Contains(t, r.cause(), "panic")
	roundTrip(other, otherBroker)
	require.EqualValues(t, 1, r.srv.upstreams()[0].clients.Load())
}

// channelOn2 opens channel 1 behind what the client has sent before.
func channelOn2(client, broker *peer) {
	client.t.Helper()
	client.send(1, &frames.ChannelOpen{})
	for broker.frame().Method() != frames.ChannelOpenID { // tune-ok and open come first
	}
	broker.send(1, &frames.ChannelOpenOk{})
	expect(client, &frames.ChannelOpenOk{})
}

func tcpPair(t testing.TB) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	far, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	near, err = l.Accept()
	require.NoError(t, err)
	return near, far
}

// A helper's panic ends its session as well.
func TestPanicInHelper(t *testing.T) {
	r := startRig(t, nil)
	client, broker := r.openChannel(0)
	r.session().help(func() { panic(errors.New("boom")) })
	_, err := client.next()
	require.Error(t, err)
	_, err = broker.next()
	require.Error(t, err)
	require.Contains(t, r.cause(), "panic in session")
}
