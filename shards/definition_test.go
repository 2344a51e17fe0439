package shards

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDefinitionProblems(t *testing.T) {
	args := func(kv ...any) map[string]any {
		m := make(map[string]any)
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1]
		}
		return m
	}
	for _, tt := range []struct {
		def         Definition
		field, text string // "" = fine
	}{
		{Definition{ShardsPerNode: 1}, "", ""},
		{Definition{Shards: MaxShards}, "", ""},
		{Definition{}, "shards-per-node", "is 0; it must be 1 to 1000, unless shards says how many there are in all"},
		{Definition{Shards: 2, ShardsPerNode: 2}, "shards", "give one of them"},
		{Definition{Shards: -1}, "shards", "is -1"},
		{Definition{Shards: MaxShards + 1}, "shards", "is 1001"},
		{Definition{Shards: 2, QueueArguments: args("x-queue-type", "quorum", "x-delivery-limit", 5)}, "", ""},
		{Definition{ShardsPerNode: 2, QueueArguments: args("x-queue-type", "classic")}, "", ""},
		{Definition{ShardsPerNode: 2, QueueArguments: args("x-queue-type", "quorum")}, "queue-arguments", "say shards, a total for all of them, instead of shards-per-node"},
		{Definition{Shards: 2, QueueArguments: args("x-queue-type", "stream")}, "queue-arguments", "shards are classic or quorum queues"},
		{Definition{Shards: 2, QueueArguments: args("x-queue-type", "quorum", "x-max-priority", 5)}, "queue-arguments", "x-max-priority is not possible"},
		{Definition{Shards: 2, QueueArguments: args("x-max-length", "5")}, "queue-arguments", "x-max-length is a text; RabbitMQ takes a whole number"},
		{Definition{Shards: 2, QueueArguments: args("x-max-length", 5.5)}, "queue-arguments", "x-max-length is a fraction"},
		{Definition{Shards: 2, QueueArguments: args("x-message-ttl", -1)}, "queue-arguments", "x-message-ttl is -1, which is too low"},
		{Definition{Shards: 2, QueueArguments: args("x-expires", 60000)}, "queue-arguments", "x-expires would delete a shard"},
		{Definition{Shards: 2, QueueArguments: args("x-max-length", -1)}, "queue-arguments", "x-max-length is -1, which is too low"},
		{Definition{Shards: 2, QueueArguments: args("x-max-priority", 256)}, "queue-arguments", "at most 255"},
		{Definition{Shards: 2, QueueArguments: args("x-message-ttl", 0, "x-max-priority", 5, "x-overflow", "reject-publish")}, "", ""},
		{Definition{Shards: 2, QueueArguments: args("x-anything", true, "other", 1.5)}, "", ""},
		{Definition{Shards: 2, QueueArguments: args("x-anything", []any{})}, "queue-arguments", "x-anything is neither a text nor a number nor a truth value"},
		{Definition{Shards: 2, QueueArguments: args("", 1)}, "queue-arguments", "a name of 0 bytes"},
		{Definition{Shards: 2, QueueArguments: args(strings.Repeat("n", 256), 1)}, "queue-arguments", "a name of 256 bytes"},
		{Definition{Shards: 2, QueueArguments: args("x-single-active-consumer", true)}, "queue-arguments", "say max-consumers-per-shard: 1"},
		{Definition{Shards: 2, Ordered: true, QueueArguments: args("x-single-active-consumer", true)}, "", ""},
		{Definition{Shards: 2, Ordered: true, Consumers: One}, "max-consumers-per-shard", "takes consumers: balanced"},
		{Definition{Shards: 2, OnNodeDown: Keep + 1}, "on-node-down", "is unknown"},
		{Definition{Shards: 2, HashOn: HashOn{Source: OnCorrelationID + 1}}, "hash-on", "is unknown"},
		{Definition{Shards: 2, HashOn: HashOn{Source: OnHeader}}, "hash-on", "names no header"},
		{Definition{Shards: 2, HashOn: HashOn{Source: OnHeader, Header: strings.Repeat("h", 256)}}, "hash-on", "longer than"},
		{Definition{Shards: 2, HashOn: HashOn{Source: OnHeader, Header: "h"}}, "", ""},
		{Definition{Shards: 2, HashOn: HashOn{Source: OnCapture}}, "hash-on", "has no expression"},
		{Definition{Shards: 2, HashOn: HashOn{Source: OnCapture, Re: regexpOf("a")}}, "hash-on", "exactly one group"},
		{Definition{Shards: 2, HashOn: HashOn{Source: OnCapture, Re: regexpOf("(a)(b)")}}, "hash-on", "exactly one group"},
	} {
		_, err := NewPolicy("p", "/", "^x$", 0, tt.def)
		if tt.field == "" {
			require.NoError(t, err)
			continue
		}
		var problem *PolicyError
		require.ErrorAs(t, err, &problem)
		require.Equal(t, "definition."+tt.field, problem.Field)
		require.Contains(t, problem.Text, tt.text)
	}
}

func TestQueueArgumentsAreThePolicysOwn(t *testing.T) {
	given := map[string]any{"x-max-length": 5, "x-message-ttl": uint64(7), "n": int32(3)}
	p := policy(t, "^x$", Definition{QueueArguments: given})
	given["x-max-length"] = 6
	require.Equal(t, map[string]any{"x-max-length": int64(5), "x-message-ttl": int64(7), "n": int64(3)}, p.Definition.QueueArguments)
}
