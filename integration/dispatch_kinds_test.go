package integration

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/admin"
	"github.com/shardmq/shardmq/integration/rig"
)

// TestDispatchQuorum: on each release, a job in a quorum queue fails more often than quorum queues deliver a message, and
// is done in the end; another one that can never be done is a dead letter with the reasons.
func TestDispatchQuorum(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		e := newNodeEnv(t, rig.NodeOptions{Version: version})
		const failures = 30
		app := newApplication(t, func(w http.ResponseWriter, _ *http.Request, body string, call int) {
			switch {
			case body == "bad":
				w.WriteHeader(http.StatusUnprocessableEntity)
			case body == "hard" && call <= failures:
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		d := runDispatch(t, withAdmin(fmt.Sprintf(`dispatch:
  servers: {test: {url: %q}}
  jobs:
    - name: mail
      declare: {exchange: mail_router, arguments: {x-queue-type: quorum}}
      target: {url: %q}
      dead-letter-when: {status: [422]}
      retry: {max: unlimited, backoff: [100ms, 100ms]}
      breaker: {failures: 0}
`, e.url, app.URL)))
		awaitConsumers(t, e, "mail", 2)
		publishDurably(t, confirming(t, e.url), "mail_router", []string{"easy", "hard", "bad"})
		st := d.reach("mail", "all are settled", func(st admin.Job) bool { return st.Done == 2 && st.Dead == 1 })
		require.EqualValues(t, failures, st.Retried)
		require.Len(t, app.asked("hard"), failures+1)
		dead := deadLetters(t, e, "mail", 1)["bad"]
		require.Equal(t, []any{"mail", "4xx", int64(422), int64(1)},
			[]any{dead["x-dispatch-job"], dead["x-dispatch-class"], dead["x-dispatch-status"], dead["x-dispatch-attempt"]})
		require.Contains(t, dead["x-dispatch-reason"], "422 Unprocessable Entity")
		for _, queue := range []string{"mail", "mail.due", "mail.dead"} {
			_, err := open(t, e.url).QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "classic"})
			require.ErrorContains(t, err, "quorum", queue)
		}
		d.stop()
		e.emptied()
	})
}

// TestDispatchPseudoQueue: three executors cover a pseudo-queue of eight shards, and jobs that are tried again are done as
// well. "shardmq proxy" does what "shardmq dispatch run" does, by its own listener too.
func TestDispatchPseudoQueue(t *testing.T) {
	t.Parallel()
	for _, process := range []string{"dispatch run", "proxy"} {
		t.Run(process, func(t *testing.T) {
			t.Parallel()
			e := newCtlEnv(t)
			name := e.name("images")
			app := newApplication(t, func(w http.ResponseWriter, _ *http.Request, body string, call int) {
				if strings.HasSuffix(body, "3") && call == 1 {
					w.WriteHeader(http.StatusInternalServerError)
				}
			})
			port, err := rig.FreePort()
			require.NoError(t, err)
			address := fmt.Sprintf("127.0.0.1:%d", port)
			jobs := func(url string) string {
				return fmt.Sprintf(`dispatch:
  servers: {test: {url: %q}}
  jobs:
    - {name: %s, executors: 3, prefetch: %d, target: {url: %q}, retry: {backoff: [100ms, 100ms]}}
`, url, name, map[string]int{"proxy": 3, "dispatch run": 24}[process], app.URL)
			}
			var p *rig.Proxy
			config := e.config(e.broker.Addr, e.policy(name, 8, ""))
			if process == "proxy" {
				config = strings.Replace(config, "127.0.0.1:0", address, 1) + jobs(withHost(t, e.url, address))
			}
			p = e.start(rig.ProxyOptions{Upstream: e.url, Config: config})
			eventually(t, "a sharded exchange", func() string { // on a slow machine, the broker may not have been asked all
				conn := dial(t, p.URL)
				defer conn.Close()
				if err := channel(t, conn).ExchangeDeclare(name, modulusHash, true, false, false, false, nil); err != nil {
					return err.Error()
				}
				return ""
			})
			ch := confirming(t, p.URL)
			if process != "proxy" {
				runDispatch(t, jobs(p.URL))
			}
			if process != "proxy" { // there, the prefetch is less than one for each shard: they are taken in turns
				e.probe(name, 8).waitConsumers(1, 1, 1, 1, 1, 1, 1, 1)
			}
			const n = 400
			for _, body := range numbered(n) {
				publish(t, ch, name, body, text(body))
			}
			app.await(t, "job-00393", 2)
			e.emptied()
			jobsDone, calls := app.distinct()
			require.Equal(t, []int{n, n + n/10}, []int{jobsDone, calls})
			require.LessOrEqual(t, app.most.Load(), int64(3))
		})
	}
}

