package integration

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"github.com/shardmq/shardmq/config/secret"
	"github.com/shardmq/shardmq/dispatch"
	"github.com/shardmq/shardmq/dispatch/target"
)

// joint is a job that two pools and a process work on together, with a total of executors.
type joint struct {
	t     *testing.T
	job   dispatch.Job
	app   *application
	pools []*dispatch.Pool
	stops []func()
}

const jointTotal = 10

// join starts a further pool.
func (j *joint) join() {
	j.t.Helper()
	ask, err := target.New(j.job.Target, j.job.Answers)
	require.NoError(j.t, err)
	job := j.job
	p := dispatch.NewPool(&job, ask, nil, 10*time.Second, zaptest.NewLogger(j.t))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	stop := func() {
		cancel()
		running.Wait()
	}
	j.t.Cleanup(stop)
	j.pools, j.stops = append(j.pools, p), append(j.stops, stop)
}

// shares waits until each pool has between low and high executors, and all have all but rest.
func (j *joint) shares(what string, rest, low, high int) {
	j.t.Helper()
	eventually(j.t, what, func() (wrong string) {
		sum, bad := 0, false
		for i, p := range j.pools {
			st := p.Status()
			sum += st.Executors
			bad = bad || st.Executors < low || st.Executors > high || st.Leases != st.Executors
			wrong += fmt.Sprintf("pool %d: %d executors, %d leases; ", i, st.Executors, st.Leases)
		}
		if !bad && sum <= jointTotal && sum >= jointTotal-rest {
			return ""
		}
		return wrong
	})
}

// watchConsumers looks at how many consumers a queue has, again and again, until the test calls most.
func watchConsumers(t *testing.T, url, queue string) (most func() int) {
	t.Helper()
	conn, err := amqp.Dial(url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ch := channel(t, conn)
	seen, end := 0, make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			select {
			case <-end:
				return
			case <-time.After(time.Millisecond):
			}
			q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
			if err != nil {
				t.Errorf("look at queue %q: %v", queue, err)
				return
			}
			seen = max(seen, q.Consumers)
		}
	})
	stop := sync.OnceFunc(func() {
		close(end)
		looking.Wait()
	})
	t.Cleanup(stop)
	return func() int {
		stop()
		return seen
	}
}

// TestDispatchTotal: dispatchers that share a total never have more executors together, have even shares however they
// come, go, are killed, scaled and paused, and do all jobs meanwhile.
func TestDispatchTotal(t *testing.T) {
	t.Parallel()
	for kind, declare := range map[string]*dispatch.Declare{
		"classic":      {Type: "direct", Arguments: map[string]any{"x-queue-type": "classic"}},
		"quorum":       {Type: "direct", Arguments: map[string]any{"x-queue-type": "quorum"}},
		"pseudo-queue": nil,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			testDispatchTotal(t, kind, declare)
		})
	}
}

func testDispatchTotal(t *testing.T, kind string, declare *dispatch.Declare) {
	e := newEnv(t)
	name := e.name("mail")
	exchange, keys := name+"_router", []string{"executors-total: 10", "declare: {exchange: " + name + "_router, arguments: {x-queue-type: " + kind + "}}"}
	server := *e
	if declare == nil {
		server.url = e.proxy(map[string]int{name: 4}).URL
		exchange, keys = name, keys[:1]
		declareSharded(t, confirming(t, server.url), name)
	} else {
		declare.Exchange = exchange
	}
	app := newApplication(t, func(_ http.ResponseWriter, r *http.Request, _ string, _ int) {
		select { // a job takes a while
		case <-time.After(20 * time.Millisecond):
		case <-r.Context().Done():
		}
	})
	j := &joint{t: t, app: app, job: dispatch.Job{
		Name: name, Server: dispatch.Server{Name: "test", URL: secret.String(server.url)}, Queue: name, Declare: declare,
		Executors: jointTotal, Total: jointTotal,
		Target:  target.Options{URL: app.URL, Method: "POST", Timeout: 10 * time.Second, Mode: target.Raw},
		Answers: target.Rules{AckWhen: target.Match{Statuses: []target.StatusRange{{From: 200, To: 299}}}},
		Retry:   dispatch.Retry{First: 100 * time.Millisecond, Most: time.Second, Then: dispatch.DeadLetter},
	}}
	j.join()
	j.shares("one has all", 0, jointTotal, jointTotal)
	most := watchConsumers(t, server.url, name)
	const jobs = 6000
	ch := confirming(t, server.url)
	for i := range jobs {
		key := "" // of the binding
		if declare == nil {
			key = fmt.Sprint(i)
		}
		_, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), exchange, key, true, false, text(fmt.Sprint(i)))
		require.NoError(t, err)
	}

	j.join()
	j.shares("two have half each", 0, 5, 5)
	other := runDispatch(t, totalConfig(&server, name, app.URL, keys))
	j.shares("three have a third each", 4, 3, 4)
	if kind == "classic" {
		awaitConsumers(t, &server, name, jointTotal)
	}
	require.NoError(t, other.Kill())
	j.shares("what a killed one had is with the others", 0, 5, 5)
	require.NoError(t, j.pools[1].Scale(2))
	j.shares("what one must not use is for the other", 0, 2, 8)
	other.start()
	j.shares("one that is back has its share", 6, 2, 5)
	j.pools[0].Pause(true)
	eventually(t, "one that is paused has none", func() string {
		if st := j.pools[0].Status(); st.Executors > 0 || st.Leases > 0 {
			return fmt.Sprintf("%+v", st)
		}
		return ""
	})
	j.pools[0].Pause(false)
	j.shares("one that goes on has its share", 6, 2, 5)
	require.NoError(t, j.pools[1].Scale(jointTotal))
	require.NoError(t, other.Signal(syscall.SIGTERM))
	code, err := other.Wait()
	require.NoError(t, err)
	require.Zero(t, code)
	j.shares("two have half each again", 0, 5, 5)
	j.stops[0]()
	j.pools = j.pools[1:]
	j.shares("the last has all", 0, jointTotal, jointTotal)

	eventually(t, "all jobs are done", func() string {
		if n, _ := app.distinct(); n < jobs {
			return fmt.Sprint(n)
		}
		return ""
	})
	_, calls := app.distinct()
	require.LessOrEqual(t, calls-jobs, jointTotal, "no more than the killed one had in hand comes again")
	require.LessOrEqual(t, app.most.Load(), int64(jointTotal), "requests at once")
	if kind == "classic" { // a quorum queue counts a cancelled consumer until what it has is acknowledged
		require.Equal(t, jointTotal, most(), "consumers at once")
	}
}

// totalConfig is jobConfig without a declaration of its own.
func totalConfig(e *env, name, url string, keys []string) string {
	return fmt.Sprintf(`dispatch:
  servers: {test: {url: %q}}
  jobs:
    - name: %s
      target: {url: %q}
      %s
`, e.url, name, url, strings.Join(keys, "\n      "))
}
