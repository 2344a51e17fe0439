package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config"
	"github.com/shardmq/shardmq/shards/discovery"
)

func TestDiscoveryOptions(t *testing.T) {
	r := shardmq(nil, "proxy", "--config", write(t, `upstream:
  nodes: [{name: rabbit@a, address: "a:1", zone: east}]
  discovery: {srv: {name: _amqp._tcp.example, node-name: "r@{fqdn}"}, interval: 3s}
  zone: east
  prefer: zone
`))
	require.Zero(t, r.code, r.stderr)
	require.Equal(t, discovery.SRV{Name: "_amqp._tcp.example", NodeName: "r@{fqdn}"}, r.options.Discovery)
	require.Equal(t, "3s", r.options.DiscoveryInterval.String())
	require.Equal(t, "east", r.options.Zone)
	require.EqualValues(t, config.PreferZone, r.options.Prefer)
	require.Equal(t, "east", r.options.Nodes[0].Zone)

	for text, want := range map[string]discovery.Management{
		"{url: \"http://a:15672\"}": {URL: "http://a:15672", Username: "u", Password: "p"},
		"{url: \"http://a:15672\", username: m, password: q, host: \"{host}.x\", port: 5}": {
			URL: "http://a:15672", Username: "m", Password: "q", Host: "{host}.x", Port: 5},
	} {
		r = shardmq(nil, "proxy", "--config", write(t, "upstream: {control: {username: u, password: p}, discovery: {management: "+text+"}}\n"))
		require.Zero(t, r.code, r.stderr)
		require.Equal(t, want, r.options.Discovery)
		require.Empty(t, r.options.Nodes)
	}
	r = shardmq(nil, "config", "check", write(t, "upstream: {discovery: {srv: {name: x.example}}}\n"))
	require.Contains(t, r.stdout, "0 nodes and those that discovery finds, 0 policies")
}

func TestUpstreamNodes(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`[{"name":"rabbit@a","running":true},{"name":"rabbit@b","running":true}]`))
	}))
	defer s.Close()
	cfg := config.Default()
	cfg.Upstream.Nodes = []config.Node{{Name: "rabbit@a", Address: "elsewhere:1"}}
	cfg.Upstream.Discovery = &config.Discovery{Management: &config.Management{URL: s.URL, Port: 5672}}
	nodes, err := upstreamNodes(t.Context(), cfg, nil)
	require.NoError(t, err)
	require.Equal(t, []config.Node{{Name: "rabbit@a", Address: "elsewhere:1"}, {Name: "rabbit@b", Address: "b:5672"}}, nodes)
	http.DefaultClient.CloseIdleConnections()

	s.Close()
	_, err = upstreamNodes(t.Context(), cfg, nil)
	require.ErrorContains(t, err, "look for nodes: ")
	cfg.Upstream.Discovery = nil
	nodes, err = upstreamNodes(t.Context(), cfg, nil)
	require.NoError(t, err)
	require.Len(t, nodes, 1)
}
