package proxy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// requireSharded reads a publish, expects one shard key in its header, and everything else as sent.
func requireSharded(p *peer, want []byte) {
	p.t.Helper()
	method, err := frames.Next(want, 0)
	require.NoError(p.t, err)
	header, err := frames.Next(want[len(method):], 0)
	require.NoError(p.t, err)
	require.Equal(p.t, method, p.frame())
	got, ok := frames.ParseContentHeader(p.frame().Payload())
	require.True(p.t, ok)
	keys := 0
	require.True(p.t, got.Headers.RoutingKeys("BCC", func([]byte) bool { keys++; return true }))
	require.Equal(p.t, 1, keys)
	rest := want[len(method)+len(header):]
	require.Equal(p.t, rest, p.read(len(rest)))
}

func TestShardedPublish(t *testing.T) {
	r := startSharded(t, &fakeControl{})
	client, broker := r.openChannel(0)
	message := publish(1, testExchange, pattern(200))
	other := publish(1, "other", pattern(10))
	var sent []byte
	const n = 500
	for range n {
		sent = append(append(sent, message...), other...)
	}
	done := writeAside(client, sent)
	for range n {
		requireSharded(broker, message)
		require.Equal(t, other, broker.read(len(other)))
	}
	require.NoError(t, <-done)
}

// Octet by octet: the header is edited once it is whole, all else streams.
func TestShardedPublishChopped(t *testing.T) {
	r := startSharded(t, &fakeControl{})
	client, broker := r.openChannel(0)
	message := publish(1, testExchange, pattern(50))
	for i := range message {
		client.write(message[i : i+1])
	}
	requireSharded(broker, message)
}

var declare = &frames.QueueDeclare{Queue: testExchange, Passive: true}

func requireDeclareOk(t *testing.T, f frames.Frame) {
	t.Helper()
	var ok frames.QueueDeclareOk
	require.Equal(t, frames.QueueDeclareOkID.String(), f.Method().String())
	require.NoError(t, ok.Decode(f.Args()))
	require.Equal(t, frames.QueueDeclareOk{Queue: testExchange, MessageCount: testShards * 10}, ok)
}

// An answer of the proxy's own waits until the delivery under way is through, in whatever pieces that comes.
func TestOwnAnswerWaitsForStreamedFrame(t *testing.T) {
	for name, frameMax := range map[string]uint32{"as it came": 0, "cut": frames.MinFrameMax} {
		t.Run(name, func(t *testing.T) {
			r := startSharded(t, &fakeControl{})
			client, broker := r.openChannel(frameMax)
			channelOn(client, broker, 2)
			body := pattern(100_000)
			whole := deliver(1, 1, body)
			at := len(whole) - 50_000
			broker.write(whole[:at])
			expect(client, &frames.BasicDeliver{})
			require.Equal(t, frames.TypeHeader, client.frame().Type())

			s := r.session()
			client.send(2, declare)
			require.Eventually(t, func() bool { // answered, but not sent
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.rt.PendingDown() > 0
			}, time.Minute, time.Millisecond)
			for _, part := range [][]byte{whole[at : at+1], whole[at+1 : at+20_000], whole[at+20_000:]} {
				broker.write(part)
			}
			var got []byte
			for len(got) < len(body) {
				f := client.frame()
				require.Equal(t, frames.TypeBody, f.Type())
				got = append(got, f.Payload()...)
			}
			require.Equal(t, body, got)
			requireDeclareOk(t, client.frame())
		})
	}
}

// Answers of the proxy's own come in order with the broker's, and pipelined requests need not wait for any.
func TestPipelinedAnswersKeepTheirOrder(t *testing.T) {
	r := startSharded(t, &fakeControl{})
	client, broker := r.openChannel(0)
	const n = 200
	var sent []byte
	for range n {
		sent = frames.AppendMethod(sent, 1, declare)
		sent = frames.AppendMethod(sent, 1, &frames.BasicQos{PrefetchCount: 3})
	}
	done := writeAside(client, sent)
	for range n {
		expect(broker, &frames.BasicQos{})
		broker.send(1, &frames.BasicQosOk{})
		requireDeclareOk(t, client.frame())
		expect(client, &frames.BasicQosOk{})
	}
	require.NoError(t, <-done)
}

// While a request of the client's is being worked on, what it sends behind that is kept, up to a limit; beyond it the client is held up.
func TestHeldInputIsBounded(t *testing.T) {
	c := &fakeControl{}
	r := startSharded(t, c)
	release := c.hold()
	client, broker := r.openChannel(0)
	channelOn(client, broker, 2)
	s := r.session()
	client.send(1, declare)
	all := repeated(publish(1, "other", pattern(50_000)))
	done := writeAside(client, all)
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.waiting
	}, time.Minute, time.Millisecond)
	s.mu.Lock()
	held := s.rt.HeldBytes()
	s.mu.Unlock()
	require.Less(t, held, 4<<20)
	broker.write(frames.AppendFrame(nil, frames.TypeHeartbeat, 0, nil)) // the other way is open
	require.Equal(t, frames.TypeHeartbeat, client.frame().Type())
	release()
	requireDeclareOk(t, client.frame())
	requireSame(broker, all)
	require.NoError(t, <-done)
}

// A client that hangs up while its publishes are held loses none of them.
func TestHeldInputReachesTheBrokerAfterEOF(t *testing.T) {
	c := &fakeControl{}
	r := startSharded(t, c)
	release := c.hold()
	client, broker := r.openChannel(0)
	s := r.session()
	sent := publish(1, "other", pattern(5000))
	client.write(append(frames.AppendMethod(nil, 1, declare), sent...))
	require.NoError(t, client.Close())
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.gone.client
	}, time.Minute, time.Millisecond)
	release()
	require.Equal(t, sent, broker.read(len(sent)))
	broker.eof()
}

// The broker goes while a request is being worked on: nobody waits for the answer.
func TestUpstreamLostWhileHolding(t *testing.T) {
	c := &fakeControl{}
	r := startSharded(t, c)
	c.hold()
	client, broker := r.openChannel(0)
	client.write(append(frames.AppendMethod(nil, 1, declare), publish(1, "other", pattern(5000))...))
	roundTripOn0(client, broker)
	require.NoError(t, broker.Close())
	require.EqualValues(t, 320, closeOk(client).ReplyCode)
	client.eof()
	require.Contains(t, r.cause(), "upstream connection lost")
}

// roundTripOn0 shows that what the client has sent before has been dealt with.
func roundTripOn0(client, broker *peer) {
	client.t.Helper()
	heartbeat := frames.AppendFrame(nil, frames.TypeHeartbeat, 0, nil)
	client.write(heartbeat)
	require.Equal(client.t, heartbeat, []byte(broker.frame()))
}
