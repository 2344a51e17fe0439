package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

// TestMigrationAdopts: a proxy put in front of a broker with the plugin on takes its shards as they are. The backlog is
// consumed whole, keys stay on their shards, and the broker goes on placing the messages.
func TestMigrationAdopts(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		e := newPluginEnv(t, version, 4)
		s := newStream(t)
		s.send(e.url, 3)
		shards := e.probe("images", 4)
		backlog := shards.load().messages
		require.Equal(t, len(s.sent), sum(backlog))

		p := e.adopt(4)
		declareSharded(t, open(t, p.URL), "images") // as every client of the plugin does at its start
		require.Equal(t, modulusHash, e.exchangeType())
		s.send(p.URL, 3)
		shards.waitMessages(len(s.sent))
		for i, n := range shards.load().messages {
			require.Equal(t, 2*backlog[i], n, "messages on shard %d: as many of each key as before", i)
		}
		one := consume(t, p.URL, "images", 10)
		s.requireAll(one)
		requireOrder(t, one.received())
		for _, d := range one.received() {
			require.Equal(t, "images", d.Exchange)
			require.Nil(t, d.Headers, "publishes are not rewritten")
		}
		one.leave(t)
		requirePlacedAsByPlugin(t, e, p.URL)
	})
}

// requirePlacedAsByPlugin publishes keys whose places are known, with nobody consuming, and takes them out again.
func requirePlacedAsByPlugin(t *testing.T, e *env, url string) {
	t.Helper()
	want := vectors(t)[4]
	ch := confirming(t, url)
	for key := range want {
		publish(t, ch, "images", key, text(key))
	}
	requirePlacement(t, e.probe("images", 4), want)
}

// TestMigrationRolling: clients move from the broker to the proxy one by one, while both kinds publish and consume.
func TestMigrationRolling(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		e := newPluginEnv(t, version, 4)
		s := newStream(t)
		var consumers []*consumer
		for range 4 { // as many as shards: the plugin gives each one and leaves the rest alone
			consumers = append(consumers, consume(t, e.url, "images", 10))
		}
		p := e.adopt(4)
		direct, proxied := s.keepSending(e.url), s.keepSending(p.URL)
		for i := range 4 {
			moved := consume(t, p.URL, "images", 10)
			consumers = append(consumers, moved)
			consumers[i].finish(t)
			receivesMore(t, moved)
		}
		for _, stop := range []func() (int, int){direct, proxied} {
			sent, refused := stop()
			require.Positive(t, sent)
			require.Zero(t, refused)
		}
		s.requireAll(consumers...)
	})
}

// finish ends the consumer after it has acknowledged all it was given.
func (c *consumer) finish(t *testing.T) {
	t.Helper()
	require.NoError(t, c.ch.Cancel(c.tag, false))
	<-c.done
	require.NoError(t, c.conn.Close())
}

// receivesMore waits until a consumer has got some messages more.
func receivesMore(t *testing.T, c *consumer) {
	t.Helper()
	before := len(c.received())
	eventually(t, "20 messages more", func() string {
		if n := len(c.received()) - before; n < 20 {
			return fmt.Sprintf("%d arrived", n)
		}
		return ""
	})
}

// TestMigrationCluster: the same on two nodes, up to the plugin's end. The plugin's consumers get only the shards of the
// node they are connected to; the proxy's get all.
func TestMigrationCluster(t *testing.T) {
	t.Parallel()
	e := newNodeEnv(t, rig.NodeOptions{Plugins: []string{"rabbitmq_sharding"}})
	second, err := rig.StartNode(t.Context(), rig.NodeOptions{Plugins: []string{"rabbitmq_sharding"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, second.Stop()) })
	require.NoError(t, second.Join(t.Context(), e.broker))
	e.pluginShards(2)
	declareSharded(t, open(t, e.url), "images")
	names := []string{e.broker.Name, second.Name}
	placed := func() []int { return messages(t, e, names, 2) }

	s := newStream(t)
	s.send(e.url, 3)
	backlog := placed()
	require.Equal(t, len(s.sent), sum(backlog))

	p := e.start(rig.ProxyOptions{Upstream: e.url, Config: fmt.Sprintf(`listeners:
  - address: "127.0.0.1:0"
upstream:
  nodes:
    - {name: %q, address: %q}
    - {name: %q, address: %q}
policies:
%s`, names[0], e.broker.Addr, names[1], second.Addr, e.policy("images", 2, ", hash: phash2"))})
	s.send(p.URL, 3)
	for i, n := range placed() {
		require.Equal(t, 2*backlog[i], n, "messages on shard %d after the proxy came", i)
	}
	e.switchOver(p.URL)
	require.Equal(t, "direct", e.exchangeType())
	for _, n := range []*rig.Node{e.broker, second} {
		require.NoError(t, n.Plugins(t.Context(), "disable", "rabbitmq_sharding"))
	}
	s.send(p.URL, 3)
	for i, n := range placed() {
		require.Equal(t, 3*backlog[i], n, "messages on shard %d after the plugin's end", i)
	}
	one := consume(t, p.URL, "images", 10)
	s.requireAll(one)
	requireOrder(t, one.received())
}

// messages returns what the shards of a cluster's nodes hold, n on each, in name order: the nodes' names are of one
// length and n is below ten.
func messages(t *testing.T, e *env, nodes []string, n int) []int {
	t.Helper()
	ch := open(t, e.url)
	var all []int
	for _, node := range nodes {
		for i := range n {
			q, err := ch.QueueDeclarePassive(fmt.Sprintf("sharding: images - %s - %d", node, i), false, false, false, false, nil)
			require.NoError(t, err)
			all = append(all, q.Messages)
		}
	}
	return all
}
