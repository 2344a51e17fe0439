package shards

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAdopt has one queue there under a shard's name, made by somebody else.
func TestAdopt(t *testing.T) {
	args := func(kv ...any) map[string]any {
		m := make(map[string]any)
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1]
		}
		return m
	}
	for name, tt := range map[string]struct {
		def        Definition
		has        map[string]any
		transient  bool
		autoDelete bool
		refused    string // the property that it is refused for
		adopted    bool   // with a line in the log
		unguarded  bool
	}{
		"as it would be made":           {has: args("x-queue-type", "classic")},
		"without a type":                {},
		"arguments no broker compares":  {has: args("x-mine", "1")},
		"priorities and dead-lettering": {has: args("x-max-priority", 5, "x-dead-letter-exchange", "dead"), adopted: true},
		"transient":                     {transient: true, adopted: true},
		"quorum":                        {has: args("x-queue-type", "quorum"), adopted: true},
		"stream":                        {has: args("x-queue-type", "stream"), refused: "x-queue-type (stream)"},
		"auto-delete":                   {autoDelete: true, refused: "auto_delete (true)"},
		"expires":                       {has: args("x-expires", 60000), refused: "x-expires (60000)"},
		"ttl behind others":             {has: args("x-dead-letter-exchange", "dead", "x-message-ttl", 5), refused: "x-message-ttl (5)"},
		"max-length":                    {has: args("x-max-length", 5), refused: "x-max-length (5)"},
		"max-length-bytes":              {has: args("x-max-length-bytes", 5), refused: "x-max-length-bytes (5)"},
		"max-length of the policy":      {def: Definition{QueueArguments: args("x-max-length", 5)}, has: args("x-max-length", 5)},
		"lower max-length than policy":  {def: Definition{QueueArguments: args("x-max-length", 5)}, has: args("x-max-length", 4), refused: "x-max-length (4)"},
		"higher max-length than policy": {def: Definition{QueueArguments: args("x-max-length", 5)}, has: args("x-max-length", 50), adopted: true},
		"no max-length, policy has one": {def: Definition{QueueArguments: args("x-max-length", 5)}, adopted: true},
		"drops where policy refuses":    {def: Definition{QueueArguments: args("x-overflow", "reject-publish")}, refused: "x-overflow (none)"},
		"refuses where policy drops":    {def: Definition{QueueArguments: args("x-overflow", "drop-head")}, has: args("x-overflow", "reject-publish"), adopted: true},
		"ordered, guarded":              {def: Definition{Ordered: true}, has: args("x-single-active-consumer", true)},
		"ordered, not guarded":          {def: Definition{Ordered: true}, adopted: true, unguarded: true},
		"single active, not ordered":    {has: args("x-single-active-consumer", true), adopted: true},
		"text that looks like a number": {has: args("x-dead-letter-exchange", "17"), adopted: true},
		"text in place of another":      {def: Definition{QueueArguments: args("x-dead-letter-exchange", "17")}, has: args("x-dead-letter-exchange", "18"), adopted: true},
		"all of it":                     {has: args("x-max-priority", 5, "x-queue-mode", "lazy", "x-dead-letter-routing-key", "k"), transient: true, adopted: true},
	} {
		t.Run(name, func(t *testing.T) {
			top, cluster, _, logs := topology(t, 1, policy(t, "^x$", tt.def))
			cluster.exchanges["x"] = ourX
			queue := QueueName("x", "a@h", 0)
			there := fakeQueue{node: "a@h", spec: QueueSpec{queue, !tt.transient, tt.has}, autoDelete: tt.autoDelete, Count: Count{Exists: true, Messages: 3}}
			cluster.queues[queue] = there
			x := exchangeOf(t, top, "x")
			for range 2 { // the second time everything is known
				state, err := top.Resolve(t.Context(), x, true)
				require.Equal(t, there, cluster.queues[queue], "it is never changed")
				if tt.refused == "" {
					require.NoError(t, err)
					require.True(t, state.IsLive(0))
					continue
				}
				var refused *BrokerError
				require.ErrorAs(t, err, &refused)
				require.Equal(t, uint16(406), refused.Code)
				require.Contains(t, refused.Text, "its "+tt.refused+" can lose messages that policy '^x$' keeps")
				require.Nil(t, x.State().Set)
			}
			require.Equal(t, tt.adopted, logs.count("queue adopted as a shard") == 1, "%v", logs.logs)
			require.Equal(t, tt.unguarded, logs.count("the broker does not guard the order") == 1)
			if tt.refused == "" {
				asked := cluster.count("declare queue")
				_, err := top.Resolve(t.Context(), x, true)
				require.NoError(t, err)
				require.Equal(t, asked, cluster.count("declare queue"), "what was looked at is not looked at again")
			}
		})
	}
}

