package shards

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func mustPolicy(t testing.TB, name, vhost, pattern string, priority int) *Policy {
	t.Helper()
	p, err := NewPolicy(name, vhost, pattern, priority, Definition{ShardsPerNode: 2})
	require.NoError(t, err)
	return p
}

func TestNewPolicyRefuses(t *testing.T) {
	long := strings.Repeat("x", 256)
	good := func(change func(*Definition)) Definition {
		def := Definition{ShardsPerNode: 1}
		if change != nil {
			change(&def)
		}
		return def
	}
	tests := []struct {
		name, vhost, pattern string
		def                  Definition
		field, text          string
	}{
		{"", "/", "^a$", good(nil), "name", "empty"},
		{"p", "", "^a$", good(nil), "vhost", "empty"},
		{"p", "/", "", good(nil), "pattern", "every exchange"},
		{"p", "/", "^(a$", good(nil), "pattern", "not a regular expression"},
		{"p", "/", "^amq[.]direct$", good(nil), "pattern", "never sharded"},
		{"p", "/", "^a$", Definition{}, "definition.shards-per-node", "is 0"},
		{"p", "/", "^a$", good(func(d *Definition) { d.ShardsPerNode = -1 }), "definition.shards-per-node", "is -1"},
		{"p", "/", "^a$", good(func(d *Definition) { d.ShardsPerNode = 1001 }), "definition.shards-per-node", "1 to 1000"},
		{"p", "/", "^a$", good(func(d *Definition) { d.RoutingKey = long }), "definition.routing-key", "256 bytes"},
		{"p", "/", "^a$", good(func(d *Definition) { d.Hash = 9 }), "definition.hash", "phash2"},
		{"p", "/", "^a$", good(func(d *Definition) { d.Consumers = 9 }), "definition.consumers", "balanced"},
		{"p", "/", "^a$", good(func(d *Definition) { d.ExchangeType = "topic" }), "definition.exchange-type", "topic"},
		{"p", "/", "^a$", good(func(d *Definition) { d.FedBy = []string{""} }), "definition.fed-by", "default exchange"},
		{"p", "/", "^a$", good(func(d *Definition) { d.FedBy = []string{long} }), "definition.fed-by", "256 bytes"},
		{"p", "/", "^a$", good(func(d *Definition) { d.FedBy = []string{"b", "a"} }), "definition.fed-by", "itself"},
		{"p", "/", "^a$", good(func(d *Definition) { d.FedBy = []string{"b", "b"} }), "definition.fed-by", "twice"},
	}
	for _, tt := range tests {
		t.Run(tt.field+" "+tt.text, func(t *testing.T) {
			_, err := NewPolicy(tt.name, tt.vhost, tt.pattern, 0, tt.def)
			var wrong *PolicyError
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, tt.field, wrong.Field)
			require.ErrorContains(t, err, tt.text)
		})
	}
}

func TestPolicyLiteral(t *testing.T) {
	tests := []struct {
		pattern, literal string
		ok               bool
	}{
		{"^images$", "images", true},
		{"^i$", "i", true},
		{`^a\.b-c$`, "a.b-c", true},
		{`^a[.]b$`, "a.b", true},
		{`^\Qa.*b\E$`, "a.*b", true},
		{"^b\u00fccher$", "b\u00fccher", true},
		{"images", "", false},
		{"^images", "", false},
		{"images$", "", false},
		{"^images|videos$", "", false},
		{"^(images)$", "", false},
		{"(?i)^images$", "", false},
		{"(?m)^images$", "", false},
		{"^image.$", "", false},
		{"^images?$", "", false},
		{"^$", "", false},
		{".*", "", false},
	}
	for _, tt := range tests {
		literal, ok := mustPolicy(t, "p", "/", tt.pattern, 0).Literal()
		require.Equal(t, tt.ok, ok, tt.pattern)
		require.Equal(t, tt.literal, literal, tt.pattern)
	}
}

func TestPoliciesMatch(t *testing.T) {
	ps := NewPolicies([]*Policy{
		mustPolicy(t, "all", "/", ".*", -1),
		mustPolicy(t, "images-b", "/", "^images$", 5),
		mustPolicy(t, "images-a", "/", "^images$", 5),
		mustPolicy(t, "im", "/", "^im", 5),
		mustPolicy(t, "video", "/", "^video", 7),
		mustPolicy(t, "literal-low", "/", "^videos$", 1),
		mustPolicy(t, "other", "v", "^only$", 0),
		mustPolicy(t, "other-b", "v", "^only$", 0),
	})
	tests := []struct{ vhost, exchange, want string }{
		{"/", "images", "im"}, // of equal priority the first by name
		{"/", "imagesx", "im"},
		{"/", "videos", "video"},
		{"/", "anything", "all"},
		{"/", "", ""},
		{"/", "amq.direct", ""},
		{"/", "images.unsharded", ""},
		{"/", "shardmq.state", ""},
		{"/", "sharding: images - rabbit@a - 0", ""},
		{"/", "amqx", "all"},
		{"v", "only", "other"},
		{"v", "images", ""},
		{"nowhere", "images", ""},
	}
	for range 2 { // the second time from memory
		for _, tt := range tests {
			got := ""
			if p := ps.Match(tt.vhost, tt.exchange); p != nil {
				got = p.Name
			}
			require.Equal(t, tt.want, got, "%s %s", tt.vhost, tt.exchange)
		}
	}
	require.Len(t, ps.All(), 8)
	require.Equal(t, "video", ps.ForVhost("/")[0].Name)
	require.Len(t, ps.ForVhost("v"), 2)
	require.Empty(t, ps.ForVhost("nowhere"))
	require.Nil(t, NewPolicies(nil).Match("/", "images"))
}

func TestPoliciesMatchConcurrently(t *testing.T) {
	ps := NewPolicies([]*Policy{mustPolicy(t, "p", "/", "[02468]$", 0)})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 1000 {
				match := ps.Match("/", fmt.Sprintf("x%d.%d", w%2, i)) != nil
				if match != (i%2 == 0) {
					t.Errorf("exchange %d: match %t", i, match)
				}
			}
		})
	}
	wg.Wait()
}

func TestConfigurationWords(t *testing.T) {
	for _, h := range []Hash{HashXX, HashPhash2} {
		got, err := ParseHash(h.String())
		require.NoError(t, err)
		require.Equal(t, h, got)
	}
	for _, m := range []ConsumerMode{Balanced, One} {
		got, err := ParseConsumerMode(m.String())
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
	h, err := ParseHash("")
	require.NoError(t, err)
	require.Equal(t, HashXX, h)
	m, err := ParseConsumerMode("")
	require.NoError(t, err)
	require.Equal(t, Balanced, m)
	_, err = ParseHash("md5")
	require.ErrorContains(t, err, "use xxhash or phash2")
	_, err = ParseConsumerMode("all")
	require.ErrorContains(t, err, "use balanced or one")
}

func BenchmarkPoliciesMatch(b *testing.B) {
	literal := NewPolicies([]*Policy{mustPolicy(b, "p", "/", "^images$", 0)})
	pattern := NewPolicies([]*Policy{mustPolicy(b, "p", "/", "^im", 0)})
	for name, ps := range map[string]*Policies{"literal": literal, "pattern": pattern} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ps.Match("/", "images")
			}
		})
	}
}
