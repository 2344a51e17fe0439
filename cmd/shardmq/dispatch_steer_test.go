package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/admin"
	"github.com/shardmq/shardmq/dispatch"
)

func TestDispatchJobs(t *testing.T) {
	s := steer(t)
	t.Setenv(tokenVariable, "") // it is not needed
	require.Equal(t, `JOB             SERVER  STATE          EXECUTORS  IN FLIGHT  BACKLOG  DONE  RETRIED  DROPPED  DEAD  P50     P95    P99
text_mail       mail    running        2 of 3     1          12       10    4        1        2     1.23ms  200ms  1.5s
"odd/\x1b[31m"  media   not connected  0          0          ?        0     0        0        0     -       -      -
`, s.ok("jobs"))
	var all struct{ Jobs []admin.Job }
	require.NoError(t, json.Unmarshal([]byte(s.ok("jobs", "--output", "json")), &all))
	require.Len(t, all.Jobs, 2)
	require.Equal(t, 12, *all.Jobs[0].Backlog)

	for want, with := range map[string]func(*dispatch.Status){
		"not connected":     func(st *dispatch.Status) { st.Connected = false },
		"paused":            func(st *dispatch.Status) { st.Paused, st.Breaker = true, "open" },
		"breaker open":      func(st *dispatch.Status) { st.Breaker = "open" },
		"breaker half-open": func(st *dispatch.Status) { st.Breaker = "half-open" },
		"held until " + time.Unix(1e9, 0).Format(time.TimeOnly): func(st *dispatch.Status) { st.Held, st.Breaker = time.Unix(1e9, 0), "half-open" },
	} {
		before := s.all[0]
		with(&s.all[0])
		require.Contains(t, s.ok("jobs"), "  "+want+"  ")
		s.all[0] = before
	}
}

func TestDispatchSteering(t *testing.T) {
	s := steer(t)
	require.Equal(t, "text_mail: 1 executor\n", s.ok("scale", "text_mail", "1"))
	require.Equal(t, 1, s.all[0].Wanted)
	require.Equal(t, "\"odd/\\x1b[31m\": 9 executors\n", s.ok("scale", "media/odd/\x1b[31m", "9"))
	require.Equal(t, "text_mail: paused, with 1 in flight\n", s.ok("pause", "text_mail"))
	require.True(t, s.all[0].Paused)
	require.Equal(t, "text_mail: resumed with 1 executor\n", s.ok("resume", "mail/text_mail"))
	require.False(t, s.all[0].Paused)
	require.Equal(t, "text_mail: 7 jobs purged\n", s.ok("purge", "text_mail", "--yes"))

	r := s.run("drain", "text_mail", "--timeout", "1ms")
	require.Equal(t, 1, r.code)
	require.Equal(t, "shardmq: text_mail: not drained within 1ms; it is paused, see: shardmq dispatch jobs\n", r.stderr)
	require.NoError(t, s.change("mail/text_mail", func(st *dispatch.Status) { st.InFlight = 0 })) // the process may still look
	require.Equal(t, "text_mail: drained and paused\n", s.ok("drain", "text_mail"))
	require.True(t, s.all[0].Paused)

	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(adminToken+"\n"), 0o600))
	t.Setenv(tokenVariable, "another one, that the file stands before")
	require.Equal(t, "text_mail: 5 executors\n", s.ok("scale", "text_mail", "5", "--token-file", file))
	require.Equal(t, "text_mail: 6 executors\n", s.ok("scale", "text_mail", "6", "--token-file", file, "--admin", strings.TrimPrefix(s.url, "http://")))
}

