package shards

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Names of shards and catch-alls that do not fit in a short string would be refused by the client library, which closes the whole control
// connection over it.
func TestNamesTooLongForShards(t *testing.T) {
	long := strings.Repeat("x", 238)
	_, err := NewPolicy("p", "/", "^"+long+"0$", 0, Definition{ShardsPerNode: 1})
	require.ErrorContains(t, err, "239 bytes")
	p, err := NewPolicy("p", "/", "^x", 0, Definition{ShardsPerNode: 1})
	require.NoError(t, err)
	ps := NewPolicies([]*Policy{p})
	require.NotNil(t, ps.Match("/", long))
	require.Nil(t, ps.Match("/", long+"0"), "an ordinary exchange")
}
