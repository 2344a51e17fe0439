package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/admin"
	"github.com/shardmq/shardmq/integration/rig"
)

// TestDispatchTerminated: SIGTERM in the middle of the work, again and again: what is in flight is finished, the rest goes
// back, and no job is done twice or lost.
func TestDispatchTerminated(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	name := e.name("mail")
	app := newApplication(t, func(http.ResponseWriter, *http.Request, string, int) { time.Sleep(10 * time.Millisecond) }) // the work
	d := runDispatch(t, jobConfig(e, name, app.URL, "executors: 8", "prefetch: 64"))
	awaitConsumers(t, e, name, 8)
	const n = 500
	publishDurably(t, confirming(t, e.url), name+"_router", numbered(n))
	stops := 0
	for before := 0; before < n; before, _ = app.distinct() {
		eventually(t, "it works", func() string {
			if jobs, _ := app.distinct(); jobs < min(before+30, n) {
				return fmt.Sprint(jobs)
			}
			return ""
		})
		d.stop()
		require.Zero(t, app.inFlight.Load(), "a request was given up")
		stops++
		d.start()
	}
	require.Greater(t, stops, 2)
	awaitConsumers(t, e, name, 8)
	e.emptied()
	d.stop()
	app.requireOnce(t, n)
}

// TestDispatchBrokerComesAndGoes: a broker that is not there at the start, and one that is killed later, is waited for.
// Every job is done, those that wait for another attempt as well.
func TestDispatchBrokerComesAndGoes(t *testing.T) {
	t.Parallel()
	e := newNodeEnv(t, rig.NodeOptions{})
	require.NoError(t, e.broker.Shutdown())
	app := newApplication(t, func(w http.ResponseWriter, _ *http.Request, body string, call int) {
		if strings.HasSuffix(body, "7") && call == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
		time.Sleep(5 * time.Millisecond) // the work
	})
	d := runDispatch(t, withAdmin(jobConfig(e, "mail", app.URL, "executors: 4", "retry: {backoff: [1s, 1s]}", "breaker: {failures: 0}")))
	d.says("no jobs are fetched", `connect to server \"test\"`)
	require.False(t, d.status("mail").Connected)
	require.NoError(t, e.broker.Restart(t.Context()))
	d.reach("mail", "executors", func(st admin.Job) bool { return st.Connected && st.Executors == 4 })

	const n = 600
	publishDurably(t, confirming(t, e.url), "mail_router", numbered(n))
	eventually(t, "some are done", func() string {
		if jobs, _ := app.distinct(); jobs < n/4 {
			return fmt.Sprint(jobs)
		}
		return ""
	})
	require.NoError(t, e.broker.Kill())
	d.reach("mail", "it is noticed", func(st admin.Job) bool { return !st.Connected && st.Executors == 0 && st.InFlight == 0 })
	jobs, _ := app.distinct()
	require.Less(t, jobs, n, "all were done before")
	require.Zero(t, app.repeated())
	require.NoError(t, e.broker.Restart(t.Context()))
	d.reach("mail", "executors", func(st admin.Job) bool { return st.Executors == 4 })
	e.emptied()
	d.stop()
	jobs, _ = app.distinct() // killed, a classic queue may forget what was acknowledged: then it is done again
	require.Equal(t, n, jobs)
}

// TestDispatchQueueDeleted: a queue that is deleted is declared again, if that is the job's, and else waited for.
func TestDispatchQueueDeleted(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	ours, others := e.name("mail"), e.name("thumbs")
	app := newApplication(t, func(http.ResponseWriter, *http.Request, string, int) {})
	d := runDispatch(t, withAdmin(jobConfig(e, ours, app.URL)+fmt.Sprintf("    - {name: %s, target: {url: %q}}\n", others, app.URL)))
	d.says("no jobs are fetched", others, "NOT_FOUND")
	ch := confirming(t, e.url)
	_, err := ch.QueueDeclare(others, true, false, false, false, nil)
	require.NoError(t, err)
	for round := range 2 {
		awaitConsumers(t, e, ours, 2)
		awaitConsumers(t, e, others, 2)
		job := fmt.Sprint("job ", round)
		publishDurably(t, ch, ours+"_router", []string{job})
		publish(t, ch, "", others, text("other "+job))
		app.await(t, job, 1)
		app.await(t, "other "+job, 1)
		for _, queue := range []string{ours, others} {
			_, err := ch.QueueDelete(queue, false, false, false)
			require.NoError(t, err)
		}
		d.says("no jobs are fetched", ours, "cancelled by the broker")
		d.reach(others, "it is noticed", func(st admin.Job) bool { return st.Executors == 0 })
		_, err := ch.QueueDeclare(others, true, false, false, false, nil)
		require.NoError(t, err)
	}
	d.stop()
	app.requireOnce(t, 4)
}

