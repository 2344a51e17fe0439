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
	"go.uber.org/zap/zaptest"

	"github.com/shardmq/shardmq/config/secret"
	"github.com/shardmq/shardmq/dispatch"
	"github.com/shardmq/shardmq/dispatch/target"
)

// endpoint stands in for an HTTP endpoint.
type endpoint struct {
	mu   sync.Mutex
	do   func(ctx context.Context, m *target.Message) target.Outcome
	now  atomic.Int64 // calls
	most atomic.Int64 // calls at once
	all  atomic.Int64
}

func (e *endpoint) Do(ctx context.Context, m *target.Message) target.Outcome {
	n := e.now.Add(1)
	defer e.now.Add(-1)
	e.all.Add(1)
	for most := e.most.Load(); n > most && !e.most.CompareAndSwap(most, n); most = e.most.Load() {
	}
	e.mu.Lock()
	do := e.do
	e.mu.Unlock()
	return do(ctx, m)
}

func (e *endpoint) DoBatch(ctx context.Context, all []*target.Message) []target.Outcome {
	var out []target.Outcome
	for _, m := range all {
		out = append(out, e.Do(ctx, m))
	}
	return out
}

func outcome(v target.Verdict, c target.Class) target.Outcome {
	return target.Outcome{Verdict: v, Class: c, Reason: string(c)}
}

// dispatchJob is a job that a test changes to its needs.
func dispatchJob(e *env, name string) *dispatch.Job {
	return &dispatch.Job{
		Name: name, Server: dispatch.Server{Name: "test", URL: secret.String(e.url)}, Queue: name, Executors: 2,
		Declare: &dispatch.Declare{Exchange: name + "_router", Type: "direct"},
		Retry:   dispatch.Retry{Attempts: 3, First: 100 * time.Millisecond, Most: time.Second, RetryAfterMost: time.Minute, Then: dispatch.DeadLetter},
	}
}

// runPool runs a job until the test ends or stop is called.
func runPool(t *testing.T, job *dispatch.Job, ask dispatch.Endpoint) (p *dispatch.Pool, stop func()) {
	t.Helper()
	p = dispatch.NewPool(job, ask, nil, 10*time.Second, zaptest.NewLogger(t))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	eventually(t, "executors", func() string {
		if st := p.Status(); st.Executors != job.Executors {
			return fmt.Sprintf("%+v", st)
		}
		return ""
	})
	return p, stop
}

// left are the messages in a queue, which are taken out.
func left(t *testing.T, e *env, queue string) []amqp.Delivery {
	t.Helper()
	conn, err := amqp.Dial(e.url)
	require.NoError(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	require.NoError(t, err)
	var all []amqp.Delivery
	for {
		d, ok, err := ch.Get(queue, true)
		require.NoError(t, err)
		if !ok {
			return all
		}
		all = append(all, d)
	}
}

// TestDispatchRetries: a job that always fails is tried three times, with the delays asked for, and ends in the
// dead-letter queue with the reasons; others are done meanwhile.
func TestDispatchRetries(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	name := e.name("mail")
	var mu sync.Mutex
	var tries []time.Time
	var ids []string
	ask := &endpoint{do: func(_ context.Context, m *target.Message) target.Outcome {
		if string(m.Body) == "bad" {
			mu.Lock()
			defer mu.Unlock()
			tries, ids = append(tries, time.Now()), append(ids, m.ID)
			if m.Attempt != len(tries) || m.RoutingKey != "" || m.Exchange != name+"_router" {
				return outcome(target.Dead, target.Invalid)
			}
			return target.Outcome{Verdict: target.Again, Class: target.Status5xx, Status: 502, Reason: "502 Bad Gateway"}
		}
		return outcome(target.Done, target.OK)
	}}
	p, stop := runPool(t, dispatchJob(e, name), ask)
	ch := confirming(t, e.url)
	publish(t, ch, name+"_router", "", text("bad"))
	for range 50 {
		publish(t, ch, name+"_router", "", text("good"))
	}
	eventually(t, "all done", func() string {
		if st := p.Status(); st.Done != 50 || st.Dead != 1 {
			return fmt.Sprintf("%+v", st)
		}
		return ""
	})
	require.Len(t, tries, 3)
	require.Equal(t, []string{ids[0], ids[0], ids[0]}, ids)
	for i, bounds := range [][2]time.Duration{{75, 150}, {150, 300}} {
		require.GreaterOrEqual(t, tries[i+1].Sub(tries[i]), bounds[0]*time.Millisecond)
	}
	stop()
	dead := left(t, e, name+".dead")
	require.Len(t, dead, 1)
	require.Equal(t, "bad", string(dead[0].Body))
	require.Equal(t, "502 Bad Gateway", dead[0].Headers["x-dispatch-reason"])
	require.EqualValues(t, 3, dead[0].Headers["x-dispatch-attempt"])
	require.Equal(t, name+"_router", dead[0].Headers["x-dispatch-exchange"])
	require.Empty(t, left(t, e, name))
	require.Empty(t, left(t, e, name+".due"))
}

// TestDispatchScale: after every scaling there are as many consumers, and as many requests at once, as executors were
// asked for.
func TestDispatchScale(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	name := e.name("mail")
	release := make(chan struct{})
	ask := &endpoint{do: func(ctx context.Context, m *target.Message) target.Outcome {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return outcome(target.Done, target.OK)
	}}
	p, stop := runPool(t, dispatchJob(e, name), ask)
	ch := confirming(t, e.url)
	for range 200 {
		publish(t, ch, name+"_router", "", text("job"))
	}
	for _, n := range []int{1, 7, 3, 0, 12, 5, 5, 9} {
		require.NoError(t, p.Scale(n))
		eventually(t, fmt.Sprintf("%d executors", n), func() string {
			q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
			require.NoError(t, err)
			if st := p.Status(); st.Executors != n || q.Consumers != n || ask.now.Load() != int64(n) {
				select { // those that are too many end with their job
				case release <- struct{}{}:
				default:
				}
				return fmt.Sprintf("%d consumers, %d calls, %+v", q.Consumers, ask.now.Load(), st)
			}
			return ""
		})
	}
	require.Error(t, p.Scale(-1))
	close(release)
	eventually(t, "all done", func() string {
		if st := p.Status(); st.Done != 200 {
			return fmt.Sprintf("%+v", st)
		}
		return ""
	})
	stop()
	require.EqualValues(t, 200, ask.all.Load(), "each once")
}
