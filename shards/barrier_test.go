package shards

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// fences stands for the clients of all proxies: a fence waits while it is shut.
type fences struct {
	mu   sync.Mutex
	shut map[*Exchange]chan struct{}
	made int
}

func (f *fences) fence(ctx context.Context, x *Exchange) error {
	f.mu.Lock()
	f.made++
	shut := f.shut[x]
	f.mu.Unlock()
	if !x.State().Paused {
		panic("a fence, and publishes go on")
	}
	if shut == nil {
		return nil
	}
	select {
	case <-shut:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// barriers are proxies that keep the order when shards change.
type barriers struct {
	*proxies
	f *fences
}

func newBarriers(t *testing.T, n int) *barriers {
	b := &barriers{newProxies(t, 0, Definition{ShardsPerNode: 2, Ordered: true, Barrier: true}), &fences{shut: make(map[*Exchange]chan struct{})}}
	for range n {
		b.start()
	}
	return b
}

func (b *barriers) start() *testProxy {
	p := b.proxies.start()
	p.top.FenceBy(b.f.fence) // nothing has paused yet
	return p
}

// resize has all proxies reload.
func (b *barriers) resize(perNode int) {
	b.def.ShardsPerNode = perNode
	for _, p := range b.all {
		p.top.Reconfigure(NewPolicies([]*Policy{b.policy()}), nil)
	}
}

// fill puts messages into a shard.
func (b *barriers) fill(index int, messages uint32) {
	b.cluster.do(func() {
		name := QueueName("images", "rabbit@a", index)
		q := b.cluster.queues[name]
		q.Messages = messages
		b.cluster.queues[name] = q
	})
}

// all reports whether every proxy pauses or not, and publishes over so many shards.
func (b *barriers) at(paused bool, shards int) func() bool {
	return func() bool {
		for _, p := range b.all {
			if s := p.x.State(); s.Paused != paused || s.Set.Len() != shards {
				return false
			}
		}
		return true
	}
}

// awaiting returns a channel that is closed when publishes of a proxy may go on.
func (b *barriers) awaiting(p *testProxy) <-chan error {
	open := make(chan error, 1)
	go func() { open <- p.top.AwaitOpen(b.t.Context(), p.x) }()
	return open
}

// Publishes of all proxies wait until nothing is left in any shard, and no message
// is with a consumer.
func TestBarrierResizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBarriers(t, 2)
		defer b.close()
		client := (&fakeClient{broker: b.counts, slow: true}).join(t, b.all[1].g, JoinSpec{})
		m := client.member
		require.NoError(t, <-b.awaiting(b.all[0]), "nothing to wait for")
		shut := make(chan struct{})
		b.f.shut[b.all[1].x] = shut
		b.fill(1, 5)
		b.resize(4)
		within(t, 3*time.Second, b.at(true, 2), "publishes pause")
		open := b.awaiting(b.all[0])
		time.Sleep(5 * time.Second)
		require.Len(t, client.shards(), 4, "consumers go on")
		close(shut)
		time.Sleep(5 * time.Second)
		require.Len(t, client.shards(), 4, "messages wait")
		b.fill(1, 0)
		within(t, time.Second, func() bool { return len(client.shards()) == 0 }, "consumers are called off")
		time.Sleep(5 * time.Second)
		require.True(t, b.at(true, 2)(), "messages are not settled")
		select {
		case <-open:
			t.Fatal("publishes go on")
		default:
		}
		client.settle(m)
		within(t, 2*time.Second, b.at(false, 4), "publishes go by the new shards")
		require.NoError(t, <-open)
		within(t, 2*time.Second, func() bool { return len(client.shards()) == 4 }, "and all are consumed")
		require.Equal(t, 2, b.f.made)
	})
}

// A message that comes back while consumers are called off brings them back.
func TestBarrierMessageReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBarriers(t, 1)
		defer b.close()
		client := (&fakeClient{broker: b.counts, slow: true}).join(t, b.all[0].g, JoinSpec{})
		m := client.member
		b.resize(3)
		within(t, 3*time.Second, func() bool { return len(client.shards()) == 0 }, "consumers are called off")
		b.fill(0, 1)
		client.settle(m)
		within(t, 3*time.Second, func() bool { return len(client.shards()) == 3 }, "consumers are back")
		require.True(t, b.at(true, 2)())
		b.fill(0, 0)
		within(t, 3*time.Second, func() bool { client.settle(m); return b.at(false, 3)() }, "passed")
	})
}

