package proxy

import (
	"bytes"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// flood has the broker send deliveries until its connection ends. It returns once they seem to be stuck.
func flood(t *testing.T, broker *peer) {
	t.Helper()
	done := make(chan struct{})
	var sent atomic.Int64
	go func() {
		defer close(done)
		b := deliver(1, 1, pattern(60_000))
		for {
			if _, err := broker.Write(b); err != nil {
				return
			}
			sent.Add(1)
		}
	}()
	t.Cleanup(func() {
		_ = broker.Close()
		<-done
	})
	last, same := int64(0), 0
	require.Eventually(t, func() bool {
		now := sent.Load()
		if now != last {
			last, same = now, 0
		}
		same++
		return now > 0 && same > 50
	}, time.Minute, time.Millisecond)
}

func TestUpstreamLost(t *testing.T) {
	cases := []struct {
		name string
		part []byte // of a frame, sent before the end
		end  func(*peer)
	}{
		{"clean", nil, func(p *peer) { require.NoError(p.t, p.Close()) }},
		{"reset", nil, (*peer).reset},
		{"inside a head", deliver(1, 1, nil)[:5], func(p *peer) { require.NoError(p.t, p.Close()) }},
		{"inside a method frame", deliver(1, 1, nil)[:20], (*peer).reset},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			r := startRig(t, nil)
			client, broker := r.openChannel(0)
			before := deliver(1, 1, []byte("last"))
			broker.write(append(bytes.Clone(before), tc.part...))
			require.Equal(t, before, client.read(len(before)))
			tc.end(broker)
			m := closeOk(client)
			require.EqualValues(t, 320, m.ReplyCode)
			require.Contains(t, m.ReplyText, "CONNECTION_FORCED - shardmq lost its connection to the broker")
			client.eof()
			require.Contains(t, r.cause(), "upstream connection lost")
		})
	}
}

// Inside a frame that is half delivered nothing can be said: the client sees the end.
func TestUpstreamLostInsideStreamedFrame(t *testing.T) {
	for name, end := range map[string]func(*peer){"clean": func(p *peer) { require.NoError(p.t, p.Close()) }, "reset": (*peer).reset} {
		t.Run(name, func(t *testing.T) {
			r := startRig(t, nil)
			client, broker := r.openChannel(0)
			part := deliver(1, 1, pattern(50_000))
			part = part[:len(part)-100]
			broker.write(part)
			require.Equal(t, part, client.read(len(part)))
			end(broker)
			client.eof()
			require.NoError(t, client.Close())
			require.Contains(t, r.cause(), "upstream connection lost")
		})
	}
}

// A broker that closes a connection resets the socket when the client goes on sending: what it said must not be lost.
func TestCloseTextSurvivesReset(t *testing.T) {
	t.Parallel() // it takes the proxy's patience
	r := startRig(t, nil)
	client, broker := r.openChannel(0)
	client.write(publish(1, "x", pattern(100_000))) // the broker does not read it: closing resets
	expect(broker, &frames.BasicPublish{})
	broker.send(0, &frames.ConnectionClose{ReplyCode: 320, ReplyText: "CONNECTION_FORCED - broker forced connection closure"})
	broker.reset()
	m := closeOk(client)
	require.Equal(t, "CONNECTION_FORCED - broker forced connection closure", m.ReplyText)
	client.eof()
	require.Contains(t, r.cause(), "CONNECTION_FORCED - broker forced connection closure")
}

// The client writes all the time while the broker closes and resets.
func TestCloseTextSurvivesResetUnderLoad(t *testing.T) {
	r := startRig(t, nil)
	client, broker := r.openChannel(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := publish(1, "x", pattern(10_000))
		for {
			if _, err := client.Write(b); err != nil {
				return
			}
		}
	}()
	expect(broker, &frames.BasicPublish{})
	broker.send(0, &frames.ConnectionClose{ReplyCode: 320, ReplyText: "CONNECTION_FORCED - going down"})
	broker.reset()
	require.Equal(t, "CONNECTION_FORCED - going down", expect(client, &frames.ConnectionClose{}).ReplyText)
	require.NoError(t, client.Close())
	<-done
	require.Contains(t, r.cause(), "CONNECTION_FORCED - going down")
}

func TestClientGoneWhileBrokerSends(t *testing.T) {
	for name, end := range map[string]func(*peer){"clean": (*peer).closeWrite, "reset": (*peer).reset} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRig(t, nil)
			client, broker := r.openChannel(0)
			flood(t, broker)
			end(client)
			broker.eof() // the broker learns of it though its own sending is stuck
			require.NotEmpty(t, r.cause())
		})
	}
}

// A client's connection.close followed at once by the end of the connection is no error.
func TestClientClosesAndDoesNotWait(t *testing.T) {
	r := startRig(t, nil)
	client, broker := r.openChannel(0)
	client.send(0, &frames.ConnectionClose{ReplyCode: 200})
	require.NoError(t, client.Close())
	expect(broker, &frames.ConnectionClose{})
	broker.send(0, &frames.ConnectionCloseOk{})
	_, err := io.ReadAll(broker.r)
	require.NoError(t, err)
	require.NoError(t, broker.Close())
	require.Equal(t, "connection closed", r.ended(1)[0].Message)
}

// The broker dies between the client's connection.close and its answer: the client must not wait for that.
func TestUpstreamLostWhileClosing(t *testing.T) {
	r := startRig(t, nil)
	client, broker := r.openChannel(0)
	client.send(0, &frames.ConnectionClose{ReplyCode: 200})
	expect(broker, &frames.ConnectionClose{})
	require.NoError(t, broker.Close())
	client.eof()
	require.NoError(t, client.Close())
	r.ended(1)
}
