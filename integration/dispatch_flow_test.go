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
	"github.com/shardmq/shardmq/integration/rig"
)

// reach waits until a job's status is as it should be.
func reach(t *testing.T, p *dispatch.Pool, what string, so func(dispatch.Status) bool) {
	t.Helper()
	eventually(t, what, func() string {
		if st := p.Status(); !so(st) {
			return fmt.Sprintf("%+v", st)
		}
		return ""
	})
}

// TestDispatchOrder: with an order by routing key, jobs of one key are done one at a time and in their order, also when
// some have to be tried again; other keys go on meanwhile.
func TestDispatchOrder(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	name := e.name("mail")
	var mu sync.Mutex
	done := map[string][]string{}
	busy := map[string]bool{}
	var overlaps atomic.Int32
	ask := &endpoint{do: func(_ context.Context, m *target.Message) target.Outcome {
		mu.Lock()
		if busy[m.RoutingKey] {
			overlaps.Add(1)
		}
		busy[m.RoutingKey] = true
		mu.Unlock()
		time.Sleep(time.Millisecond) // the work
		mu.Lock()
		defer mu.Unlock()
		busy[m.RoutingKey] = false
		if m.Body[0]%5 == 0 && m.Attempt < 3 {
			return outcome(target.Again, target.Status5xx)
		}
		done[m.RoutingKey] = append(done[m.RoutingKey], string(m.Body[1:]))
		return outcome(target.Done, target.OK)
	}}
	job := dispatchJob(e, name)
	job.Order, job.Executors, job.Prefetch = dispatch.Order{RoutingKey: true}, 8, 100
	job.Declare = &dispatch.Declare{Exchange: name + "_router", Type: "fanout"}
	job.Retry.First, job.Retry.Most = 10*time.Millisecond, 50*time.Millisecond
	p, stop := runPool(t, job, ask)
	ch := confirming(t, e.url)
	p.Pause(true) // so that many are received at once, by all executors
	const n = 300
	want := map[string][]string{}
	for i := range n {
		key := fmt.Sprint("key-", i%13)
		want[key] = append(want[key], fmt.Sprint(i))
		publish(t, ch, name+"_router", key, text(string(rune('0'+i%10))+fmt.Sprint(i)))
	}
	p.Pause(false)
	reach(t, p, "all done", func(st dispatch.Status) bool { return st.Done == n })
	stop()
	require.Equal(t, want, done)
	require.Zero(t, overlaps.Load(), "two of one key at once")
	require.Greater(t, ask.most.Load(), int64(1), "keys side by side")
}

// TestDispatchBreaker: an endpoint that fails is left alone after a few failures. No job loses an attempt meanwhile, and
// all are done once it works again.
func TestDispatchBreaker(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	name := e.name("mail")
	var works atomic.Bool
	ask := &endpoint{do: func(context.Context, *target.Message) target.Outcome {
		if works.Load() {
			return outcome(target.Done, target.OK)
		}
		return outcome(target.Again, target.Unreachable)
	}}
	job := dispatchJob(e, name)
	job.Executors, job.Breaker = 4, dispatch.Breaker{Failures: 3, Open: 500 * time.Millisecond}
	job.Retry.Attempts = 20
	p, stop := runPool(t, job, ask)
	ch := confirming(t, e.url)
	const n = 60
	for range n {
		publish(t, ch, name+"_router", "", text("job"))
	}
	reach(t, p, "the breaker is open", func(st dispatch.Status) bool { return st.Breaker == "open" && st.Executors == 0 })
	began, before := time.Now(), ask.all.Load()
	require.LessOrEqual(t, before, int64(8))
	reach(t, p, "the breaker is open again", func(st dispatch.Status) bool { return ask.all.Load() >= before+3 })
	require.GreaterOrEqual(t, time.Since(began), 900*time.Millisecond, "one try each time")
	works.Store(true)
	reach(t, p, "all done", func(st dispatch.Status) bool { return st.Done == n })
	stop()
	require.Zero(t, p.Status().Dead)
}

