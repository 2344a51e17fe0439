package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/dispatch"
	"github.com/shardmq/shardmq/dispatch/target"
	"github.com/shardmq/shardmq/integration/rig"
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

// TestDispatchMemoryAlarm: a broker that is short of memory takes no message for the time being. Jobs that fail wait for
// that and lose nothing; others are fetched and acknowledged all the same, and stopping takes no longer than usual.
func TestDispatchMemoryAlarm(t *testing.T) {
	t.Parallel()
	e := newNodeEnv(t, rig.NodeOptions{})
	ask := &endpoint{do: func(_ context.Context, m *target.Message) target.Outcome {
		if string(m.Body) == "fails" && m.Attempt == 1 {
			return outcome(target.Again, target.Status5xx)
		}
		return outcome(target.Done, target.OK)
	}}
	job := dispatchJob(e, "mail")
	job.Executors = 0
	p, stop := runPool(t, job, ask)
	ch := confirming(t, e.url)
	reach(t, p, "connected", func(st dispatch.Status) bool { return st.Connected })
	for i := range 51 {
		body := "job"
		if i == 10 {
			body = "fails"
		}
		publish(t, ch, "mail_router", "", text(body))
	}
	alarm := func(watermark string) {
		_, err := e.broker.Ctl(t.Context(), "set_vm_memory_high_watermark", watermark)
		require.NoError(t, err)
	}
	alarm("0.00001")
	require.NoError(t, p.Scale(2))
	eventually(t, "all others are acknowledged", func() string {
		q, err := ch.QueueDeclarePassive("mail", true, false, false, false, nil)
		require.NoError(t, err)
		if st := p.Status(); st.Done != 50 || q.Messages != 0 {
			return fmt.Sprintf("%+v %+v", st, q)
		}
		return ""
	})
	alarm("0.4")
	reach(t, p, "the last is done", func(st dispatch.Status) bool { return st.Done == 51 && st.Retried == 1 })
	stop()
	require.EqualValues(t, 52, ask.all.Load())
}

// TestDispatchHostileHeaders: what a message claims of itself, or how long its headers are, keeps neither it from its
// attempts nor others from theirs.
func TestDispatchHostileHeaders(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	name := e.name("mail")
	ask := &endpoint{do: func(_ context.Context, m *target.Message) target.Outcome {
		return outcome(target.Again, target.Status5xx)
	}}
	p, _ := runPool(t, dispatchJob(e, name), ask)
	ch := confirming(t, e.url)
	reach(t, p, "connected", func(st dispatch.Status) bool { return st.Executors == 2 })
	all := []amqp.Table{
		{"long": strings.Repeat("x", 130_800)}, // the frame has 131,072
		{"long": strings.Repeat("x", 128_000)}, // and with what the broker adds
		{"x-death": []any{amqp.Table{"queue": name + ".due", "reason": "expired", "count": int64(1)}}},
		{"x-death": []any{int32(1), int32(2)}},
		{"x-dispatch-attempt": "one", "x-dispatch-id": int64(1), "x-dispatch-routing-key": amqp.Table{}},
	}
	for _, headers := range all {
		m := text("job")
		m.Headers = headers
		publish(t, ch, "", name, m)
	}
	reach(t, p, "all dead", func(st dispatch.Status) bool { return int(st.Dead) == len(all) && st.Connected })
	require.EqualValues(t, 3*len(all), ask.all.Load())
	shortened := 0
	for _, letter := range left(t, e, name+".dead") {
		if letter.Headers["x-dispatch-left-out"] == "long" {
			shortened++
		}
	}
	require.Equal(t, 2, shortened)
	require.Zero(t, p.Status().Repeated)
}

// TestDispatchOrderLater: a job that gets an order does those as well that were put off before.
func TestDispatchOrderLater(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	name := e.name("mail")
	var well atomic.Bool
	ask := &endpoint{do: func(context.Context, *target.Message) target.Outcome {
		if well.Load() {
			return outcome(target.Done, target.OK)
		}
		return outcome(target.Again, target.Status5xx)
	}}
	job := dispatchJob(e, name)
	job.Retry.First = time.Second
	p, stop := runPool(t, job, ask)
	ch := confirming(t, e.url)
	for range 5 {
		publish(t, ch, name+"_router", "", text("job"))
	}
	reach(t, p, "put off", func(st dispatch.Status) bool { return st.Retried >= 5 })
	stop()
	well.Store(true)
	ordered := dispatchJob(e, name)
	ordered.Order = dispatch.Order{RoutingKey: true}
	p, _ = runPool(t, ordered, ask)
	reach(t, p, "all done", func(st dispatch.Status) bool { return st.Done == 5 })
}

// TestDispatchDueDeleted: the due queue is deleted under a job. It is there again, and what is in hand is done once.
func TestDispatchDueDeleted(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	name := e.name("mail")
	release := make(chan struct{})
	ask := &endpoint{do: func(context.Context, *target.Message) target.Outcome {
		<-release
		return outcome(target.Done, target.OK)
	}}
	p, _ := runPool(t, dispatchJob(e, name), ask)
	ch := confirming(t, e.url)
	for range 10 {
		publish(t, ch, name+"_router", "", text("job"))
	}
	reach(t, p, "in hand", func(st dispatch.Status) bool { return st.InFlight == 2 })
	_, err := ch.QueueDelete(name+".due", false, false, false)
	require.NoError(t, err)
	awaitConsumers(t, e, name+".due", 1)
	close(release)
	reach(t, p, "all done", func(st dispatch.Status) bool { return st.Done == 10 && st.Repeated == 0 })
	require.EqualValues(t, 10, ask.all.Load(), "each once")
}

// TestDispatchPausesQuorum: RabbitMQ 4.0 drops what a quorum queue has had back 20 times. Pauses do not use that up.
func TestDispatchPausesQuorum(t *testing.T) {
	t.Parallel()
	e := newNodeEnv(t, rig.NodeOptions{Version: "4.0"})
	ask := &endpoint{do: func(context.Context, *target.Message) target.Outcome { return outcome(target.Done, target.OK) }}
	job := dispatchJob(e, "mail")
	job.Prefetch = 20
	job.Declare.Arguments = map[string]any{amqp.QueueTypeArg: amqp.QueueTypeQuorum}
	release := make(chan struct{})
	ask.do = func(context.Context, *target.Message) target.Outcome {
		<-release
		return outcome(target.Done, target.OK)
	}
	p, _ := runPool(t, job, ask)
	ch := confirming(t, e.url)
	for range 22 { // two are in hand
		publish(t, ch, "mail_router", "", text("job"))
	}
	for range 25 {
		reach(t, p, "received", func(st dispatch.Status) bool { return st.InFlight == 2 && st.Waiting > 0 })
		p.Pause(true)
		reach(t, p, "given back", func(st dispatch.Status) bool { return st.Executors == 0 && st.Waiting == 0 })
		p.Pause(false)
	}
	close(release)
	reach(t, p, "all done", func(st dispatch.Status) bool { return st.Done == 22 })
}
