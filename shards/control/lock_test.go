package control

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards/coordination"
)

// One proxy has a lock at most, until it lets go of it or its connection ends.
func TestTransportLock(t *testing.T) {
	within(t, func(t *testing.T, h *hub) {
		a, b := h.voice(), h.voice()
		pass(time.Second)
		_, err := a.Lock(t.Context(), "q")
		require.ErrorIs(t, err, coordination.ErrNotBlocked, "there is a leader to decide")
		h.block(true)
		pass(time.Millisecond)
		has := func(v *voice, name string) bool {
			ok, err := v.Lock(t.Context(), name)
			require.NoError(t, err)
			return ok
		}
		require.True(t, has(a, "q"))
		require.True(t, has(a, "q"), "it has it already")
		require.False(t, has(b, "q"))
		require.True(t, has(b, "other"))
		require.NoError(t, b.Unlock(t.Context(), "q"), "which is not its own")
		require.False(t, has(b, "q"))
		require.NoError(t, a.Unlock(t.Context(), "q"))
		require.NoError(t, a.Unlock(t.Context(), "q"), "it is gone")
		require.True(t, has(b, "q"))
		require.False(t, has(a, "q"))
		b.close(t)
		require.True(t, has(a, "q"), "a lock ends with its connection")
		require.True(t, has(a, "other"))
		h.block(false)
		pass(time.Millisecond)
		require.NoError(t, a.Unlock(t.Context(), "q"))
		require.Equal(t, []string{"no queue"}, h.messages(lockName("q")))
		a.close(t)
		_, err = a.Lock(t.Context(), "q")
		require.ErrorIs(t, err, coordination.ErrTransportClosed)
		require.ErrorIs(t, a.Unlock(t.Context(), "q"), coordination.ErrTransportClosed)
	})
}

// A broker that does not answer holds nobody up for long.
func TestTransportLockSlow(t *testing.T) {
	within(t, func(t *testing.T, h *hub) {
		v := h.voice()
		pass(time.Second)
		h.block(true)
		pass(time.Millisecond)
		h.do(func() { h.hung[lockName("q")] = true })
		began := time.Now()
		_, err := v.Lock(t.Context(), "q")
		require.ErrorIs(t, err, errSlow)
		require.Equal(t, requestTimeout, time.Since(began))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = v.Lock(ctx, "q")
		require.ErrorIs(t, err, context.Canceled)
		v.close(t)
	})
}

func TestLockName(t *testing.T) {
	require.Equal(t, "shardmq.lock.sharding: images - rabbit@a - 0", lockName("sharding: images - rabbit@a - 0"))
	long := strings.Repeat("x", 254)
	require.LessOrEqual(t, len(lockName(long)), 255)
	require.NotEqual(t, lockName(long), lockName(long+"y"))
}
