package proxy

import (
	"bytes"
	"crypto/sha256"
	"io"
	"testing"

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

// requireSame reads as much as want from p and compares, without keeping it all.
func requireSame(p *peer, want []byte) {
	p.t.Helper()
	h := sha256.New()
	_, err := io.CopyN(h, p.r, int64(len(want)))
	require.NoError(p.t, err)
	sum := sha256.Sum256(want)
	require.Equal(p.t, sum[:], h.Sum(nil))
}

// A reader that does not read holds up its own broker connection and nobody else.
func TestSlowReader(t *testing.T) { slowReader(t, startRig(t, nil)) }

func slowReader(t *testing.T, r *rig) {
	other, otherBroker := r.openChannel(0)
	client, broker := r.openChannel(0)
	all := repeated(deliver(1, 1, pattern(50_000)))
	done := writeAside(broker, all)
	for range 200 {
		roundTrip(other, otherBroker)
	}
	client.write(publish(1, "x", []byte("the other way is open")))
	expect(broker, &frames.BasicPublish{})
	select {
	case err := <-done:
		require.Fail(t, "the broker was not held up", err)
	default:
	}
	requireSame(client, all)
	require.NoError(t, <-done)
}

// A broker that does not read holds up its own client and nobody else.
func TestSlowBroker(t *testing.T) { slowBroker(t, startRig(t, nil)) }

func slowBroker(t *testing.T, r *rig) {
	other, otherBroker := r.openChannel(0)
	client, broker := r.openChannel(0)
	all := repeated(publish(1, "x", pattern(50_000)))
	done := writeAside(client, all)
	for range 200 {
		roundTrip(other, otherBroker)
	}
	broker.write(deliver(1, 1, []byte("the other way is open")))
	expect(client, &frames.BasicDeliver{})
	select {
	case err := <-done:
		require.Fail(t, "the client was not held up", err)
	default:
	}
	requireSame(broker, all)
	require.NoError(t, <-done)
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