// TestDispatchRetryAfter: an endpoint that asks to be left alone is, for all jobs.
func TestDispatchRetryAfter(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	name := e.name("mail")
	const alone = 2 * time.Second
	var mu sync.Mutex
	var calls []time.Time
	ask := &endpoint{do: func(context.Context, *target.Message) target.Outcome {
		mu.Lock()
		defer mu.Unlock()
		if calls = append(calls, time.Now()); len(calls) == 1 {
			return target.Outcome{Verdict: target.Again, Class: target.Status4xx, Status: 429, RetryAfter: alone, Reason: "429 Too Many Requests"}
		}
		return outcome(target.Done, target.OK)
	}}
	job := dispatchJob(e, name)
	job.Executors = 1
	p, stop := runPool(t, job, ask)
	ch := confirming(t, e.url)
	for range 20 {
		publish(t, ch, name+"_router", "", text("job"))
	}
	reach(t, p, "all done", func(st dispatch.Status) bool { return st.Done == 20 })
	stop()
	require.Len(t, calls, 21)
	require.GreaterOrEqual(t, calls[1].Sub(calls[0]), alone)
}

// TestDispatchStops: a stop in the middle of the work finishes what is in flight and returns the rest; a second run does
// that, and none is done twice.
func TestDispatchStops(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	name := e.name("mail")
	const n = 400
	var mu sync.Mutex
	done := map[string]int{}
	ask := &endpoint{do: func(ctx context.Context, m *target.Message) target.Outcome {
		time.Sleep(2 * time.Millisecond) // the work
		mu.Lock()
		defer mu.Unlock()
		done[string(m.Body)]++
		return outcome(target.Done, target.OK)
	}}
	count := func() (total int) {
		mu.Lock()
		defer mu.Unlock()
		for _, times := range done {
			total += times
		}
		return total
	}
	job := dispatchJob(e, name)
	job.Executors, job.Prefetch = 8, 64
	_, stop := runPool(t, job, ask)
	ch := confirming(t, e.url)
	for i := range n {
		publish(t, ch, name+"_router", "", text(fmt.Sprint(i)))
	}
	for round := 1; count() < n; round++ {
		until := min(count()+n/10, n)
		eventually(t, "some are done", func() string {
			if c := count(); c < until {
				return fmt.Sprint(c)
			}
			return ""
		})
		stop()
		_, stop = runPool(t, job, ask)
	}
	stop()
	require.Len(t, done, n)
	require.Equal(t, n, count(), "some were done twice")
	require.Empty(t, left(t, e, name))
}

// TestDispatchPause: a paused job is not fetched, and what was received goes back; it goes on when told so.
func TestDispatchPause(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	name := e.name("mail")
	ask := &endpoint{do: func(context.Context, *target.Message) target.Outcome { return outcome(target.Done, target.OK) }}
	job := dispatchJob(e, name)
	p, _ := runPool(t, job, ask)
	ch := confirming(t, e.url)
	p.Pause(true)
	reach(t, p, "no executors", func(st dispatch.Status) bool { return st.Executors == 0 && st.Paused })
	for range 30 {
		publish(t, ch, name+"_router", "", text("job"))
	}
	q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
	require.NoError(t, err)
	require.Equal(t, 30, q.Messages)
	p.Pause(false)
	reach(t, p, "all done", func(st dispatch.Status) bool { return st.Done == 30 && st.Executors == 2 })
}

// TestDispatchBrokerGone: the broker is killed in the middle of the work and comes back. Work goes on, and every job is
// done. Some are done twice: a broker that is killed loses acknowledgements that it had not written down.
func TestDispatchBrokerGone(t *testing.T) {
	t.Parallel()
	e := newNodeEnv(t, rig.NodeOptions{})
	var mu sync.Mutex
	done := map[string]int{}
	ask := &endpoint{do: func(_ context.Context, m *target.Message) target.Outcome {
		if m.Body[0] == '7' && m.Attempt == 1 {
			return outcome(target.Again, target.Status5xx)
		}
		time.Sleep(time.Millisecond) // the work
		mu.Lock()
		defer mu.Unlock()
		done[string(m.Body)]++
		return outcome(target.Done, target.OK)
	}}
	job := dispatchJob(e, "mail")
	p, stop := runPool(t, job, ask)
	ch := confirming(t, e.url)
	const n = 500
	for i := range n {
		m := text(fmt.Sprint(i))
		m.DeliveryMode = amqp.Persistent
		publish(t, ch, "mail_router", "", m)
	}
	require.NoError(t, e.broker.Kill())
	reach(t, p, "it is noticed", func(st dispatch.Status) bool { return !st.Connected && st.Executors == 0 })
	require.NoError(t, e.broker.Restart(t.Context()))
	eventually(t, "all done", func() string {
		mu.Lock()
		defer mu.Unlock()
		if len(done) < n {
			return fmt.Sprint(len(done))
		}
		return ""
	})
	stop()
}
