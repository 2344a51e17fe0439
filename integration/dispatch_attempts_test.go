package integration

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/dispatch"
	"github.com/shardmq/shardmq/dispatch/target"
)

// TestDispatchDeadLetterMovedByHand: a dead letter that is put back as it is, through the job's exchange or right into its queue, has all
// its attempts again; and no publisher can claim that there were any.
func TestDispatchDeadLetterMovedByHand(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	name := e.name("mail")
	var mu sync.Mutex
	var attempts []int
	ask := &endpoint{do: func(_ context.Context, m *target.Message) target.Outcome {
		mu.Lock()
		defer mu.Unlock()
		attempts = append(attempts, m.Attempt)
		return outcome(target.Again, target.Status5xx)
	}}
	p, _ := runPool(t, dispatchJob(e, name), ask)
	ch := confirming(t, e.url)
	publish(t, ch, name+"_router", "", text("a job"))
	dead := func(n uint64) { reach(t, p, "a dead letter", func(st dispatch.Status) bool { return st.Dead == n }) }
	dead(1)
	move := func(exchange, key string) {
		t.Helper()
		letter, ok, err := ch.Get(name+".dead", true)
		require.NoError(t, err)
		require.True(t, ok)
		moved := text(string(letter.Body))
		moved.Headers = letter.Headers
		publish(t, ch, exchange, key, moved)
	}
	move(name+"_router", "")
	dead(2)
	move("", name)
	dead(3)
	require.Equal(t, []int{1, 2, 3, 1, 2, 3, 1, 2, 3}, attempts)
	letter, ok, err := ch.Get(name+".dead", true)
	require.NoError(t, err)
	require.True(t, ok)
	require.EqualValues(t, 3, letter.Headers["x-dispatch-attempt"])
	require.Equal(t, name+"_router", letter.Headers["x-dispatch-exchange"])
}
