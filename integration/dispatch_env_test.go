package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/admin"
)

// adminToken is what withAdmin has the admin API want.
const adminToken = "the-token-of-the-tests"

// withAdmin has a configuration of jobs serve its admin API.
func withAdmin(config string) string {
	return fmt.Sprintf("admin: {address: \"127.0.0.1:0\", token: %s}\n%s", adminToken, config)
}

var jobsAddress = regexp.MustCompile(`serving jobs, .*"address": ?"([^"]+)"`)

// call asks the dispatcher's admin API, with its token, and reads the answer into into, unless that is nil.
func (d *dispatcher) call(method, path, body string, into any) (code int, text string) {
	d.t.Helper()
	var address []string
	eventually(d.t, "the admin listener's address", func() string {
		if address = jobsAddress.FindStringSubmatch(d.log.String()); address == nil {
			return "not in its log: " + d.log.String()
		}
		return ""
	})
	return callAdmin(d.t, "http://"+address[1], method, path, body, into)
}

func callAdmin(t *testing.T, base, method, path, body string, into any) (code int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, base+"/api/v1/jobs"+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+adminToken)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	octets, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	if into != nil {
		require.Equal(t, http.StatusOK, answer.StatusCode, string(octets))
		require.NoError(t, json.Unmarshal(octets, into), string(octets))
	}
	return answer.StatusCode, string(octets)
}

// status is how a job stands, by the admin API.
func (d *dispatcher) status(job string) (st admin.Job) {
	d.t.Helper()
	d.call(http.MethodGet, "/"+job, "", &st)
	return st
}

// reach waits until a job's status is as it should be, and returns it.
func (d *dispatcher) reach(job, what string, so func(admin.Job) bool) (st admin.Job) {
	d.t.Helper()
	eventually(d.t, what, func() string {
		code, text := d.call(http.MethodGet, "/"+job, "", nil)
		if code != http.StatusOK { // it has just been started
			return text
		}
		st = admin.Job{}
		require.NoError(d.t, json.Unmarshal([]byte(text), &st))
		if !so(st) {
			return text
		}
		return ""
	})
	return st
}

// scale sets a job's executors.
func (d *dispatcher) scale(job string, n int) {
	d.t.Helper()
	var st admin.Job
	d.call(http.MethodPost, "/"+job+"/scale", fmt.Sprintf(`{"executors": %d}`, n), &st)
	require.Equal(d.t, n, st.Wanted)
}

// says waits until the log has all these words in one line.
func (d *dispatcher) says(words ...string) {
	d.t.Helper()
	eventually(d.t, fmt.Sprintf("a line with %q in the log", words), func() string {
		for line := range strings.Lines(d.log.String()) {
			all := true
			for _, word := range words {
				all = all && strings.Contains(line, word)
			}
			if all {
				return ""
			}
		}
		return "there is none"
	})
}

// stop ends the dispatcher in order.
func (d *dispatcher) stop() {
	d.t.Helper()
	require.NoError(d.t, d.Signal(syscall.SIGTERM))
	code, err := d.Wait()
	require.NoError(d.t, err)
	require.Zero(d.t, code, d.log.String())
}

// configure replaces the configuration file, whole and at once, as a deployment does.
func (d *dispatcher) configure(text string) {
	d.t.Helper()
	fresh := d.file + ".new"
	require.NoError(d.t, os.WriteFile(fresh, []byte(text), 0o600))
	require.NoError(d.t, os.Rename(fresh, d.file))
}

// repeated is how many calls were of a job that had been done already.
func (a *application) repeated() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for body, times := range a.calls {
		n += len(times) - 1
		if strings.HasSuffix(body, "7") { // the first fails
			n -= min(len(times)-1, 1)
		}
	}
	return n
}

// await waits until a job was asked for so often.
func (a *application) await(t *testing.T, body string, times int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d calls of %.40q", times, body), func() string {
		if n := len(a.asked(body)); n < times {
			return fmt.Sprint(n)
		}
		return ""
	})
}

// numbered are n bodies.
func numbered(n int) (bodies []string) {
	for i := range n {
		bodies = append(bodies, fmt.Sprintf("job-%05d", i))
	}
	return bodies
}

// requireOnce requires that each of n jobs was asked for exactly once.
func (a *application) requireOnce(t *testing.T, n int) {
	t.Helper()
	jobs, calls := a.distinct()
	require.Equal(t, n, jobs, "jobs that were asked for")
	require.Equal(t, n, calls, "calls")
}

// deadLetters takes a job's dead letters out of their queue once there are so many.
func deadLetters(t *testing.T, e *env, job string, n int) (reasons map[string]map[string]any) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d dead letters of %s", n, job), func() string {
		conn := dial(t, e.url)
		defer conn.Close()
		q, err := channel(t, conn).QueueDeclarePassive(job+".dead", true, false, false, false, nil)
		if err != nil || q.Messages < n {
			return fmt.Sprintf("%d, %v", q.Messages, err)
		}
		return ""
	})
	reasons = map[string]map[string]any{}
	for _, d := range left(t, e, job+".dead") {
		reasons[string(d.Body)] = d.Headers
	}
	require.Len(t, reasons, n)
	return reasons
}

// emptied waits until the test's vhost has no messages, unacknowledged ones included, but what proxies keep there.
func (e *env) emptied() {
	e.t.Helper()
	eventuallyEvery(e.t, 100*time.Millisecond, "no messages are left", func() string {
		return strings.Trim(strings.Replace(e.messages(), `<<\"shardmq.state\">> 1; `, "", 1), `"`)
	})
}

// octets is a body of n octets of all values.
func octets(n int) []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return bytes.Repeat(all, n/256+1)[:n]
}