// An operator who adds the argument to the policy, or deletes the queue, has the
// exchange set up.
func TestAdoptAfterAll(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		top, cluster, _, _ := topology(t, 1, policy(t, "^x$", Definition{}))
		cluster.exchanges["x"] = ourX
		queue := QueueName("x", "a@h", 0)
		cluster.queues[queue] = fakeQueue{spec: QueueSpec{queue, true, map[string]any{"x-max-length": 5}}, Count: Count{Exists: true}}
		x := exchangeOf(t, top, "x")
		_, err := top.Resolve(t.Context(), x, true)
		require.Error(t, err)
		if deleted {
			cluster.deleteQueue(queue)
		} else {
			x.policy.Store(policy(t, "^x$", Definition{QueueArguments: map[string]any{"x-max-length": 5}}))
		}
		state, err := top.Resolve(t.Context(), x, true)
		require.NoError(t, err)
		require.Equal(t, 1, state.LiveLen())
	}
}

func TestShardsAreDeclaredAsThePolicySays(t *testing.T) {
	for name, tt := range map[string]struct {
		def  Definition
		want map[string]any
	}{
		"default": {Definition{}, map[string]any{"x-queue-type": "classic"}},
		"ordered": {Definition{Ordered: true}, map[string]any{"x-queue-type": "classic", "x-single-active-consumer": true}},
		"arguments": {
			Definition{Shards: 1, QueueArguments: map[string]any{"x-queue-type": "quorum", "x-delivery-limit": 3}},
			map[string]any{"x-queue-type": "quorum", "x-delivery-limit": int64(3)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			top, cluster, _, _ := topology(t, 1, policy(t, "^x$", tt.def))
			cluster.exchanges["x"] = ourX
			state, err := top.Resolve(t.Context(), exchangeOf(t, top, "x"), true)
			require.NoError(t, err)
			queue := state.Set.At(0).Queue
			require.Equal(t, QueueSpec{queue, true, tt.want}, cluster.queues[queue].spec)
		})
	}
}

func TestDifferenceIn(t *testing.T) {
	const before = "PRECONDITION_FAILED - inequivalent arg "
	for text, want := range map[string]difference{
		before + "'x-expires' for queue 'q1' in vhost '/': received none but current is the value '600000' of type 'signedint'":        {arg: "x-expires", current: int64(600000), text: "600000"},
		before + "'x-expires' for queue 'but current is none' in vhost '/': received none but current is the value '6' of type 'long'": {arg: "x-expires", current: int64(6), text: "6"},
		before + "'x-max-length' for queue 'q14' in vhost '/': received '7' but current is '5'":                                        {arg: "x-max-length", current: int64(5), text: "5"},
		before + "'x-dead-letter-exchange' for queue 'q' in vhost '/': received none but current is the value '12' of type 'longstr'":  {arg: "x-dead-letter-exchange", current: "12", text: "12"},
		before + "'x-single-active-consumer' for queue 'q' in vhost '/': received none but current is the value 'true' of type 'bool'": {arg: "x-single-active-consumer", current: true, text: "true"},
		before + "'x-single-active-consumer' for queue 'q' in vhost '/': received the value 'true' of type 'bool' but current is none": {arg: "x-single-active-consumer", text: "none"},
		before + "'x-queue-type' for queue 'q7' in vhost '/': received 'classic' but current is 'quorum'":                              {arg: "x-queue-type", current: "quorum", text: "quorum"},
		before + "'durable' for queue 'q12' in vhost '/': received 'true' but current is 'false'":                                      {arg: "durable", current: false, text: "false"},
	} {
		d, ok := differenceIn(text)
		require.True(t, ok, text)
		require.Equal(t, want, d, text)
	}
	for _, text := range []string{"", "PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue 'q' in vhost '/' of queue type rabbit_quorum_queue", before + "'x' for queue 'q'"} {
		_, ok := differenceIn(text)
		require.False(t, ok, text)
	}
}
