package integration

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/admin"
)

// TestDispatchTimeout: an endpoint that says nothing, and one that goes on saying a little, is given up when the time is
// over; the job comes again.
func TestDispatchTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	e := newCtlEnv(t)
	name := e.name("mail")
	var mu sync.Mutex
	lasted := map[string]time.Duration{}
	app := newApplication(t, func(w http.ResponseWriter, r *http.Request, body string, call int) {
		if call > 1 {
			return
		}
		began := time.Now()
		if body == "drips" {
			drip(r, w)
		}
		<-r.Context().Done()
		mu.Lock()
		defer mu.Unlock()
		lasted[body] = time.Since(began)
	})
	d := runDispatch(t, withAdmin(jobConfig(e, name, app.URL, "executors: 2", "timeout: 2s", "retry: {backoff: [100ms, 100ms]}")))
	awaitConsumers(t, e, name, 2)
	publishDurably(t, confirming(t, e.url), name+"_router", []string{"hangs", "drips"})
	st := d.reach(name, "both are done", func(st admin.Job) bool { return st.Done == 2 })
	require.EqualValues(t, 2, st.Attempts["timeout"], "%v", st.Attempts)
	for _, f := range st.Failures {
		require.GreaterOrEqual(t, f.Took, timeout.Seconds())
		require.Less(t, f.Took, 3*timeout.Seconds()) // 0.3 s are enough where nothing else runs
	}
	d.stop()
	mu.Lock()
	defer mu.Unlock()
	for body, took := range lasted {
		t.Logf("an endpoint that %s saw the end after %s", body, took)
		require.Less(t, took, 3*timeout)
	}
	require.Len(t, lasted, 2, "the connections were kept")
	jobs, calls := app.distinct()
	require.Equal(t, []int{2, 4}, []int{jobs, calls})
}

// drip answers an octet at a time, until the request ends.
func drip(r *http.Request, w http.ResponseWriter) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			fmt.Fprint(w, ".")
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// TestDispatchLeaveAlone: while an endpoint asks to be left alone it is not asked for anything, no matter how many jobs
// there are and in which form it says so; and no longer than the configuration allows. No job loses an attempt by it.
func TestDispatchLeaveAlone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		after  func(now time.Time) (header string, until time.Time)
		most   string
	}{
		"seconds": {http.StatusTooManyRequests, func(now time.Time) (string, time.Time) { return "5", now.Add(5 * time.Second) }, "1m"},
		"date": {http.StatusServiceUnavailable, func(now time.Time) (string, time.Time) {
			at := now.Add(4 * time.Second).Truncate(time.Second)
			return at.UTC().Format(http.TimeFormat), at
		}, "1m"},
		"too much": {http.StatusTooManyRequests, func(now time.Time) (string, time.Time) { return "86400", now.Add(time.Second) }, "1s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newCtlEnv(t)
			name := e.name("mail")
			var mu sync.Mutex
			var until time.Time
			var early []time.Duration
			calls := 0
			app := newApplication(t, func(w http.ResponseWriter, _ *http.Request, _ string, _ int) {
				mu.Lock()
				defer mu.Unlock()
				now := time.Now()
				if calls++; calls == 1 {
					var header string
					header, until = test.after(now)
					w.Header().Set("Retry-After", header)
					w.WriteHeader(test.status)
				} else if now.Before(until) {
					early = append(early, until.Sub(now))
				}
			})
			d := runDispatch(t, withAdmin(jobConfig(e, name, app.URL, "executors: 1", "prefetch: 20",
				"retry: {max: 2, backoff: [100ms, 100ms], retry-after-max: "+test.most+"}")))
			awaitConsumers(t, e, name, 1)
			publishDurably(t, confirming(t, e.url), name+"_router", numbered(50))
			d.reach(name, "it is held", func(st admin.Job) bool { return st.Held != nil && st.Executors == 0 || st.Done > 0 })
			st := d.reach(name, "all are done", func(st admin.Job) bool { return st.Done == 50 })
			require.Zero(t, st.Dead)
			require.Empty(t, early, "calls before the time")
			d.stop()
			_, all := app.distinct()
			require.Equal(t, 51, all)
		})
	}
}

