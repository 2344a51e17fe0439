package integration

import (
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

// operator runs commands of "shardmq dispatch" for a dispatcher.
type operator struct {
	t      *testing.T
	binary string
	admin  string // the dispatcher's URL
}

// operate returns an operator of a dispatcher that has an admin address with a port of the system's choice.
func operate(t *testing.T, d *dispatcher) *operator {
	t.Helper()
	binary, err := rig.BuildProxy(t.Context())
	require.NoError(t, err)
	serving := regexp.MustCompile(`serving jobs, .*"address": "([^"]+)"`)
	var found []string
	eventually(t, "the admin listener", func() string {
		if found = serving.FindStringSubmatch(d.log.String()); found == nil {
			return "log: " + d.log.String()
		}
		return ""
	})
	return &operator{t: t, binary: binary, admin: "http://" + found[1]}
}

// run returns what a command prints and how it ends.
func (o *operator) run(token string, args ...string) (stdout, stderr string, code int) {
	o.t.Helper()
	cmd := exec.CommandContext(o.t.Context(), o.binary, append([]string{"dispatch"}, append(args, "--admin", o.admin)...)...)
	var out, bad strings.Builder
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "SHARDMQ_ADMIN_TOKEN="+token), &out, &bad
	if err := cmd.Run(); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		require.True(o.t, ok, err)
		code = exit.ExitCode()
	}
	return out.String(), bad.String(), code
}

// ok runs a command that works.
func (o *operator) ok(args ...string) string {
	o.t.Helper()
	stdout, stderr, code := o.run(adminToken, args...)
	require.Zero(o.t, code, "%v: %s", args, stderr)
	return stdout
}

// TestDispatchOperated: all that an operator can do with a running dispatcher does it.
func TestDispatchOperated(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	name := e.name("mail")
	var repaired atomic.Bool
	app := newApplication(t, func(w http.ResponseWriter, _ *http.Request, body string, _ int) {
		if strings.HasPrefix(body, "bad") && !repaired.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	d := runDispatch(t, "admin: {address: \"127.0.0.1:0\", token: "+adminToken+"}\n"+
		jobConfig(e, name, app.URL, "executors: 2", "retry: {max: 1}", "breaker: {failures: 0}"))
	o := operate(t, d)
	ch := confirming(t, e.url)
	awaitConsumers(t, e, name, 2)
	publishDurably(t, ch, name+"_router", []string{"bad-1", "good-1", "bad-2", "bad-3", "good-2"})

	idOf := map[int]string{}
	eventually(t, "three dead letters", func() string {
		lines := strings.Split(o.ok("dlq", "list", name), "\n")
		if len(lines) != 5 {
			return strings.Join(lines, "\n")
		}
		for i, line := range lines[1:4] {
			idOf[i], _, _ = strings.Cut(line, " ")
			require.Contains(t, line, "5xx")
		}
		return ""
	})
	_, stderr, code := o.run("wrong-token-00000", "dlq", "list", name)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "the process has another admin.token")
	repaired.Store(true)
	require.Equal(t, name+": 1 dead letter dropped\n", o.ok("dlq", "drop", name, "--id", idOf[0]))
	require.Equal(t, name+": 1 dead letter replayed\n", o.ok("dlq", "replay", name, "--id", idOf[1]))
	require.Equal(t, name+": 1 dead letter replayed\n", o.ok("dlq", "replay", name, "--all"))
	eventually(t, "those replayed are done", func() string {
		if _, calls := app.distinct(); calls != 5+2 {
			return o.ok("jobs")
		}
		return e.messages()
	})

	require.Contains(t, o.ok("pause", name), name+": paused")
	awaitConsumers(t, e, name, 0)
	publishDurably(t, ch, name+"_router", []string{"a", "b", "c", "d"})
	require.Contains(t, o.ok("jobs"), "paused")
	require.Equal(t, name+": 4 jobs purged\n", o.ok("purge", name, "--yes"))
	require.Equal(t, name+": 7 executors\n", o.ok("scale", name, "7"))
	require.Equal(t, name+": resumed with 7 executors\n", o.ok("resume", "test/"+name))
	awaitConsumers(t, e, name, 7)
	require.Equal(t, name+": drained and paused\n", o.ok("drain", name))
	awaitConsumers(t, e, name, 0)
	require.Empty(t, app.asked("a"))

	for path, want := range map[string]string{
		"/readyz": "ready\n", "/jobs": "<title>Jobs", "/metrics": `shardmq_dispatch_jobs_total{job="` + name + `",result="dead",server="test"} 3`,
	} {
		require.Contains(t, page(t, o.admin+path), want)
	}
	require.NoError(t, d.Signal(syscall.SIGTERM))
	code, err := d.Wait()
	require.NoError(t, err)
	require.Zero(t, code)
	_, stderr, code = o.run(adminToken, "jobs")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "nothing answers at "+o.admin+": ")
}

// page is what is at a URL.
func page(t *testing.T, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", body)
	return string(body)
}