// TestDispatchBesideStops: a proxy that is stopped while it dispatches by its own listener finishes what is in flight before
// that goes; the next one does the rest, and no job is done twice.
func TestDispatchBesideStops(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	name := e.name("mail")
	app := newApplication(t, func(http.ResponseWriter, *http.Request, string, int) { time.Sleep(20 * time.Millisecond) }) // the work
	port, err := rig.FreePort()
	require.NoError(t, err)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	config := strings.Replace(e.config(e.broker.Addr, e.policy("images", 2, "")), "127.0.0.1:0", address, 1)
	here := *e
	here.url = withHost(t, e.url, address)
	o := rig.ProxyOptions{Upstream: e.url, Config: config + jobConfig(&here, name, app.URL, "executors: 4", "prefetch: 20")}
	const n = 200
	var p *rig.Proxy
	for before := 0; before < n; before, _ = app.distinct() {
		p = e.start(o)
		if before == 0 {
			awaitConsumers(t, e, name, 4)
			publishDurably(t, confirming(t, e.url), name+"_router", numbered(n))
		}
		eventually(t, "it works", func() string {
			if jobs, _ := app.distinct(); jobs < min(before+n/4, n) {
				return fmt.Sprint(jobs)
			}
			return ""
		})
		code, err := p.Stop()
		require.NoError(t, err)
		require.Zero(t, code)
		require.Zero(t, app.inFlight.Load(), "a request was given up")
		require.NotContains(t, p.Logs(), "goes back when the connection ends")
	}
	e.emptied()
	app.requireOnce(t, n)
}

// TestDispatchImported: what is imported from a job.xml of Consumer Dispatcher runs, with the executors that it says and
// the same exchanges, queues and bindings, and asks the same endpoints.
func TestDispatchImported(t *testing.T) {
	t.Parallel()
	e := newNodeEnv(t, rig.NodeOptions{})
	_, err := e.broker.Eval(t.Context(), `ok = rabbit_vhost:add(<<"/media">>, <<"rig">>),
		ok = rabbit_auth_backend_internal:set_permissions(<<"guest">>, <<"/media">>, <<".*">>, <<".*">>, <<".*">>, <<"rig">>)`)
	require.NoError(t, err)
	var mu sync.Mutex
	var asked []string
	app := newApplication(t, func(w http.ResponseWriter, r *http.Request, body string, _ int) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.Host+" "+r.RequestURI+" "+body)
		fmt.Fprint(w, "ok")
	})
	example, err := os.ReadFile("../dispatch/jobxml/testdata/job-example.xml")
	require.NoError(t, err)
	port, err := rig.FreePort()
	require.NoError(t, err)
	_, brokerPort, _ := strings.Cut(e.broker.Addr, ":")
	dir := t.TempDir()
	file := filepath.Join(dir, "job.xml")
	require.NoError(t, os.WriteFile(file, []byte(strings.NewReplacer(`port="5672"`, `port="`+brokerPort+`"`, "http://127.0.0.1:8895", app.URL,
		`httpPort="8891"`, fmt.Sprintf(`httpPort="%d"`, port)).Replace(string(example))), 0o600))
	config, code := shardmq(t, "dispatch", "import", "--passwords", file)
	require.Zero(t, code)
	runDispatch(t, config)

	media := withVhost(t, e.url, "/media")
	total := 0
	for _, q := range []struct {
		url, queue, exchange, kind string
		consumers                  int
		want                       string
	}{
		{e.url, "text_mail_q", "text_mail_x", "direct", 3, "mail.example.test /mail/send?source=cd queueName=text_mail"},
		{e.url, "bounce_mail", "bounce_mail_router", "direct", 2, "default.example.test /consumerDispatch/ queueName=bounce_mail"},
		{media, "thumb", "uploads", "fanout", 1, "default.example.test /consumerDispatch/ queueName=thumb"},
		{media, "audit", "audit_topic", "topic", 1, "default.example.test /consumerDispatch/ queueName=audit"},
		{e.url, "child_q", "child_style_router", "direct", 1, "default.example.test /child queueName=child_style"},
		{e.url, "uses_conf_retry", "uses_conf_retry_router", "direct", 1, "default.example.test /consumerDispatch/ queueName=uses_conf_retry"},
		{e.url, "count_zero", "count_zero_router", "direct", 2, "default.example.test /consumerDispatch/ queueName=count_zero"},
		{media, "bounce_mail", "bounce_mail_router", "direct", 1, "default.example.test /consumerDispatch/ queueName=bounce_mail"},
	} {
		at := *e
		at.url = q.url
		awaitConsumers(t, &at, q.queue, q.consumers)
		total += q.consumers
		ch := confirming(t, q.url)
		require.NoError(t, ch.ExchangeDeclare(q.exchange, q.kind, true, false, false, false, nil), "as it is already")
		body := fmt.Sprint("body", total) // of this one alone
		publish(t, ch, q.exchange, "", text(body))
		want := q.want + "&bodyData=" + body
		eventually(t, want, func() string {
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(asked, want) {
				return strings.Join(asked, "\n")
			}
			return ""
		})
	}
	require.Equal(t, 12, total)
	for vhost, n := range map[string]int{"/": 5, "/media": 3} {
		out, err := e.broker.Eval(t.Context(), fmt.Sprintf(`length([B || B <- rabbit_binding:list(<<%q>>),
			element(4, element(2, B)) =/= <<>>])`, vhost))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(n), strings.TrimSpace(out), "bindings in %s", vhost)
	}
}