// TestDispatchUnreachable: while an endpoint cannot be reached, jobs are not tried in vain: once it can be, all are done,
// with few attempts for each.
func TestDispatchUnreachable(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	name := e.name("mail")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	// It listens and does not answer: whoever connects is hung up on.
	hungUp := make(chan struct{})
	works := make(chan struct{})
	app := &application{calls: map[string][]time.Time{}, answer: func(http.ResponseWriter, *http.Request, string, int) {}}
	app.Server = httptest.NewUnstartedServer(http.HandlerFunc(app.serve))
	require.NoError(t, app.Listener.Close())
	app.Listener = &doorman{Listener: listener, open: works, turnedAway: hungUp}
	app.Start()
	t.Cleanup(app.Close)
	d := runDispatch(t, withAdmin(jobConfig(e, name, app.URL, "executors: 4", "retry: {max: 10, backoff: [100ms, 100ms]}", "breaker: {failures: 3, open: 500ms}")))
	awaitConsumers(t, e, name, 4)
	publishDurably(t, confirming(t, e.url), name+"_router", numbered(60))
	d.reach(name, "the breaker is open", func(st admin.Job) bool { return st.Breaker == "open" && st.Executors == 0 && st.InFlight == 0 })
	for range 4 {
		wait(t, "a further try", hungUp)
	}
	close(works)
	st := d.reach(name, "all are done", func(st admin.Job) bool { return st.Done == 60 })
	require.Zero(t, st.Dead)
	require.Equal(t, "closed", st.Breaker)
	d.stop()
	app.requireOnce(t, 60)
}

// doorman turns away who comes too early.
type doorman struct {
	net.Listener
	open       <-chan struct{}
	turnedAway chan<- struct{}
}

func (d *doorman) Accept() (net.Conn, error) {
	for {
		conn, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case <-d.open:
			return conn, nil
		default:
			_ = conn.Close()
		}
		select {
		case d.turnedAway <- struct{}{}:
		default:
		}
	}
}

// TestDispatchDeadLetters: a job that always fails is tried as often as the configuration says, with the delays that it
// says, and is then a dead letter with the reasons, which is listed, replayed and dropped by the admin API.
func TestDispatchDeadLetters(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	name := e.name("mail")
	app := newApplication(t, func(w http.ResponseWriter, _ *http.Request, body string, call int) {
		if !strings.HasPrefix(body, "replayed") || call <= 3 {
			http.Error(w, "no such mailbox", http.StatusBadGateway)
		}
	})
	d := runDispatch(t, withAdmin(jobConfig(e, name, app.URL, "executors: 2", "retry: {max: 3, backoff: [400ms, 1s]}", "breaker: {failures: 0}")))
	awaitConsumers(t, e, name, 2)
	bodies := []string{"replayed", "dropped", "stays"}
	ch := confirming(t, e.url)
	for _, body := range bodies {
		m := text(body)
		m.MessageId = "id-" + body
		publish(t, ch, name+"_router", "", m)
	}
	d.reach(name, "all are dead", func(st admin.Job) bool { return st.Dead == 3 })
	for _, body := range bodies {
		times := app.asked(body)
		require.Len(t, times, 3, body)
		require.GreaterOrEqual(t, times[1].Sub(times[0]), 300*time.Millisecond)
		require.GreaterOrEqual(t, times[2].Sub(times[1]), 600*time.Millisecond)
	}
	var list admin.Letters
	d.call(http.MethodGet, "/"+name+"/dead?bodies=true", "", &list)
	require.Len(t, list.Letters, 3)
	for _, l := range list.Letters {
		require.Equal(t, "id-"+string(l.Body), l.ID)
		require.Equal(t, []any{"HTTP 502 Bad Gateway", "5xx", 502, 3, name + "_router"}, []any{l.Reason, l.Class, l.Status, l.Attempts, l.Exchange})
	}
	var settled admin.Settled
	d.call(http.MethodPost, "/"+name+"/dead/replay", `{"id": "id-replayed"}`, &settled)
	require.Equal(t, 1, settled.Letters)
	d.reach(name, "it is done", func(st admin.Job) bool { return st.Done == 1 })
	require.Len(t, app.asked("replayed"), 4)
	d.call(http.MethodPost, "/"+name+"/dead/drop", `{"id": "id-dropped"}`, &settled)
	require.Equal(t, 1, settled.Letters)
	code, _ := d.call(http.MethodPost, "/"+name+"/dead/drop", `{"id": "id-dropped"}`, nil)
	require.Equal(t, http.StatusNotFound, code)
	d.stop()
	headers := deadLetters(t, e, name, 1)["stays"]
	require.Equal(t, "id-stays", headers["x-dispatch-id"])
	require.EqualValues(t, 3, headers["x-dispatch-attempt"])
	e.emptied()
}
