package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

// TestMigrationOtherType: the plugin also shards exchanges of other types, most of all x-consistent-hash. They stay what
// they are, and the plugin can be taken away under load: first it, then its policy, which it would else unbind.
func TestMigrationOtherType(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		e := newNodeEnv(t, rig.NodeOptions{
			Version: version, Plugins: []string{"rabbitmq_sharding", "rabbitmq_consistent_hash_exchange"},
		})
		e.ctl("set_policy", "--apply-to", "exchanges", "images", "^images$", `{"shards-per-node": 4, "routing-key": "10"}`)
		require.NoError(t, open(t, e.url).ExchangeDeclare("images", "x-consistent-hash", true, false, false, false, nil))
		s := newStream(t)
		s.send(e.url, 3)
		p := e.proxyWith(e.policy("images", 4, `, routing-key: "10"`))
		one := consume(t, p.URL, "images", 10)
		stop := s.keepSending(p.URL)
		receivesMore(t, one)
		e.plugins("disable", "rabbitmq_sharding")
		e.ctl("clear_policy", "images")
		receivesMore(t, one)

		sent, refused := stop()
		require.Positive(t, sent)
		require.Zero(t, refused)
		s.requireAll(one)
		requireOrder(t, one.received())
		e.waitBound(4)
	}, "", "4.0") // 4.3 with the plugin answers such a declare with 541
}

// TestMigrationSurplus: the plugin never takes shards away: after its policy has shrunk they are still bound and filled,
// and its consumers may not find them. The proxy adopts all of them, and takes those beyond its number out of use: at once
// when it starts with the smaller number, else when it is told later.
func TestMigrationSurplus(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]int{"at once": 2, "later": 4} {
		t.Run(name, func(t *testing.T) {
			onVersions(t, func(t *testing.T, version string) { requireShrinks(t, version, first) }, "", "4.3")
		})
	}
}

// requireShrinks leaves two of four shards behind by the plugin, starts a proxy with the first number, and tells it 2.
func requireShrinks(t *testing.T, version string, first int) {
	e := newPluginEnv(t, version, 4)
	e.pluginShards(2)
	e.waitBound(4) // what the plugin leaves
	s := newStream(t)
	s.send(e.url, 3)
	config := func(n int) string { return e.config(e.broker.Addr, e.policy("images", n, ", hash: phash2")) }
	p := e.start(rig.ProxyOptions{Upstream: e.url, Config: config(first)})
	one := consume(t, p.URL, "images", 10)
	s.requireAll(one)

	stop := s.keepSending(p.URL)
	receivesMore(t, one)
	require.NoError(t, p.Configure(config(2)))
	e.waitBound(2)
	receivesMore(t, one)
	_, refused := stop()
	require.Zero(t, refused)
	s.requireAll(one)
	s.send(p.URL, 3)
	s.requireAll(one)
}