// Messages that nobody consumes end the pause, and it is tried again.
func TestBarrierIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBarriers(t, 2)
		defer b.close()
		b.fill(0, 1)
		b.resize(4)
		within(t, 3*time.Second, b.at(true, 2), "publishes pause")
		open := b.awaiting(b.all[1])
		begun := time.Now()
		require.NoError(t, <-open)
		require.InDelta(t, 60, time.Since(begun).Seconds(), 3)
		within(t, time.Second, b.at(false, 2), "by the old shards")
		time.Sleep(50 * time.Second)
		require.True(t, b.at(false, 2)())
		within(t, 12*time.Second, b.at(true, 2), "tried again")
		b.fill(0, 0)
		within(t, 3*time.Second, b.at(false, 4), "passed")
	})
}

// What is wanted no longer is waited for no longer.
func TestBarrierIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBarriers(t, 2)
		defer b.close()
		b.fill(0, 1)
		b.resize(4)
		within(t, 3*time.Second, b.at(true, 2), "publishes pause")
		b.resize(2)
		within(t, 3*time.Second, b.at(false, 2), "the present shards it is")
		b.resize(3)
		within(t, 3*time.Second, b.at(true, 2), "publishes pause")
		b.def.Barrier = false
		b.resize(3)
		within(t, 3*time.Second, b.at(false, 3), "without a barrier")
	})
}

// A proxy that hears no leader keeps its pause for a while, and not for ever.
func TestBarrierWithoutLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBarriers(t, 2)
		defer b.close()
		b.fill(0, 1)
		b.resize(4)
		within(t, 3*time.Second, b.at(true, 2), "publishes pause")
		for _, p := range b.all {
			p.tr.Cut()
		}
		time.Sleep(pauseMost - 5*time.Second)
		require.True(t, b.at(true, 2)())
		within(t, 6*time.Second, b.at(false, 2), "publishes go on")
		b.fill(0, 0)
		for _, p := range b.all {
			p.tr.Restore()
		}
		within(t, 3*time.Minute, b.at(false, 4), "and go over when there is a leader again")
	})
}

// An exchange that is none of ours any more, or is not there, pauses nothing.
func TestBarrierOfNoExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBarriers(t, 1)
		defer b.close()
		p := b.all[0]
		b.fill(0, 1)
		b.resize(4)
		within(t, 3*time.Second, b.at(true, 2), "publishes pause")
		open := b.awaiting(p)
		p.top.Reconfigure(NewPolicies(nil), nil)
		require.NoError(t, <-open)

		p.top.Reconfigure(NewPolicies([]*Policy{b.policy()}), nil)
		p.x = p.top.Lookup([]byte("images")).Exchange
		_, err := p.top.Resolve(t.Context(), p.x, true)
		require.NoError(t, err)
		within(t, 2*time.Minute, func() bool { return p.x.State().Paused }, "publishes pause")
		open = b.awaiting(p)
		b.cluster.deleteExchange("images")
		require.NoError(t, <-open)
		require.Equal(t, Missing, p.x.State().Mode)
	})
}

// Where the broker hashes there is no barrier, and the log says so.
func TestNoBarrierInNativeMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := Definition{ShardsPerNode: 2, Ordered: true, Barrier: true}
		top, cluster, _, logs := topology(t, 1, policy(t, "^x$", d))
		cluster.exchanges["x"] = ExchangeSpec{Name: "x", Type: ModulusHash, Durable: true}
		top.Start(t.Context())
		synctest.Wait()
		d.ShardsPerNode = 4
		top.Reconfigure(NewPolicies([]*Policy{policy(t, "^x$", d)}), nil)
		pass(lookEvery)
		x := exchangeOf(t, top, "x")
		require.Equal(t, Native, x.State().Mode)
		require.Equal(t, 4, x.State().Set.Len())
		require.Equal(t, 1, logs.count("order-barrier is without effect"))
	})
}

func TestBarrierNeedsOrder(t *testing.T) {
	_, err := NewPolicy("p", "/", "^x$", 0, Definition{ShardsPerNode: 1, Barrier: true})
	require.ErrorContains(t, err, "max-consumers-per-shard: 1")
}
