package shards

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPrepareDeclare(t *testing.T) {
	typed := Definition{ExchangeType: ModulusHash}
	for _, tt := range []struct {
		name      string
		pattern   string
		def       Definition
		version   string
		exists    *ExchangeSpec
		marker    bool
		declare   ExchangeSpec
		want      DeclarePlan
		wantText  string        // 406
		wantThere *ExchangeSpec // the exchange afterwards
	}{
		{
			name: "other type", declare: ExchangeSpec{Type: "topic"}, want: DeclarePlan{Type: "topic"},
		}, {
			name: "new, literal", declare: ExchangeSpec{Type: ModulusHash, Durable: true, Internal: true},
			want:      DeclarePlan{Type: "direct", AddAlternate: "x.unsharded"},
			wantThere: &ExchangeSpec{Name: "x", Type: "direct", Durable: true, Internal: true, AlternateExchange: "x.unsharded"},
		}, {
			name: "new, literal, own alternate", declare: ExchangeSpec{Type: ModulusHash, AlternateExchange: "own"},
			want:      DeclarePlan{Type: "direct"},
			wantThere: &ExchangeSpec{Name: "x", Type: "direct", AlternateExchange: "own"},
		}, {
			name: "new, pattern", pattern: "x", declare: ExchangeSpec{Type: ModulusHash},
			want: DeclarePlan{Type: "direct", AddAlternate: "x.unsharded"},
		}, {
			name: "new, pattern, own alternate", pattern: "x", declare: ExchangeSpec{Type: ModulusHash, AlternateExchange: "own"},
			want: DeclarePlan{Type: "direct"},
		}, {
			name: "new, any type by policy", def: typed, pattern: "x", declare: ExchangeSpec{Type: "topic"},
			want: DeclarePlan{Type: "direct", AddAlternate: "x.unsharded"},
		}, {
			name: "new, native", version: "4.3.6", declare: ExchangeSpec{Type: ModulusHash}, want: DeclarePlan{Type: ModulusHash},
			wantThere: &ExchangeSpec{Name: "x", Type: ModulusHash},
		}, {
			name: "new, native, pattern", pattern: "x", version: "4.3.6", declare: ExchangeSpec{Type: ModulusHash}, want: DeclarePlan{Type: ModulusHash},
		}, {
			name: "new, hashed on what the native type cannot", version: "4.3.6", def: Definition{HashOn: HashOn{Source: OnMessageID}},
			declare: ExchangeSpec{Type: ModulusHash}, want: DeclarePlan{Type: "direct", AddAlternate: "x.unsharded"},
			wantThere: &ExchangeSpec{Name: "x", Type: "direct", AlternateExchange: "x.unsharded"},
		}, {
			name: "new, fed by another one, which the native type does not see", version: "4.3.6", def: Definition{FedBy: []string{"y"}},
			declare: ExchangeSpec{Type: ModulusHash}, want: DeclarePlan{Type: "direct", AddAlternate: "x.unsharded"},
			wantThere: &ExchangeSpec{Name: "x", Type: "direct", AlternateExchange: "x.unsharded"},
		}, {
			name: "native", exists: &ExchangeSpec{Type: ModulusHash}, declare: ExchangeSpec{Type: ModulusHash},
			want: DeclarePlan{Type: ModulusHash},
		}, {
			name: "ours", exists: &ExchangeSpec{Type: "direct", AlternateExchange: "x.unsharded"}, marker: true,
			declare: ExchangeSpec{Type: ModulusHash}, want: DeclarePlan{Type: "direct", AddAlternate: "x.unsharded"},
		}, {
			name: "ours, on a native broker", version: "4.3.6", exists: &ExchangeSpec{Type: "direct", AlternateExchange: "x.unsharded"},
			declare: ExchangeSpec{Type: ModulusHash}, want: DeclarePlan{Type: "direct", AddAlternate: "x.unsharded"},
		}, {
			name: "ours, own alternate", exists: &ExchangeSpec{Type: "direct", AlternateExchange: "own"}, marker: true,
			declare: ExchangeSpec{Type: ModulusHash, AlternateExchange: "own"}, want: DeclarePlan{Type: "direct"},
		}, {
			name: "ours by policy, without alternate", def: typed, exists: &ExchangeSpec{Type: "direct"},
			declare: ExchangeSpec{Type: "direct"}, want: DeclarePlan{Type: "direct"},
		}, {
			name: "direct, not ours", exists: &ExchangeSpec{Type: "direct"}, declare: ExchangeSpec{Type: ModulusHash},
			wantText: "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'x' in vhost '/': received ''x-modulus-hash'' but current is 'direct'",
		}, {
			name: "another type", exists: &ExchangeSpec{Type: "x-random", Durable: true}, declare: ExchangeSpec{Type: ModulusHash},
			wantText: "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'x' in vhost '/': received ''x-modulus-hash'' but current is ''x-random''",
		}, {
			name: "another type by policy", def: typed, exists: &ExchangeSpec{Type: "topic"}, declare: ExchangeSpec{Type: "fanout"},
			wantText: "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'x' in vhost '/': received 'fanout' but current is 'topic'",
		}, {
			name: "the same other type by policy", def: typed, exists: &ExchangeSpec{Type: "topic"},
			declare: ExchangeSpec{Type: "topic"}, want: DeclarePlan{Type: "topic"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pattern := tt.pattern
			if pattern == "" {
				pattern = "^x$"
			}
			top, cluster, _, _ := topology(t, 1, policy(t, pattern, tt.def))
			if tt.version != "" {
				cluster.version = tt.version
			}
			if tt.exists != nil {
				tt.exists.Name = "x"
				cluster.exchanges["x"] = *tt.exists
				tt.wantThere = tt.exists
			}
			if tt.marker {
				cluster.exchanges["x.unsharded"] = ExchangeSpec{Name: "x.unsharded", Type: "fanout", Durable: true}
			}
			tt.declare.Name = "x"
			x := exchangeOf(t, top, "x")
			plan, err := top.PrepareDeclare(t.Context(), x, tt.declare)
			if tt.wantText != "" {
				var refused *BrokerError
				require.ErrorAs(t, err, &refused)
				require.Equal(t, uint16(406), refused.Code)
				require.Equal(t, tt.wantText, refused.Text)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, plan)
			there, exists := cluster.exchanges["x"]
			require.Equal(t, tt.wantThere != nil, exists)
			if exists {
				require.Equal(t, *tt.wantThere, there)
			}
			requireDeclares(t, top, cluster, x, tt.declare, plan)
		})
	}
}

