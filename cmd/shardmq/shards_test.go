package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A vhost that cannot be looked at does not keep the others from it; a mistake of whoever asks ends it.
func TestShardsLooksAtEveryVhost(t *testing.T) {
	file := write(t, `upstream:
  nodes: [{name: rabbit@a, address: "127.0.0.1:1"}]
policies:
  - {name: a, vhost: a, pattern: "^x$", definition: {shards: 1}}
  - {name: b, vhost: b, pattern: "^x$", definition: {shards: 1}}
`)
	for _, command := range []string{"list", "prune"} {
		r := shardmq(nil, "shards", command, "--config", file)
		require.Equal(t, 1, r.code)
		require.Empty(t, r.stdout)
		for _, vhost := range []string{"a", "b"} {
			require.Contains(t, r.stderr, "shardmq: vhost "+vhost+": no RabbitMQ node has answered")
		}
	}
	r := shardmq(nil, "shards", "list", "--config", file, "x")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.stderr, "say which one with --vhost")
}
