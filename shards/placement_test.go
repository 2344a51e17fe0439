package shards

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards/coordination"
)

func TestPlacementText(t *testing.T) {
	long := strings.Repeat("(?:a|b)", 200)
	for _, tt := range []struct {
		def  Definition
		mode Mode
		want string
	}{
		{Definition{}, Sharded, "xxhash on routing key"},
		{Definition{Hash: HashPhash2, OnNodeDown: Keep}, Sharded, "phash2 on routing key, on-node-down keep"},
		{Definition{HashOn: HashOn{Source: OnHeader, Header: "user"}}, Sharded, `xxhash on header "user"`},
		{Definition{HashOn: HashOn{Source: OnCapture, Re: regexp.MustCompile(`^(\w+)`)}}, Sharded, `xxhash on routing key "^(\\w+)"`},
		{Definition{HashOn: HashOn{Source: OnMessageID}, FedBy: []string{"b", "a"}}, Sharded, "xxhash on message-id, fed by a b"},
		{Definition{HashOn: HashOn{Source: OnCorrelationID}}, Sharded, "xxhash on correlation-id"},
		{Definition{Hash: HashPhash2}, Native, "by RabbitMQ"},
	} {
		require.Equal(t, tt.want, tt.def.placement(tt.mode))
	}
	one := Definition{HashOn: HashOn{Source: OnCapture, Re: regexp.MustCompile(long + "(x)")}}
	two := Definition{HashOn: HashOn{Source: OnCapture, Re: regexp.MustCompile(long + "(y)")}}
	require.Less(t, len(one.placement(Sharded)), coordination.MaxPlacement)
	require.NotEqual(t, one.placement(Sharded), two.placement(Sharded))
}

// Proxies whose files place messages differently say so, and no more once they
// have been reloaded; the shards stay the same.
func TestProxiesThatPlaceDifferentlyAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newProxies(t, 2, Definition{ShardsPerNode: 2})
		defer ps.close()
		ps.def.Hash = HashPhash2
		other := ps.start()
		counted := func(n int) func() bool {
			return func() bool {
				for _, p := range ps.all {
					all := p.top.Snapshot()
					if len(all) != 1 || all[0].Differing != n {
						return false
					}
				}
				return true
			}
		}
		within(t, 10*time.Second, counted(1), "one of three differs")
		generation := other.x.State().Set.Generation()
		ps.def.Hash = HashXX
		other.top.Reconfigure(NewPolicies([]*Policy{ps.policy()}), nil)
		within(t, 10*time.Second, counted(0), "and no more")
		require.Equal(t, generation, other.x.State().Set.Generation())
	})
}
