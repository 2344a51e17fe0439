package shards

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// quorumLed returns a topology with a resolved exchange x of two quorum shards.
func quorumLed(t *testing.T) (*Topology, *fakeCluster, Shard, *recorder) {
	t.Helper()
	top, cluster, _, logs := topology(t, 1, policy(t, "^x$", Definition{Shards: 2, QueueArguments: map[string]any{queueTypeArg: quorumType}}))
	cluster.exchanges["x"] = ourX
	state, err := top.Resolve(t.Context(), exchangeOf(t, top, "x"), true)
	require.NoError(t, err)
	return top, cluster, state.Set.At(1), logs
}

// requireStays checks that a shard stays as it is, without any attempt to delete it: RabbitMQ would close the connection.
func requireStays(t *testing.T, top *Topology, cluster *fakeCluster, shard Shard) {
	t.Helper()
	before := cluster.count("delete queue")
	idle, err := top.Idle(t.Context(), "x", shard)
	require.NoError(t, err)
	require.False(t, idle, "it would be taken from its consumers for nothing")
	removed, err := top.Remove(t.Context(), "x", shard)
	require.NoError(t, err)
	require.False(t, removed)
	require.Contains(t, cluster.queues, shard.Queue)
	require.Equal(t, before, cluster.count("delete queue"))
}

// A surplus quorum shard stays, which is said once, until somebody asks for its end; and only while he asks.
func TestQuorumShardStaysUntilAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, cluster, shard, logs := quorumLed(t)
		for range 3 {
			requireStays(t, top, cluster, shard)
		}
		require.Equal(t, 1, logs.count("surplus shard stays"))

		top.Prune("y", []string{shard.Queue}) // not one of y's
		top.Prune("x", []string{QueueNameFixed("x", 7)})
		requireStays(t, top, cluster, shard)
		top.Prune("x", []string{shard.Queue})
		advance(pruneFor + time.Millisecond)
		requireStays(t, top, cluster, shard)

		top.Prune("x", []string{shard.Queue})
		for _, in := range []Count{{Exists: true, Messages: 1}, {Exists: true, Consumers: 1}} {
			cluster.do(func() {
				q := cluster.queues[shard.Queue]
				q.Count = in
				cluster.queues[shard.Queue] = q
			})
			idle, err := top.Idle(t.Context(), "x", shard)
			require.NoError(t, err)
			require.Equal(t, in.Messages == 0, idle)
			removed, err := top.Remove(t.Context(), "x", shard)
			require.NoError(t, err)
			require.False(t, removed, "%+v", in)
		}
		cluster.do(func() {
			q := cluster.queues[shard.Queue]
			q.Count = Count{Exists: true}
			cluster.queues[shard.Queue] = q
		})
		idle, err := top.Idle(t.Context(), "x", shard)
		require.NoError(t, err)
		require.True(t, idle)
		removed, err := top.Remove(t.Context(), "x", shard)
		require.NoError(t, err)
		require.True(t, removed)
		require.NotContains(t, cluster.queues, shard.Queue)
		require.Equal(t, 1, cluster.count("delete queue"), "never on a condition")
		require.Equal(t, 1, logs.count("surplus shard removed"))

		idle, err = top.Idle(t.Context(), "x", shard)
		require.NoError(t, err)
		require.True(t, idle, "one that somebody else has removed is forgotten")
		removed, err = top.Remove(t.Context(), "x", shard)
		require.NoError(t, err)
		require.True(t, removed)
	})
}

// A shard that is wanted again, and surplus once more, is told of once more.
func TestQuorumShardIsToldOfAgain(t *testing.T) {
	top, cluster, shard, logs := quorumLed(t)
	requireStays(t, top, cluster, shard)
	require.NoError(t, top.Prepare(t.Context(), "x", []Shard{shard}))
	requireStays(t, top, cluster, shard)
	require.Equal(t, 2, logs.count("surplus shard stays"))
}

// Of a shard on a node it cannot be told what it is: a virtual host may make quorum queues of what is declared without a
// type. It is found out before anybody loses it.
func TestQuorumShardUnderAPlainName(t *testing.T) {
	for name, of := range map[string]Definition{
		"plain":   {},
		"ordered": {Ordered: true, QueueArguments: map[string]any{"x-message-ttl": 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			top, cluster, _, _, logs := led(t, ourX, of)
			shard := shardOf("b@h", 1)
			cluster.do(func() {
				q := cluster.queues[shard.Queue]
				q.spec.Arguments = map[string]any{queueTypeArg: quorumType, "x-message-ttl": int64(5000)}
				if name == "plain" {
					delete(q.spec.Arguments, "x-message-ttl")
				}
				cluster.queues[shard.Queue] = q
			})
			requireStays(t, top, cluster, shard)
			requireStays(t, top, cluster, shard)
			require.Equal(t, 1, logs.count("surplus shard stays"))
			asked := cluster.count("declare queue")
			idle, err := top.Idle(t.Context(), "x", shardOf("b@h", 0))
			require.NoError(t, err)
			require.True(t, idle, "a classic one goes")
			require.Equal(t, asked+1, cluster.count("declare queue"))
			_, err = top.Idle(t.Context(), "x", shardOf("b@h", 0))
			require.NoError(t, err)
			require.Equal(t, asked+1, cluster.count("declare queue"), "it is asked once")
		})
	}
}

// Where the broker does not say what a queue is, the refusal to delete it tells, once.
func TestQuorumShardFoundOutByItsRefusal(t *testing.T) {
	top, cluster, _, _, logs := led(t, ourX, Definition{})
	shard := shardOf("b@h", 1)
	cluster.do(func() {
		q := cluster.queues[shard.Queue]
		q.spec.Arguments = map[string]any{queueTypeArg: quorumType, "x-expires": int64(9)} // told first, and not looked behind
		cluster.queues[shard.Queue] = q
	})
	idle, err := top.Idle(t.Context(), "x", shard)
	require.NoError(t, err)
	require.True(t, idle)
	removed, err := top.Remove(t.Context(), "x", shard)
	require.NoError(t, err)
	require.False(t, removed)
	require.Equal(t, 1, logs.count("surplus shard stays"))
	requireStays(t, top, cluster, shard)
	require.Equal(t, 1, logs.count("surplus shard stays"))
}

// A node that does not answer tells nothing.
func TestQuorumShardOnANodeThatIsDown(t *testing.T) {
	top, cluster, _, _, _ := led(t, ourX, Definition{})
	shard := shardOf("b@h", 1)
	cluster.do(func() {
		cluster.refuse = func(op, _ string) error {
			if op == "declare queue" {
				return ErrUnreachable
			}
			return nil
		}
	})
	idle, err := top.Idle(t.Context(), "x", shard)
	require.ErrorIs(t, err, ErrUnreachable)
	require.False(t, idle)
	removed, err := top.Remove(t.Context(), "x", shard)
	require.ErrorIs(t, err, ErrUnreachable)
	require.False(t, removed)
	require.Contains(t, cluster.queues, shard.Queue)
	_, known := top.leftovers.known(shard.Queue)
	require.False(t, known)
}

// Requests for what nobody ever asks about again are forgotten.
func TestPruneRequestsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l leftovers
		for range 3 {
			l.ask([]string{"a", "b"}, time.Now().Add(pruneFor))
			advance(2 * pruneFor)
		}
		l.ask([]string{"c"}, time.Now().Add(pruneFor))
		require.Len(t, l.asked, 1)
	})
}
