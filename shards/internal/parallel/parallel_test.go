package parallel_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards/internal/parallel"
)

func TestDoCoversEveryIndexOnce(t *testing.T) {
	for _, n := range []int{0, 1, 3, 100} {
		seen := make([]atomic.Int32, n)
		require.NoError(t, parallel.Do(t.Context(), n, 7, func(_ context.Context, i int) error {
			seen[i].Add(1)
			return nil
		}))
		for i := range seen {
			require.Equal(t, int32(1), seen[i].Load(), "index %d of %d", i, n)
		}
	}
}

func TestDoNeverExceedsTheLimit(t *testing.T) {
	var running, most atomic.Int32
	require.NoError(t, parallel.Do(t.Context(), 50, 4, func(context.Context, int) error {
		now := running.Add(1)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
		}
		running.Add(-1)
		return nil
	}))
	require.LessOrEqual(t, most.Load(), int32(4))
}

func TestDoReturnsTheFirstErrorAndStops(t *testing.T) {
	boom := errors.New("boom")
	var calls atomic.Int32
	err := parallel.Do(t.Context(), 1000, 1, func(_ context.Context, i int) error {
		calls.Add(1)
		if i == 2 {
			return boom
		}
		return nil
	})
	require.ErrorIs(t, err, boom)
	require.Equal(t, int32(3), calls.Load())
}

func TestDoReportsACancelledContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := parallel.Do(ctx, 5, 2, func(context.Context, int) error { return nil })
	require.ErrorIs(t, err, context.Canceled)
}
