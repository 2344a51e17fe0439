package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

// TestNative: where the broker itself has the type x-modulus-hash and the exchange exists with it, the broker places
// the messages, from whatever source, and publishes pass unrewritten.
func TestNative(t *testing.T) {
	t.Parallel()
	e := newNodeEnv(t, rig.NodeOptions{Plugins: []string{"rabbitmq_sharding"}})
	direct := confirming(t, e.url)
	declareSharded(t, direct, "images")

	p := e.proxy(map[string]int{"images": 4})
	ch := confirming(t, p.URL)
	declareSharded(t, ch, "images")
	want := vectors(t)[4]
	for key := range want {
		publish(t, ch, "images", key, text(key))
	}
	shards := e.probe("images", 4)
	requirePlacement(t, shards, want)
	for key := range want {
		publish(t, direct, "images", key, text(key))
	}
	requirePlacement(t, shards, want)

	var list []string
	for key := range want {
		list = append(list, key)
	}
	publishKeys(t, ch, "images", list)
	q, err := ch.QueueDeclare("images", true, false, false, false, nil)
	require.NoError(t, err)
	require.Equal(t, "images", q.Name)
	require.Equal(t, 100, q.Messages)
	first, second := consume(t, p.URL, "images", 0), consume(t, p.URL, "images", 0)
	waitBodies(t, list, first, second)
	shards.waitConsumers(1, 1, 1, 1)
	for _, d := range append(first.received(), second.received()...) {
		require.Equal(t, "images", d.Exchange)
		require.Equal(t, string(d.Body), d.RoutingKey)
		require.Nil(t, d.Headers, "publishes are not rewritten")
	}
}
