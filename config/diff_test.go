package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const before = `
listeners: [{address: ":5672"}]
upstream:
  nodes: [{name: rabbit@a, address: "a:5672"}, {name: rabbit@b, address: "b:5672", zone: east}]
policies:
  - {name: same, pattern: "^same$", definition: {shards-per-node: 2}}
  - {name: gone, pattern: "^gone$", definition: {shards-per-node: 2}}
  - {name: grown, vhost: v, pattern: "^grown$", definition: {shards-per-node: 2}}
  - {name: changed, vhost: v, pattern: "^changed$", definition: {shards-per-node: 2}}
`

const after = `
listeners: [{address: ":5672"}]
upstream:
  nodes: [{name: rabbit@a, address: "a2:5672", zone: west}, {name: rabbit@c, address: "c:5672"}]
policies:
  - {name: same, pattern: "^same$", definition: {shards-per-node: 2}}
  - {name: grown, vhost: v, pattern: "^grown$", definition: {shards-per-node: 4}}
  - name: changed
    vhost: v
    pattern: "^change.$"
    priority: 3
    definition:
      shards-per-node: 2
      queue-arguments: {x-max-length: 5, x-queue-mode: lazy}
      routing-key: "1"
      hash: phash2
      hash-on: {header: tenant}
      consumers: one
      on-node-down: keep
      exchange-type: x-modulus-hash
      fed-by: [feed]
  - {name: gone, vhost: w, pattern: "^gone$", definition: {shards-per-node: 2}}
`

func parse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("f.yaml", []byte(text), environment)
	require.NoError(t, err)
	return c
}

func TestDiff(t *testing.T) {
	require.Equal(t, Changes{
		Policies: []Change{
			{Kind: Removed, Vhost: "/", Name: "gone"},
			{Kind: Changed, Vhost: "v", Name: "changed", Keys: []string{
				"pattern: ^changed$ -> ^change.$",
				"priority: 0 -> 3",
				`definition.queue-arguments: none -> x-max-length=5 x-queue-mode="lazy"`,
				`definition.routing-key: "" -> "1"`,
				"definition.hash: xxhash -> phash2",
				`definition.hash-on: the routing key -> header "tenant"`,
				"definition.consumers: balanced -> one",
				"definition.on-node-down: reroute -> keep",
				"definition.exchange-type: the exchange's own -> x-modulus-hash",
				`definition.fed-by: [] -> ["feed"]`,
			}},
			{Kind: Changed, Vhost: "v", Name: "grown", Keys: []string{"definition.shards-per-node: 2 -> 4"}},
			{Kind: Added, Vhost: "w", Name: "gone"},
		},
		Nodes: []Change{
			{Kind: Changed, Name: "rabbit@a", Keys: []string{"address: a:5672 -> a2:5672", "zone: none -> west"}},
			{Kind: Removed, Name: "rabbit@b"},
			{Kind: Added, Name: "rabbit@c"},
		},
	}, Diff(parse(t, before), parse(t, after)))
	require.True(t, Diff(parse(t, after), parse(t, after)).Empty())
}

func TestNeedRestart(t *testing.T) {
	require.Empty(t, NeedRestart(parse(t, before), parse(t, after)))
	for key, change := range map[string]func(*Config){
		"listeners":             func(c *Config) { c.Listeners[0].Address = ":1" },
		"upstream.discovery":    func(c *Config) { c.Upstream.Discovery = &Discovery{} },
		"upstream.zone":         func(c *Config) { c.Upstream.Zone = "east" },
		"upstream.prefer":       func(c *Config) { c.Upstream.Prefer = ListOrder },
		"upstream.control":      func(c *Config) { c.Upstream.Control.Password = "other" },
		"upstream.dial-timeout": func(c *Config) { c.Upstream.DialTimeout = time.Second },
		"proxy":                 func(c *Config) { c.Proxy.DrainTimeout = time.Second },
		"admin":                 func(c *Config) { c.Admin.Address = ":1" },
		"log":                   func(c *Config) { c.Log.Level = "debug" },
	} {
		changed := parse(t, before)
		change(changed)
		require.Equal(t, []string{key}, NeedRestart(parse(t, before), changed))
	}
}