// TestDispatchRights: a user that loses a right, and a connection that the operator closes: the log says which right is
// missing, nothing is lost, and work goes on once there is the right again.
func TestDispatchRights(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	name := e.name("mail")
	app := newApplication(t, func(w http.ResponseWriter, _ *http.Request, body string, call int) {
		if strings.HasSuffix(body, "0") && call == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
		time.Sleep(5 * time.Millisecond) // the work
	})
	limited := *e
	limited.url = e.user(e.url, ".*", ".*", ".*")
	user := "user-of-" + e.vhost
	d := runDispatch(t, withAdmin(jobConfig(&limited, name, app.URL, "retry: {backoff: [100ms, 100ms]}", "breaker: {failures: 0}")))
	const n, rounds = 200, 3
	awaitConsumers(t, e, name, 2)
	publishDurably(t, confirming(t, e.url), name+"_router", numbered(n))
	for round, rights := range [rounds][3]string{
		{".*", ".*", ".*"},                       // the connection is closed, and that is all
		{".*", ".*", "^$"},                       // it may not read
		{"^" + name + "(_router)?$", ".*", ".*"}, // it may not declare the queues beside the job's
	} {
		app.await(t, fmt.Sprintf("job-%05d", (round+1)*n/(rounds+2)), 1)
		e.ctl("set_permissions", "-p", e.vhost, user, rights[0], rights[1], rights[2])
		e.closeConnectionsOf(user)
		d.says("no jobs are fetched", "time for tea")
		if round > 0 {
			d.says("no jobs are fetched", "ACCESS_REFUSED", []string{"", "access to exchange '" + name + "_router'", "access to queue '" + name + ".due'"}[round])
			e.ctl("set_permissions", "-p", e.vhost, user, ".*", ".*", ".*")
		}
		d.reach(name, "executors", func(st admin.Job) bool { return st.Executors == 2 })
	}
	e.emptied()
	d.stop()
	jobs, calls := app.distinct()
	require.Equal(t, n, jobs)
	require.LessOrEqual(t, calls-n-n/10, rounds*2, "no more are repeated than were in flight")
}

// TestDispatchAckTimeout: a job that takes longer than the broker lets it be unacknowledged comes again; the log says why,
// and nothing is lost.
func TestDispatchAckTimeout(t *testing.T) {
	t.Parallel()
	e := newNodeEnv(t, rig.NodeOptions{})
	_, err := e.broker.Eval(t.Context(), "ok = application:set_env(rabbit, consumer_timeout, 2000), ok = application:set_env(rabbit, channel_tick_interval, 200)")
	require.NoError(t, err)
	again := make(chan struct{})
	app := newApplication(t, func(_ http.ResponseWriter, r *http.Request, body string, call int) {
		switch {
		case body == "slow" && call == 1:
			select {
			case <-again:
			case <-r.Context().Done():
			}
		case body == "slow":
			close(again)
		}
	})
	d := runDispatch(t, withAdmin(jobConfig(e, "mail", app.URL)))
	awaitConsumers(t, e, "mail", 2)
	publishDurably(t, confirming(t, e.url), "mail_router", append(numbered(20), "slow"))
	app.await(t, "slow", 2)
	d.says("no jobs are fetched", "PRECONDITION_FAILED", "timed out")
	st := d.reach("mail", "all are done", func(st admin.Job) bool { return st.Done == 21 && st.Repeated == 1 && st.InFlight == 0 })
	require.Zero(t, st.Retried+st.Dead)
	e.emptied()
	d.stop()
	jobs, calls := app.distinct()
	require.Equal(t, []int{21, 22}, []int{jobs, calls})
}
