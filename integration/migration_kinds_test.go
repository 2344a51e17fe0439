package integration

import (
	"fmt"
	"strings"
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
		require.Len(t, e.boundShards(), 4)
	}, "", "4.0") // 4.3 with the plugin answers such a declare with 541
}

// boundShards lists the queues bound to "images".
func (e *env) boundShards() []string {
	e.t.Helper()
	var bound []string
	for line := range strings.Lines(e.ctl("list_bindings", "--silent", "source_name", "destination_name")) {
		if source, queue, _ := strings.Cut(strings.TrimSpace(line), "\t"); source == "images" {
			bound = append(bound, queue)
		}
	}
	return bound
}

// TestMigrationSurplus: the plugin never takes shards away: after its policy has shrunk they are still bound and filled,
// and its consumers may not find them. The proxy adopts all, and a smaller number later empties and unbinds the rest.
func TestMigrationSurplus(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		e := newPluginEnv(t, version, 4)
		e.pluginShards(2)
		require.Len(t, e.boundShards(), 4, "what the plugin leaves")
		s := newStream(t)
		s.send(e.url, 3)
		config := func(n int) string { return e.config(e.broker.Addr, e.policy("images", n, ", hash: phash2")) }
		p := e.start(rig.ProxyOptions{Upstream: e.url, Config: config(4)})
		one := consume(t, p.URL, "images", 10)
		s.requireAll(one)

		stop := s.keepSending(p.URL)
		receivesMore(t, one)
		require.NoError(t, p.Configure(config(2)))
		eventually(t, "two shards unbound", func() string {
			if bound := e.boundShards(); len(bound) != 2 {
				return fmt.Sprintf("bound are %v", bound)
			}
			return ""
		})
		receivesMore(t, one)
		_, refused := stop()
		require.Zero(t, refused)
		s.requireAll(one)
		s.send(p.URL, 3)
		s.requireAll(one)
	}, "", "4.3")
}
