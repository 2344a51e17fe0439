package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/dispatch"
	"github.com/shardmq/shardmq/dispatch/target"
)

// TestDispatchPauseStorm: whatever pausing and resuming at once from several sides does, the last word counts, and
// the job ends when told so. All is done once.
func TestDispatchPauseStorm(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	name := e.name("mail")
	ask := &endpoint{do: func(context.Context, *target.Message) target.Outcome { return outcome(target.Done, target.OK) }}
	job := dispatchJob(e, name)
	job.Prefetch = 20
	p, stop := runPool(t, job, ask)
	ch := confirming(t, e.url)
	reach(t, p, "connected", func(st dispatch.Status) bool { return st.Executors == 2 })
	for range 100 {
		publish(t, ch, name+"_router", "", text("job"))
	}
	var storm sync.WaitGroup
	for side := range 4 {
		storm.Go(func() {
			for i := range 500 {
				p.Pause((i+side)%2 == 0)
			}
		})
	}
	storm.Wait()
	p.Pause(true)
	reach(t, p, "no executors", func(st dispatch.Status) bool { return st.Executors == 0 && st.InFlight == 0 })
	p.Pause(false)
	reach(t, p, "all done", func(st dispatch.Status) bool { return st.Done == 100 && st.Executors == 2 })
	stop()
	require.EqualValues(t, 100, ask.all.Load(), "each once")
}

// TestDispatchNoExecutors: what has been received when the last executor goes is not kept from other dispatchers.
func TestDispatchNoExecutors(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	name := e.name("mail")
	release := make(chan struct{})
	ask := &endpoint{do: func(context.Context, *target.Message) target.Outcome {
		<-release
		return outcome(target.Done, target.OK)
	}}
	job := dispatchJob(e, name)
	job.Prefetch = 10
	p, _ := runPool(t, job, ask)
	ch := confirming(t, e.url)
	for range 30 {
		publish(t, ch, name+"_router", "", text("job"))
	}
	reach(t, p, "some wait", func(st dispatch.Status) bool { return st.InFlight == 2 && st.Waiting == 8 })
	require.NoError(t, p.Scale(0))
	eventually(t, "all but those in hand are back", func() string {
		q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		require.NoError(t, err)
		if q.Messages != 28 || q.Consumers != 0 {
			return fmt.Sprintf("%+v", q)
		}
		return ""
	})
	close(release)
	require.NoError(t, p.Scale(3))
	reach(t, p, "all done", func(st dispatch.Status) bool { return st.Done == 30 })
	require.EqualValues(t, 30, ask.all.Load(), "each once")
}
