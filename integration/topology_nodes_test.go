package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
	"github.com/shardmq/shardmq/shards"
)

// TestTopologyAdoption has queues of all kinds there under a shard's name: what
// could lose messages that the policy keeps is refused by name, the rest is taken.
func TestTopologyAdoption(t *testing.T) {
	e := newEnv(t)
	limited := shards.Definition{ShardsPerNode: 1, QueueArguments: map[string]any{"x-max-length": 10, "x-overflow": "reject-publish"}}
	for i, tt := range []struct {
		def     shards.Definition
		has     amqp.Table
		refused string
	}{
		{has: amqp.Table{"x-queue-type": "classic"}},
		{has: amqp.Table{"x-max-priority": 3, "x-queue-mode": "lazy", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}},
		{has: amqp.Table{"x-single-active-consumer": true}},
		{def: shards.Definition{ShardsPerNode: 1, Ordered: true}},
		{has: amqp.Table{"x-queue-type": "quorum"}},
		{has: amqp.Table{"x-expires": 600_000}, refused: "x-expires (600000)"},
		{has: amqp.Table{"x-max-priority": 3, "x-message-ttl": int64(600_000)}, refused: "x-message-ttl (600000)"},
		{has: amqp.Table{"x-max-length-bytes": 1000}, refused: "x-max-length-bytes (1000)"},
		{has: amqp.Table{"x-queue-type": "stream"}, refused: "x-queue-type (stream)"},
		{def: limited, has: amqp.Table{"x-max-length": 10, "x-overflow": "reject-publish"}},
		{def: limited, has: amqp.Table{"x-max-length": 100, "x-overflow": "reject-publish"}},
		{def: limited, has: amqp.Table{"x-max-length": 9, "x-overflow": "reject-publish"}, refused: "x-max-length (9)"},
		{def: limited, has: amqp.Table{"x-max-length": 10}, refused: "x-overflow (none)"},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			name := fmt.Sprintf("adopt-%d%s", i, e.suffix)
			if tt.def.ShardsPerNode == 0 {
				tt.def.ShardsPerNode = 1
			}
			r := newTopology(t, e.url, "^"+name+"$", tt.def)
			b := controlOf(t, e.url, "")
			defer func() { require.NoError(t, b.Close()) }()
			node, err := b.NodeName(t.Context())
			require.NoError(t, err)
			_, err = r.ch.QueueDeclare(shards.QueueName(name, node, 0), true, false, false, false, tt.has)
			require.NoError(t, err)
			_, err = r.top.PrepareDeclare(t.Context(), r.exchange(name), shards.ExchangeSpec{Name: name, Type: shards.ModulusHash, Durable: true})
			if tt.refused == "" {
				require.NoError(t, err)
				require.Equal(t, shards.Sharded, r.exchange(name).State().Mode)
				return
			}
			var refused *shards.BrokerError
			require.ErrorAs(t, err, &refused)
			require.Contains(t, refused.Text, "its "+tt.refused+" can lose messages")
		})
	}
}

// TestTopologyReroutes kills a node: its shards leave at once, what is published
// meanwhile is confirmed by the others, and they come back by themselves.
func TestTopologyReroutes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	one, two := startPair(ctx, t)
	r := newTopology(t, one.URL, "^clu$", shards.Definition{ShardsPerNode: 2},
		controlOf(t, one.URL, one.Name), controlOf(t, two.URL, two.Name))
	r.top.Start(ctx)
	state := r.declare(shards.ExchangeSpec{Name: "clu", Type: shards.ModulusHash, Durable: true})
	x := r.exchange("clu")
	require.NoError(t, r.ch.Confirm(false))

	require.NoError(t, two.Kill())
	require.Eventually(t, func() bool { return x.State().LiveLen() == 2 }, patience, time.Millisecond)
	for h := range uint64(40) {
		now := x.State()
		at := now.Place(h)
		require.Equal(t, one.Name, now.Set.At(at).Node)
		confirm, err := r.ch.PublishWithDeferredConfirm("clu", "k", false, false,
			amqp.Publishing{Headers: amqp.Table{"BCC": []any{now.Set.Key(at, 1)}}, DeliveryMode: amqp.Persistent})
		require.NoError(t, err)
		require.True(t, confirm.Wait())
	}
	require.NoError(t, two.Restart(ctx))
	require.Eventually(t, func() bool { return x.State().Live == nil }, patience, 10*time.Millisecond)
	require.Same(t, state.Set, x.State().Set)
	counts, err := r.top.Counts(ctx, x)
	require.NoError(t, err)
	messages := 0
	for i, count := range counts {
		require.True(t, count.Exists)
		messages += int(count.Messages)
		if state.Set.At(i).Node != two.Name {
			continue
		}
		require.Zero(t, count.Messages)
		confirm, err := r.ch.PublishWithDeferredConfirm("clu", "k", false, false, amqp.Publishing{Headers: amqp.Table{"BCC": []any{state.Set.Key(i, 1)}}})
		require.NoError(t, err)
		require.True(t, confirm.Wait())
		_, ok, err := r.ch.Get(state.Set.At(i).Queue, true)
		require.NoError(t, err)
		require.True(t, ok, "bound again")
	}
	require.Equal(t, 40, messages)
}

// startPair starts a cluster of two nodes, which is stopped at the test's end.
func startPair(ctx context.Context, t *testing.T) (one, two *rig.Node) {
	t.Helper()
	start := func() *rig.Node {
		node, err := rig.StartNode(ctx, rig.NodeOptions{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, node.Stop()) })
		return node
	}
	one, two = start(), start()
	require.NoError(t, two.Join(ctx, one))
	return one, two
}
