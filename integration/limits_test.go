package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

// TestTooManyConnections: beyond the limit clients are told so, whatever library they use; those that are in go on, and a place that becomes free
// is given away.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.start(rig.ProxyOptions{Upstream: e.url,
		Config: e.config(e.broker.Addr, e.policy(e.name("images"), 2, "")) + "proxy: {max-connections: 2}\nadmin: {address: \"127.0.0.1:0\"}\n"})
	first, second := dial(t, p.URL), open(t, p.URL)
	for client, said := range connectErrors(t, p.URL) {
		require.Contains(t, said, "no room for more connections", "what %s says", client)
	}
	for range 200 {
		_ = rawTCP(t, p.URL).conn.Close()
	}
	require.NoError(t, second.Qos(1, 0, false))
	logged(t, p, "too many connections: clients are turned away", `"limit":2`)
	_, text := fetch(t, p, "/metrics")
	require.Contains(t, text, "\nshardmq_connections_limit 2\n")
	require.NotContains(t, text, "\nshardmq_connections_turned_away_total 0\n")
	require.Contains(t, text, "\nshardmq_accept_errors_total 0\n")
	require.NoError(t, first.Close())
	eventually(t, "a free place", func() string {
		if _, text := fetch(t, p, "/metrics"); !strings.Contains(text, "\nshardmq_connections 1\n") {
			return fmt.Sprint(text)
		}
		return ""
	})
	open(t, p.URL)
}
