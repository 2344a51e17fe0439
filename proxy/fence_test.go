package proxy

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
)

func (r *rig) exchange() *shards.Exchange {
	r.t.Helper()
	return r.srv.topology("/").Lookup([]byte(testExchange)).Exchange
}

// fence begins a fence and returns what will tell how it went.
func (r *rig) fence(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	x := r.exchange()
	go func() { done <- r.srv.fence(ctx, x) }()
	return done
}

// A fence ends when every connection's broker has handled what was published there.
func TestFence(t *testing.T) {
	r := startSharded(t, &fakeControl{})
	require.NoError(t, <-r.fence(t.Context()), "nobody is there")
	a, brokerA := r.openChannel(0)
	b, brokerB := r.openChannel(0)
	c, brokerC := r.openChannel(0)
	for p, message := range map[*peer][]byte{a: publish(1, testExchange, nil), b: publish(1, testExchange, nil), c: publish(1, "other", nil)} {
		p.write(message)
	}
	requireSharded(brokerA, publish(1, testExchange, nil))
	requireSharded(brokerB, publish(1, testExchange, nil))
	expect(brokerC, &frames.BasicPublish{})
	done := r.fence(t.Context())
	expect(brokerA, &frames.ChannelFlow{})
	expect(brokerB, &frames.ChannelFlow{})
	brokerA.send(1, &frames.ChannelFlowOk{Active: true})
	roundTrip(a, brokerA)
	select {
	case err := <-done:
		t.Fatal("one of two channels is through", err)
	default:
	}
	brokerB.send(1, &frames.ChannelFlowOk{Active: true})
	require.NoError(t, <-done)
	require.NoError(t, <-r.fence(t.Context()), "nothing is on its way any more")
}

// A connection that ends has nothing on its way, and a fence that is not wanted any more does not wait.
func TestFenceEnds(t *testing.T) {
	r := startSharded(t, &fakeControl{})
	client, broker := r.openChannel(0)
	client.write(publish(1, testExchange, nil))
	requireSharded(broker, publish(1, testExchange, nil))
	ctx, cancel := context.WithCancel(t.Context())
	done := r.fence(ctx)
	expect(broker, &frames.ChannelFlow{})
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	done = r.fence(t.Context())
	require.NoError(t, broker.Close())
	require.NoError(t, <-done)
}

// While a client is not read, the broker gets signs of life in its stead.
func TestBeatsWhileHeldUp(t *testing.T) {
	c := &fakeControl{}
	r := startSharded(t, c)
	release := c.hold()
	client, broker := r.openChannel(0)
	s := r.session()
	client.send(1, declare)
	all := repeated(publish(1, "other", pattern(50_000)))
	written := writeAside(client, all)
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.waiting && s.ticking
	}, time.Minute, time.Millisecond)
	s.tick()
	require.Equal(t, frames.TypeHeartbeat, broker.frame().Type())
	release()
	requireDeclareOk(t, client.frame())
	requireSame(broker, all)
	require.NoError(t, <-written)
}
