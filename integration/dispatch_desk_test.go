package integration

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/dispatch"
	"github.com/shardmq/shardmq/dispatch/target"
)

// TestDispatchDesk: dead letters can be looked at as often as one likes, stay in their order, and are done when they are
// replayed, as jobs that have not been tried yet.
func TestDispatchDesk(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{amqp.QueueTypeClassic, amqp.QueueTypeQuorum} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			name := e.name("mail")
			var works atomic.Bool
			var attempts sync.Map
			ask := &endpoint{do: func(_ context.Context, m *target.Message) target.Outcome {
				if works.Load() {
					attempts.Store(string(m.Body), m.Attempt)
					return outcome(target.Done, target.OK)
				}
				return outcome(target.Dead, target.Status4xx)
			}}
			job := dispatchJob(e, name)
			job.Executors = 1
			job.Declare.Arguments = map[string]any{amqp.QueueTypeArg: kind}
			p, _ := runPool(t, job, ask)
			ch := confirming(t, e.url)
			for i := range 5 {
				publish(t, ch, name+"_router", "", text(fmt.Sprint(i)))
			}
			reach(t, p, "all are dead", func(st dispatch.Status) bool { return st.Dead == 5 })
			for range 25 { // more often than quorum queues deliver a message by default
				var seen []string
				desk(t, job, func(l dispatch.Letter) (dispatch.Fate, error) {
					seen = append(seen, string(l.Body)+l.Reason+l.Exchange)
					return dispatch.Stay, nil
				})
				require.Equal(t, []string{"04xx" + name + "_router", "14xx" + name + "_router", "24xx" + name + "_router",
					"34xx" + name + "_router", "44xx" + name + "_router"}, seen)
			}
			works.Store(true)
			desk(t, job, func(l dispatch.Letter) (dispatch.Fate, error) {
				if string(l.Body) == "2" {
					return dispatch.Discard, nil
				}
				return dispatch.Replay, nil
			})
			reach(t, p, "those replayed are done", func(st dispatch.Status) bool { return st.Done == 4 })
			for _, body := range []string{"0", "1", "3", "4"} {
				attempt, _ := attempts.Load(body)
				require.Equal(t, 1, attempt)
			}
			require.Empty(t, left(t, e, name+".dead"))
		})
	}
}

// desk visits a job's dead letters.
func desk(t *testing.T, job *dispatch.Job, visit func(dispatch.Letter) (dispatch.Fate, error)) {
	t.Helper()
	d, err := dispatch.OpenDesk(t.Context(), job, nil)
	require.NoError(t, err)
	defer d.Close()
	require.NoError(t, d.DeadLetters(t.Context(), visit))
}

// TestDispatchPurge empties the job's queue and those of its retries.
func TestDispatchPurge(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	name := e.name("mail")
	ask := &endpoint{do: func(context.Context, *target.Message) target.Outcome { return outcome(target.Again, target.Status5xx) }}
	job := dispatchJob(e, name)
	job.Retry = dispatch.Retry{First: time.Hour, Most: time.Hour}
	p, _ := runPool(t, job, ask)
	ch := confirming(t, e.url)
	for range 7 {
		publish(t, ch, name+"_router", "", text("job"))
	}
	reach(t, p, "all wait", func(st dispatch.Status) bool { return st.Retried == 7 && st.InFlight == 0 })
	p.Pause(true)
	reach(t, p, "it is paused", func(st dispatch.Status) bool { return st.Executors == 0 })
	for range 5 {
		publish(t, ch, name+"_router", "", text("job"))
	}
	d, err := dispatch.OpenDesk(t.Context(), job, nil)
	require.NoError(t, err)
	defer d.Close()
	gone, err := d.Purge(t.Context())
	require.NoError(t, err)
	require.Equal(t, 12, gone)
}
