package router

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A message that is never acknowledged must not have the ring remember all that came after it.
func TestRingBehindOneThatStays(t *testing.T) {
	var r ring
	a, settled := &attachment{}, 0
	count := func(*attachment) { settled++ }
	r.push(1, a)
	for tag := uint64(2); tag < 10_000; tag++ {
		r.push(tag, a)
		if tag > 5 { // four more stay in the window
			r.settle(tag-4, false, count)
		}
	}
	require.Equal(t, 9994, settled)
	require.LessOrEqual(t, len(r.tags), 32)
	for _, tag := range []uint64{9999, 1, 9997} {
		r.settle(tag, false, count)
	}
	require.Equal(t, 9997, settled)
	r.settle(9998, true, count)
	require.Equal(t, 9999, settled, "each once")
	require.Zero(t, r.n)
	for _, left := range r.atts {
		require.Nil(t, left)
	}
}