// A process that waits for a while only is asked again.
func TestDispatchDrainAsksAgain(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked < 3 {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusGatewayTimeout)
			fmt.Fprint(w, `{"status": 504, "detail": "ask again"}`)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"name": "x", "letters": 4, "more": `, asked == 3, `}`)
	}))
	defer server.Close()
	t.Setenv(tokenVariable, adminToken)
	s := &steered{t: t, url: server.URL}
	require.Equal(t, "x: drained and paused\n", s.ok("drain", "x"))
	require.Equal(t, 3, asked)
	asked = 2
	require.Equal(t, "x: 8 dead letters dropped\n", s.ok("dlq", "drop", "x", "--all"))
}

func TestDispatchDeadLetters(t *testing.T) {
	s := steer(t)
	at := time.Unix(1e9, 0).Format(time.DateTime)
	lines := strings.Split(s.ok("dlq", "list", "text_mail"), "\n")
	require.Len(t, lines, 5)
	require.Equal(t, []string{"one", at[:10], at[11:], "3", "5xx", "500", "5", "too", "many", "attempts"}, strings.Fields(lines[1]))
	require.True(t, strings.HasPrefix(lines[2], `"\x1b[2J" `), lines[2])
	r := s.run("dlq", "list", "text_mail", "--limit", "2")
	require.Equal(t, "there are more than these 2; see --limit\n", r.stderr)
	var all admin.Letters
	require.NoError(t, json.Unmarshal([]byte(s.ok("dlq", "list", "text_mail", "--bodies", "--output", "json", "--id", "one")), &all))
	require.Len(t, all.Letters, 1)
	require.Equal(t, "first", string(all.Letters[0].Body))

	require.Equal(t, "text_mail: 1 dead letter replayed\n", s.ok("dlq", "replay", "text_mail", "--id", "\x1b[2J"))
	require.Equal(t, "text_mail: 2 dead letters dropped\n", s.ok("dlq", "drop", "text_mail", "--all"))
	require.Equal(t, "text_mail: 0 dead letters replayed\n", s.ok("dlq", "replay", "text_mail", "--all"))
}

func TestDispatchSteeringFails(t *testing.T) {
	s := steer(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "\n", "wrong": "0000000000000000", "two": "a b", "long": strings.Repeat("x", longestToken+1)} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	before := slices.Clone(s.all)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"scale text_mail", 2, `expected "<n>"`},
		{"scale text_mail many", 2, "many"},
		{"scale text_mail 1001", 2, "N: is 1001; give a number from 0 to 1000\n"},
		{"scale none 1", 1, `there is no job "none"; GET /api/v1/jobs lists them`},
		{"pause", 2, `expected "<job>"`},
		{"purge text_mail", 2, "all that waits of text_mail would be gone for good; add --yes if that is meant\n"},
		{"drain text_mail --timeout 0s", 2, "--timeout: is 0s; give a duration above zero, such as 30s\n"},
		{"dlq drop text_mail", 2, "say which dead letters are meant: --id ID or --all\n"},
		{"dlq replay text_mail --all --id one", 2, "say which dead letters are meant"},
		{"dlq replay text_mail --id none", 1, `there is no dead letter "none"` + "\n"},
		{"dlq list text_mail --limit 0", 2, "--limit: is 0; give a number from 1 to 1000\n"},
		{"dlq list text_mail --bodies", 2, "--bodies: takes --output json; add it, or leave --bodies out\n"},
		{"pause text_mail --token-file " + dir + "/none", 2, "--token-file: " + dir + "/none: cannot be read (no such file or directory); check its path"},
		{"pause text_mail --token-file " + dir, 2, "--token-file: " + dir + ": cannot be read (is a directory); check its path"},
		{"pause text_mail --token-file " + dir + "/empty", 2, "/empty: is empty; write the process' admin.token into it\n"},
		{"pause text_mail --token-file " + dir + "/two", 2, "/two: is no token; give the process' admin.token alone\n"},
		{"pause text_mail --token-file " + dir + "/long", 2, "/long: is no token; give the process' admin.token alone\n"},
		{"pause text_mail --token-file " + dir + "/wrong", 1, "the process has another admin.token; check --token-file or SHARDMQ_ADMIN_TOKEN\n"},
	} {
		r := s.run(strings.Fields(c.args)...)
		require.Equal(t, c.code, r.code, "%s: %s", c.args, r.stderr)
		require.Contains(t, r.stderr, c.want, c.args)
		require.True(t, strings.HasPrefix(r.stderr, "shardmq: "), r.stderr)
		require.Empty(t, r.stdout)
	}
	require.Equal(t, before, s.all)
	require.Len(t, s.letters, 3)

	t.Setenv(tokenVariable, "")
	require.Equal(t, "shardmq: this needs the process' admin.token; give --token-file, or set SHARDMQ_ADMIN_TOKEN\n", s.run("pause", "text_mail").stderr)
	t.Setenv(tokenVariable, adminToken)
	s.failing = errors.New("connect to server \"mail\": no")
	r := s.run("dlq", "list", "text_mail")
	require.Equal(t, 1, r.code)
	require.Equal(t, "shardmq: connect to server \"mail\": no\n", r.stderr)
}

// What --admin names may be something else, or nothing.
func TestDispatchOtherProcess(t *testing.T) {
	t.Setenv(tokenVariable, adminToken)
	var seen []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.URL.Path)
		if strings.HasPrefix(r.URL.Path, "/moved/") {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		} else if strings.HasPrefix(r.URL.Path, "/json/") {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `[1]`)
		}
	}))
	defer other.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	for url, c := range map[string]struct {
		code int
		want string
	}{
		other.URL:                        {1, "what answers at " + other.URL + " serves no jobs (status 200); is that a shardmq with the section dispatch?"},
		other.URL + "/json":              {1, "serves no jobs (status 200)"},
		other.URL + "/moved/":            {1, "serves no jobs (status 307)"},
		"http://" + gone.Addr().String(): {1, "nothing answers at http://" + gone.Addr().String() + ": "},
		"ftp://h":                        {2, "--admin: is no http:// or https:// URL; give"},
		"http://":                        {2, "--admin: is no http:// or https:// URL; give"},
		"http://u:hunter2@h":             {2, "--admin: has more than an address and a path in it; give"},
		"http://h/?token=hunter2":        {2, "--admin: has more than an address and a path in it; give"},
		"http://hunter2\x7f":             {2, "--admin: is no http:// or https:// URL; give"},
	} {
		r := shardmq(nil, "dispatch", "scale", "x", "1", "--admin", url)
		require.Equal(t, c.code, r.code, "%s: %s", url, r.stderr)
		require.Contains(t, r.stderr, c.want, url)
		require.NotContains(t, r.stderr, "hunter2")
	}
	require.NotContains(t, seen, "/elsewhere", "the token goes nowhere else")
	require.Contains(t, seen, "/moved/api/v1/jobs/x/scale")
}
