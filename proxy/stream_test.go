package proxy

import (
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

func TestOctetByOctetOverSockets(t *testing.T) {
	r := startRig(t, nil)
	client, broker := r.openChannel(0)
	for _, c := range []struct {
		from, to   *peer
		fromClient bool
	}{{client, broker, true}, {broker, client, false}} {
		whole := stream(c.fromClient)
		for i := range whole {
			c.from.write(whole[i : i+1])
		}
		require.Equal(t, whole, c.to.read(len(whole)))
	}
}

// A client need not wait for any answer of the handshake's or a channel's.
func TestPipeliningClient(t *testing.T) {
	t.Parallel() // it takes the proxy's patience
	r := startRig(t, nil)
	client := r.dial()
	all := append([]byte(nil), frames.ProtocolHeader[:]...)
	all = frames.AppendMethod(all, 0, startOk())
	client.write(all)
	broker := r.broker.accept()
	broker.send(0, startMethod)
	expect(broker, &frames.ConnectionStartOk{})
	broker.send(0, tuneMethod)
	expect(client, &frames.ConnectionStart{})
	tune := expect(client, &frames.ConnectionTune{})

	all = frames.AppendMethod(nil, 0, &frames.ConnectionTuneOk{ChannelMax: 7, FrameMax: tune.FrameMax})
	all = frames.AppendMethod(all, 0, &frames.ConnectionOpen{VirtualHost: "/"})
	rest := frames.AppendMethod(nil, 1, &frames.ChannelOpen{})
	rest = frames.AppendMethod(rest, 1, &frames.ConfirmSelect{})
	rest = append(rest, publish(1, "x", []byte("body"))...)
	rest = frames.AppendMethod(rest, 1, &frames.BasicGet{Queue: "q"})
	rest = frames.AppendMethod(rest, 0, &frames.ConnectionClose{ReplyCode: 200})
	client.write(append(all, rest...))
	expect(broker, &frames.ConnectionTuneOk{})
	expect(broker, &frames.ConnectionOpen{})
	require.Equal(t, rest, broker.read(len(rest)))

	back := frames.AppendMethod(nil, 0, &frames.ConnectionOpenOk{})
	back = frames.AppendMethod(back, 1, &frames.ChannelOpenOk{})
	back = frames.AppendMethod(back, 1, &frames.ConfirmSelectOk{})
	back = frames.AppendMethod(back, 1, &frames.BasicAck{DeliveryTag: 1})
	back = frames.AppendMethod(back, 1, &frames.BasicGetEmpty{})
	back = frames.AppendMethod(back, 0, &frames.ConnectionCloseOk{})
	broker.write(back)
	require.Equal(t, back, client.read(len(back)))
	require.NoError(t, client.Close())
	require.Equal(t, "connection closed", r.ended(1)[0].Message)
}

// Body frames larger than any buffer pass both ways at once, and are cut only for a client that takes less.
func TestLargeBodies(t *testing.T) {
	const size = 3 << 20
	for _, tc := range []struct {
		name     string
		frameMax uint32
		piece    int
	}{{"smallest frame_max", frames.MinFrameMax, frames.MinFrameMax - frames.Overhead}, {"offered frame_max", 0, brokerFrameMax - 1024 - frames.Overhead}} {
		t.Run(tc.name, func(t *testing.T) {
			r := startRig(t, nil)
			client, broker := r.openChannel(tc.frameMax)
			body := pattern(size)

			up := announcing(publish(1, "x", nil), size)
			for rest := body; len(rest) > 0; rest = rest[min(tc.piece, len(rest)):] {
				up = frames.AppendFrame(up, frames.TypeBody, 1, rest[:min(tc.piece, len(rest))])
			}
			var writing sync.WaitGroup
			writing.Go(func() { _, _ = client.Write(up) })
			writing.Go(func() { _, _ = broker.Write(deliver(1, 1, body)) })

			want := announcing(deliver(1, 1, nil), size)
			require.Equal(t, want, client.read(len(want)))
			var got []byte
			for len(got) < size {
				f := client.frame()
				require.Equal(t, frames.TypeBody, f.Type())
				require.LessOrEqual(t, len(f.Payload()), tc.piece)
				got = append(got, f.Payload()...)
			}
			require.Equal(t, body, got)
			require.Equal(t, up, broker.read(len(up)))
			writing.Wait()
			roundTrip(client, broker)
		})
	}
}

// RabbitMQ itself sends header frames above the client's frame_max; they cannot be cut.
func TestLargeHeaderFramePasses(t *testing.T) {
	r := startRig(t, nil)
	client, broker := r.openChannel(frames.MinFrameMax)
	b := frames.AppendMethod(nil, 1, &frames.BasicDeliver{ConsumerTag: "c"})
	b = frames.AppendFrame(b, frames.TypeHeader, 1, append(contentHeader(1, 0)[frames.HeadSize:frames.HeadSize+14], pattern(600<<10)...))
	go func() { _, _ = broker.Write(b) }()
	require.Equal(t, b, client.read(len(b)))
	roundTrip(client, broker)
}

func TestContentsInterleaveOverChannels(t *testing.T) {
	r := startRig(t, nil)
	client, broker := r.openChannel(0)
	channelOn(client, broker, 2)
	var up, down []byte
	up = append(up, announcing(publish(1, "x", nil), 4)...)
	second := announcing(publish(1, "y", nil), 2)
	for len(second) > 0 {
		f, err := frames.Next(second, 0)
		require.NoError(t, err)
		second = second[len(f):]
		f[2] = 2 // channel
		up = append(up, f...)
	}
	up = frames.AppendFrame(up, frames.TypeBody, 1, []byte("ab"))
	up = frames.AppendFrame(up, frames.TypeBody, 2, []byte("xy"))
	up = frames.AppendFrame(up, frames.TypeHeartbeat, 0, nil)
	up = frames.AppendFrame(up, frames.TypeBody, 1, []byte("cd"))
	client.write(up)
	require.Equal(t, up, broker.read(len(up)))
	down = append(down, deliver(2, 1, []byte("a"))...)
	down = append(down, deliver(1, 1, []byte("b"))...)
	broker.write(down)
	require.Equal(t, down, client.read(len(down)))
}

// What a client has sent before it hangs up reaches the broker, and only then the end.
func TestClientEOFComesBehindItsFrames(t *testing.T) {
	r := startRig(t, nil)
	client, broker := r.openChannel(0)
	var sent []byte
	for len(sent) < 8<<20 {
		sent = append(sent, publish(1, "x", pattern(100_000))...)
	}
	go func() {
		_, _ = client.Write(sent)
		_ = client.Close()
	}()
	got, err := io.ReadAll(broker.r)
	require.NoError(t, err)
	require.Equal(t, sent, got)
	require.NoError(t, broker.Close())
	require.Contains(t, r.cause(), "client: EOF")
}
