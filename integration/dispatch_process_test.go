package integration

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

// application is an HTTP endpoint that does jobs, and remembers how often each was asked for.
type application struct {
	*httptest.Server
	mu       sync.Mutex
	calls    map[string][]time.Time // by the job's body
	inFlight atomic.Int64
	most     atomic.Int64
	answer   func(w http.ResponseWriter, r *http.Request, body string, call int)
}

func newApplication(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, body string, call int)) *application {
	t.Helper()
	a := &application{calls: map[string][]time.Time{}, answer: answer}
	a.Server = httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(a.Close)
	return a
}

func (a *application) serve(w http.ResponseWriter, r *http.Request) {
	now := a.inFlight.Add(1)
	defer a.inFlight.Add(-1)
	for most := a.most.Load(); now > most && !a.most.CompareAndSwap(most, now); most = a.most.Load() {
	}
	octets, err := io.ReadAll(r.Body)
	if err != nil {
		return // it was cut
	}
	body := string(octets)
	a.mu.Lock()
	a.calls[body] = append(a.calls[body], time.Now())
	call := len(a.calls[body])
	a.mu.Unlock()
	a.answer(w, r, body, call)
}

// asked returns when a job was asked for.
func (a *application) asked(body string) []time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]time.Time(nil), a.calls[body]...)
}

// distinct is how many different jobs were asked for, and how many times in all.
func (a *application) distinct() (jobs, calls int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, times := range a.calls {
		calls += len(times)
	}
	return len(a.calls), calls
}

// dispatcher is a running "shardmq dispatch run".
type dispatcher struct {
	t    *testing.T
	file string
	*rig.Child
	log *lockedBuffer
}

// lockedBuffer is written by one and read by another.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// runDispatch starts "shardmq dispatch run" with a configuration, until the test ends.
func runDispatch(t *testing.T, config string) *dispatcher {
	t.Helper()
	d := &dispatcher{t: t, file: filepath.Join(t.TempDir(), "shardmq.yaml"), log: &lockedBuffer{}}
	require.NoError(t, os.WriteFile(d.file, []byte(config), 0o600))
	d.start()
	t.Cleanup(func() {
		require.NoError(t, d.Kill())
		if t.Failed() {
			t.Logf("log of the dispatcher:\n%s", d.log)
		}
		require.NotContains(t, d.log.String(), "DATA RACE")
	})
	return d
}

func (d *dispatcher) start() {
	d.t.Helper()
	binary, err := rig.BuildProxy(d.t.Context())
	require.NoError(d.t, err)
	cmd := exec.Command(binary, "dispatch", "run", "--config", d.file)
	cmd.Env, cmd.Stdout, cmd.Stderr = os.Environ(), d.log, d.log
	d.Child, err = rig.Launch(cmd)
	require.NoError(d.t, err)
}

// jobConfig is a configuration with one job, which is given the further keys.
func jobConfig(e *env, name, url string, keys ...string) string {
	return fmt.Sprintf(`dispatch:
  servers: {test: {url: %q}}
  jobs:
    - name: %s
      declare: {exchange: %s_router}
      target: {url: %q}
      %s
`, e.url, name, name, url, strings.Join(keys, "\n      "))
}

