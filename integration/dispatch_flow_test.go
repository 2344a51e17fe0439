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