// requireDeclares forwards a declare as planned, and wants the broker to agree and
// Resolve to find what was planned.
func requireDeclares(t *testing.T, top *Topology, cluster *fakeCluster, x *Exchange, spec ExchangeSpec, plan DeclarePlan) {
	t.Helper()
	asked := spec.Type
	spec.Type = plan.Type
	if plan.AddAlternate != "" {
		spec.AlternateExchange = plan.AddAlternate
	}
	require.NoError(t, cluster.node("a@h").DeclareExchange(t.Context(), spec))
	state, err := top.Resolve(t.Context(), x, true)
	require.NoError(t, err)
	want := Plain
	switch {
	case plan.Type == ModulusHash:
		want = Native
	case plan.Type == "direct" && (asked == ModulusHash || x.Policy().Definition.ExchangeType == ModulusHash):
		want = Sharded
	}
	require.Equal(t, want, state.Mode)
}

func TestForget(t *testing.T) {
	for _, pattern := range []string{"^x$", "x"} {
		top, cluster, _, _ := topology(t, 1, policy(t, pattern, Definition{}))
		x := exchangeOf(t, top, "x")
		spec := ExchangeSpec{Name: "x", Type: "direct", AlternateExchange: "x.unsharded"}
		cluster.exchanges["x"] = spec
		_, err := top.Resolve(t.Context(), x, false)
		require.NoError(t, err)
		require.Contains(t, cluster.exchanges, "x.unsharded")

		top.Forget(t.Context(), x)
		require.Equal(t, Unknown, x.State().Mode)
		require.Contains(t, cluster.exchanges, "x.unsharded", "somebody has declared it again meanwhile")

		delete(cluster.exchanges, "x")
		top.Forget(t.Context(), x)
		require.NotContains(t, cluster.exchanges, "x.unsharded")
		require.Len(t, cluster.queues, 1, "shards stay")
		require.Same(t, x, exchangeOf(t, top, "x"))
		state, err := top.Resolve(t.Context(), x, false)
		require.NoError(t, err)
		require.Equal(t, Missing, state.Mode, "nothing is remembered of it")
	}
}

func TestForgetLeavesOthersAlternates(t *testing.T) {
	top, cluster, _, _ := topology(t, 1, policy(t, "^x$", Definition{}))
	x := exchangeOf(t, top, "x")
	cluster.exchanges["x"] = ExchangeSpec{Name: "x", Type: "topic"}
	cluster.exchanges["x.unsharded"] = ExchangeSpec{Name: "x.unsharded", Type: "fanout"}
	_, err := top.Resolve(t.Context(), x, false)
	require.NoError(t, err)
	delete(cluster.exchanges, "x")
	top.Forget(t.Context(), x)
	require.Contains(t, cluster.exchanges, "x.unsharded")
}

func TestInequivalent(t *testing.T) {
	for text, want := range map[string][2]string{
		"PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'a' in vhost '/': received 'direct' but current is 'topic'":                                   {"type", "topic"},
		"PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'a' in vhost '/': received 'direct' but current is ''x-modulus-hash''":                        {"type", "x-modulus-hash"},
		"PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'but current is b' in vhost '/': received 'direct' but current is 'fanout'":                   {"type", "fanout"},
		"PRECONDITION_FAILED - inequivalent arg 'durable' for exchange 'a' in vhost '/': received 'false' but current is 'true'":                                  {"durable", "true"},
		"PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'a' in vhost '/': received the value 'u' of type 'longstr' but current is none": {"alternate-exchange", "none"},
		"PRECONDITION_FAILED - something else": {"", ""},
	} {
		arg, current := inequivalent(text)
		require.Equal(t, want, [2]string{arg, current}, text)
	}
}