// TestDispatchKilled: a dispatcher that is killed again and again loses no job, and repeats no more than it had in hand.
func TestDispatchKilled(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	name := e.name("mail")
	app := newApplication(t, func(w http.ResponseWriter, _ *http.Request, body string, call int) {
		if strings.HasSuffix(body, "77") && call == 1 { // one in a hundred takes the way over the retry queue
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	const executors, kills = 16, 20
	n := 10_000
	d := runDispatch(t, jobConfig(e, name, app.URL, fmt.Sprintf("executors: %d", executors), "retry: {backoff: [100ms, 1s]}"))
	ch := confirming(t, e.url)
	awaitConsumers(t, e, name, executors)
	var bodies []string
	for i := range n {
		bodies = append(bodies, fmt.Sprintf("job-%05d", i))
	}
	publishDurably(t, ch, name+"_router", bodies)
	for kill := range kills {
		until := (kill + 1) * n / (kills + 2)
		eventually(t, fmt.Sprintf("%d jobs", until), func() string {
			if jobs, _ := app.distinct(); jobs < until {
				return fmt.Sprint(jobs)
			}
			return ""
		})
		require.NoError(t, d.Kill())
		d.start()
	}
	eventually(t, "all jobs are done", func() string { return e.messages() })
	require.NoError(t, d.Signal(syscall.SIGTERM))
	code, err := d.Wait()
	require.NoError(t, err)
	require.Zero(t, code)
	jobs, calls := app.distinct()
	require.Equal(t, n, jobs)
	repeated := calls - n - n/100
	t.Logf("%d jobs, %d repeated", jobs, repeated)
	require.LessOrEqual(t, repeated, kills*executors)
}

// awaitConsumers waits until a queue has so many consumers.
func awaitConsumers(t *testing.T, e *env, queue string, n int) {
	t.Helper()
	var ch *amqp.Channel
	eventually(t, fmt.Sprintf("%d consumers of %s", n, queue), func() string {
		if ch == nil || ch.IsClosed() {
			ch = eventuallyOpen(t, e.url)
		}
		if q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil); err != nil || q.Consumers != n {
			return fmt.Sprintf("%d, %v", q.Consumers, err)
		}
		return ""
	})
}

// messages are the queues of the test's vhost that hold any, unacknowledged ones included.
func (e *env) messages() string {
	e.t.Helper()
	out, err := e.broker.Eval(e.t.Context(), fmt.Sprintf(`[[rabbit_misc:format("~p ~p; ", [N, M]) || [{name, {resource, _, queue, N}}, {messages, M}] <-
		[rabbit_amqqueue:info(Q, [name, messages]) || Q <- rabbit_amqqueue:list(<<%q>>)], M > 0]]`, e.vhost))
	require.NoError(e.t, err)
	return strings.Trim(out, "[]")
}

// publishDurably publishes persistent messages and waits for their confirms.
func publishDurably(t *testing.T, ch *amqp.Channel, exchange string, bodies []string) {
	t.Helper()
	confirms := make([]*amqp.DeferredConfirmation, len(bodies))
	for i, body := range bodies {
		m := text(body)
		m.DeliveryMode = amqp.Persistent
		var err error
		confirms[i], err = ch.PublishWithDeferredConfirmWithContext(t.Context(), exchange, "", true, false, m)
		require.NoError(t, err)
	}
	for _, c := range confirms {
		acked, err := c.WaitContext(t.Context())
		require.NoError(t, err)
		require.True(t, acked)
	}
}

// TestDispatchAnswers: what each answer means in mode form, by how often the job is asked for and where it ends.
func TestDispatchAnswers(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	name := e.name("mail")
	hang := make(chan struct{})
	defer close(hang)
	answers := map[string]func(w http.ResponseWriter){
		"ok":     func(w http.ResponseWriter) { fmt.Fprint(w, "ok") },
		"OK":     func(w http.ResponseWriter) { fmt.Fprint(w, "OK") },
		"spaces": func(w http.ResponseWriter) { fmt.Fprint(w, " ok \n") },
		"ko":     func(w http.ResponseWriter) { fmt.Fprint(w, "ko") },
		"201": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, "ok")
		},
		"302": func(w http.ResponseWriter) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusFound)
		},
		"303": func(w http.ResponseWriter) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusSeeOther)
		},
		"500": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, "ok")
		},
		"502":   func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) },
		"reset": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"hang":  func(http.ResponseWriter) { <-hang },
	}
	done := map[string]bool{"ok": true, "OK": true, "spaces": true}
	app := newApplication(t, func(w http.ResponseWriter, r *http.Request, body string, _ int) {
		if r.URL.Path == "/elsewhere" {
			fmt.Fprint(w, "ok")
			return
		}
		answers[strings.TrimPrefix(body, "queueName="+name+"&bodyData=")](w)
	})
	runDispatch(t, jobConfig(e, name, app.URL, "executors: 4", "timeout: 500ms", "request: {mode: form}",
		"retry: {max: 2, backoff: [100ms, 100ms]}", "breaker: {failures: 0}"))
	awaitConsumers(t, e, name, 4)
	ch := confirming(t, e.url)
	var all []string
	for body := range answers {
		all = append(all, body)
	}
	publishDurably(t, ch, name+"_router", all)
	eventually(t, "dead letters", func() string {
		fresh := eventuallyOpen(t, e.url)
		if q, err := fresh.QueueDeclarePassive(name+".dead", true, false, false, false, nil); err != nil || q.Messages < len(answers)-len(done) {
			return fmt.Sprintf("%d, %v", q.Messages, err)
		}
		return ""
	})
	reasons := map[string]any{}
	for _, d := range left(t, e, name+".dead") {
		reasons[string(d.Body)] = d.Headers["x-dispatch-class"]
	}
	require.Equal(t, map[string]any{"ko": "refused", "201": "refused", "302": "refused", "303": "refused", "500": "5xx", "502": "5xx",
		"reset": "broken", "hang": "timeout"}, reasons)
	for body := range answers {
		times := app.asked("queueName=" + name + "&bodyData=" + body)
		if done[body] {
			require.Len(t, times, 1, body)
		} else {
			require.Len(t, times, 2, body)
		}
	}
	require.Empty(t, app.asked(""), "a redirect was followed")
}
