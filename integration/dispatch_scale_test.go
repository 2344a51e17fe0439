package integration

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/admin"
)

// TestDispatchScaleLive: one executor becomes ten while it works. All ten work, no more, and each job is done once.
func TestDispatchScaleLive(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	name := e.name("mail")
	app := newApplication(t, func(http.ResponseWriter, *http.Request, string, int) { time.Sleep(time.Second) }) // the work
	d := runDispatch(t, withAdmin(jobConfig(e, name, app.URL, "executors: 1")))
	awaitConsumers(t, e, name, 1)
	publishDurably(t, confirming(t, e.url), name+"_router", numbered(100))
	eventually(t, "the first is done", func() string {
		if jobs, _ := app.distinct(); jobs < 2 {
			return fmt.Sprint(jobs)
		}
		return ""
	})
	require.EqualValues(t, 1, app.most.Load())
	code, _ := callAdminWithout(t, d, name)
	require.Equal(t, http.StatusUnauthorized, code, "without the token")
	began := time.Now()
	d.scale(name, 10)
	d.reach(name, "all are done", func(st admin.Job) bool { return st.Done == 100 })
	t.Logf("the other 98 took %s", time.Since(began))
	require.EqualValues(t, 10, app.most.Load(), "at once")
	d.stop()
	app.requireOnce(t, 100)
	require.Empty(t, left(t, e, name))
}

// callAdminWithout tries to scale a job without the token.
func callAdminWithout(t *testing.T, d *dispatcher, job string) (code int, text string) {
	t.Helper()
	d.status(job) // so that the address is there
	answer, err := http.Post("http://"+jobsAddress.FindStringSubmatch(d.log.String())[1]+"/api/v1/jobs/"+job+"/scale", "application/json", http.NoBody)
	require.NoError(t, err)
	defer answer.Body.Close()
	return answer.StatusCode, answer.Status
}

// TestDispatchScaleRandom: after each of many changes by the admin API, the executors that it tells of are consumers at
// the broker, and as many requests as that are in flight. On a pseudo-queue, those that have all that they may have at a
// time need not have a consumer.
func TestDispatchScaleRandom(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"queue", "pseudo-queue"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			e := newCtlEnv(t)
			name := e.name("mail")
			url, exchange := e.url, name+"_router"
			if kind != "queue" {
				url, exchange = e.proxy(map[string]int{name: 4}).URL, name
			}
			// One at a time is let go, when there are too many.
			release := make(chan struct{})
			app := newApplication(t, func(_ http.ResponseWriter, r *http.Request, _ string, _ int) {
				select {
				case <-release:
				case <-r.Context().Done():
				}
			})
			config := jobConfig(e, name, app.URL, "executors: 2", "timeout: 10m", "breaker: {failures: 0}")
			if kind != "queue" {
				config = fmt.Sprintf("dispatch:\n  servers: {test: {url: %q}}\n  jobs:\n    - {name: %s, timeout: 10m, target: {url: %q}, breaker: {failures: 0}}\n", url, name, app.URL)
			}
			ch := confirming(t, url)
			if kind != "queue" {
				declareSharded(t, ch, name)
			}
			d := runDispatch(t, withAdmin(config))
			d.reach(name, "two executors", func(st admin.Job) bool { return st.Executors == 2 })
			const n = 600
			for _, body := range numbered(n) {
				publish(t, ch, exchange, map[bool]string{true: "", false: body}[kind == "queue"], text(body))
			}
			for round := range 50 {
				want := rand.IntN(13)
				d.scale(name, want)
				eventually(t, fmt.Sprintf("round %d, %d executors", round, want), func() string {
					q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
					require.NoError(t, err)
					at, st := int(app.inFlight.Load()), d.status(name)
					if at > want {
						select {
						case release <- struct{}{}:
						default:
						}
					}
					few := kind != "queue" && q.Consumers < want
					if st.Executors != want || st.InFlight != want || at != want || q.Consumers != want && !few {
						return fmt.Sprintf("%d consumers, %d calls, %+v", q.Consumers, at, st)
					}
					return ""
				})
			}
			d.scale(name, 8)
			close(release)
			d.reach(name, "all are done", func(st admin.Job) bool { return st.Done == n })
			d.stop()
			app.requireOnce(t, n)
		})
	}
}
