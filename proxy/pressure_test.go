package proxy

import (
	"bytes"
	"crypto/sha256"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// more is more than the sockets' buffers on the way can hold, so that whoever writes it has to wait for the reader.
const more = 32 << 20

// repeated is b so often that it is more octets than all buffers hold.
func repeated(b []byte) []byte { return bytes.Repeat(b, more/len(b)+1) }

// writeAside writes b in a goroutine and reports how it went.
func writeAside(p *peer, b []byte) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := p.Write(b)
		done <- err
	}()
	return done
}

// writing is a peer's attempt to write more than fits.
type writing struct {
	sent atomic.Int64 // octets
	done chan error
}

// writeUntilHeldUp writes b in a goroutine and returns when that seems to be stuck.
func writeUntilHeldUp(p *peer, b []byte) *writing {
	p.t.Helper()
	w := &writing{done: make(chan error, 1)}
	go func() {
		for rest := b; len(rest) > 0; {
			n, err := p.Write(rest[:min(len(rest), 64<<10)])
			w.sent.Add(int64(n))
			if err != nil {
				w.done <- err
				return
			}
			rest = rest[n:]
		}
		w.done <- nil
	}()
	last, same := int64(0), 0
	require.Eventually(p.t, func() bool {
		now := w.sent.Load()
		if now != last {
			last, same = now, 0
		}
		same++
		return now > 0 && same > 50
	}, time.Minute, time.Millisecond)
	require.Less(p.t, w.sent.Load(), int64(len(b)), "nothing has held it up")
	return w
}

// goOn has a connection with channels 1 and 2 do what others do meanwhile: ask and be answered, publish and be delivered to, on both channels.
func goOn(client, broker *peer) {
	client.t.Helper()
	for i := range 50 {
		client.send(2, &frames.QueueDeclare{Queue: "q"})
		expect(broker, &frames.QueueDeclare{})
		broker.send(2, &frames.QueueDeclareOk{Queue: "q", MessageCount: uint32(i)})
		require.EqualValues(client.t, i, expect(client, &frames.QueueDeclareOk{}).MessageCount)
		up, down := publish(1, "x", pattern(1000)), deliver(2, uint64(i+1), pattern(1000))
		client.write(up)
		require.Equal(client.t, up, broker.read(len(up)))
		broker.write(down)
		require.Equal(client.t, down, client.read(len(down)))
	}
}

// requireSame reads as much as want from p and compares, without keeping it all.
func requireSame(p *peer, want []byte) {
	p.t.Helper()
	h := sha256.New()
	_, err := io.CopyN(h, p.r, int64(len(want)))
	require.NoError(p.t, err)
	sum := sha256.Sum256(want)
	require.Equal(p.t, sum[:], h.Sum(nil))
}

// A reader that does not read holds up whoever feeds it, its own broker connection, and nobody else: not even what it sends itself.
func TestSlowReader(t *testing.T) { slowReader(t, startRig(t, nil)) }

func slowReader(t *testing.T, r *rig) {
	other, otherBroker := r.openChannel(0)
	channelOn(other, otherBroker, 2)
	client, broker := r.openChannel(0)
	channelOn(client, broker, 2)
	all := repeated(deliver(1, 1, pattern(50_000)))
	w := writeUntilHeldUp(broker, all)
	goOn(other, otherBroker)
	for _, channel := range []uint16{1, 2} {
		message := publish(channel, "x", []byte("the other way is open"))
		client.write(message)
		require.Equal(t, message, broker.read(len(message)))
	}
	require.Empty(t, w.done, "it is still held up")
	requireSame(client, all)
	require.NoError(t, <-w.done)
	goOn(client, broker)
}

// A broker that does not read holds up its own client and nobody else: not even what the client is sent.
func TestSlowBroker(t *testing.T) { slowBroker(t, startRig(t, nil)) }

func slowBroker(t *testing.T, r *rig) {
	other, otherBroker := r.openChannel(0)
	channelOn(other, otherBroker, 2)
	client, broker := r.openChannel(0)
	channelOn(client, broker, 2)
	all := repeated(publish(1, "x", pattern(50_000)))
	w := writeUntilHeldUp(client, all)
	goOn(other, otherBroker)
	for _, channel := range []uint16{1, 2} {
		message := deliver(channel, 1, []byte("the other way is open"))
		broker.write(message)
		require.Equal(t, message, client.read(len(message)))
	}
	require.Empty(t, w.done, "it is still held up")
	requireSame(broker, all)
	require.NoError(t, <-w.done)
	goOn(client, broker)
}

// A client that writes all it has before it reads anything, while the broker's confirms and deliveries pile up.
func TestWritingWithoutReading(t *testing.T) { writingWithoutReading(t, startRig(t, nil)) }

func writingWithoutReading(t *testing.T, r *rig) {
	client, broker := r.openChannel(0)
	down := repeated(append(deliver(1, 1, pattern(2_000)), frames.AppendMethod(nil, 1, &frames.BasicAck{DeliveryTag: 1})...))
	up := repeated(publish(1, "x", pattern(2_000)))
	fromBroker := writeAside(broker, down)
	fromClient := writeAside(client, up)
	requireSame(broker, up)
	require.NoError(t, <-fromClient)
	requireSame(client, down)
	require.NoError(t, <-fromBroker)
}

// A client is cut off from a broker that does not read: its session ends all the same once the broker goes.
func TestBrokerLostWhileClientIsHeldUp(t *testing.T) {
	for name, end := range map[string]func(*peer){"reset": (*peer).reset, "half closed": (*peer).closeWrite} {
		t.Run(name, func(t *testing.T) {
			r := startRig(t, nil)
			client, broker := r.openChannel(0)
			done := writeAside(client, repeated(publish(1, "x", pattern(50_000))))
			expect(broker, &frames.BasicPublish{})
			end(broker)
			require.EqualValues(t, 320, expect(client, &frames.ConnectionClose{}).ReplyCode)
			require.NoError(t, client.Close())
			<-done
			require.NotEmpty(t, r.cause())
		})
	}
}
