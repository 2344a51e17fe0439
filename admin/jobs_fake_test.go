package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/secret"
	"github.com/shardmq/shardmq/dispatch"
	"github.com/shardmq/shardmq/dispatch/target"
)

const token = "0f1e2d3c4b5a6978"

// jobs are jobs that stand as a test says. Their letters are those of every job's desk.
type jobs struct {
	mu      sync.Mutex
	all     []dispatch.Status
	letters []dispatch.Letter
	open    int // desks
	failing error
	// step is called each time Jobs is: so a test has things happen while it is waited for them.
	step func(*jobs)
}

func (j *jobs) Jobs() []dispatch.Status {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.step != nil {
		j.step(j)
	}
	return slices.Clone(j.all)
}

func (j *jobs) find(name string) (*dispatch.Status, error) {
	for i := range j.all {
		if st := &j.all[i]; st.Server+"/"+st.Name == name {
			return st, nil
		}
	}
	return nil, fmt.Errorf("%w %q", dispatch.ErrNoJob, name)
}

func (j *jobs) Scale(name string, n int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	st, err := j.find(name)
	if err == nil && (n < 0 || n > dispatch.MaxExecutors) {
		return fmt.Errorf("job %q cannot have %d executors", name, n)
	}
	if err == nil {
		st.Wanted = n
	}
	return err
}

func (j *jobs) Pause(name string, paused bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	st, err := j.find(name)
	if err == nil {
		st.Paused = paused
	}
	return err
}

func (j *jobs) Desk(_ context.Context, name string) (Desk, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.find(name); err != nil {
		return nil, err
	}
	if j.failing != nil {
		return nil, j.failing
	}
	j.open++
	return desk{j}, nil
}

type desk struct{ *jobs }

func (d desk) Purge(context.Context) (int, error) { return 7, d.failing }

func (d desk) Close() { d.open-- }

func (d desk) DeadLetters(ctx context.Context, visit func(dispatch.Letter) (dispatch.Fate, error)) error {
	var stay []dispatch.Letter
	defer func() { d.letters = append(stay, d.letters...) }()
	for len(d.letters) > 0 {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if d.letters[0].Reason == "breaks" {
			return d.failing
		}
		fate, err := visit(d.letters[0])
		if err != nil {
			return err
		}
		if fate == dispatch.Stay {
			stay = append(stay, d.letters[0])
		}
		d.letters = d.letters[1:]
	}
	return nil
}

var noon = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)

// two are two jobs: one that works, and one that does not, with a name that is awkward everywhere.
func two() *jobs {
	return &jobs{
		all: []dispatch.Status{{
			Name: "text_mail", Server: "mail", Queue: "text_mail_q", URL: "http://user:xxxxx@app/mail?key=hush", Connected: true, Executors: 2, Wanted: 3, Total: 9, Leases: 2,
			InFlight: 2, Waiting: 1, Done: 10, Dropped: 1, Dead: 2, Retried: 4, Repeated: 5, Backlog: 12, Breaker: "closed",
			Classes: map[target.Class]uint64{target.OK: 10, target.Status5xx: 3, target.Timeout: 4}, P50: 10 * time.Millisecond, P95: 200 * time.Millisecond, P99: time.Second,
			Took:     dispatch.Took{Count: 17, Sum: 3 * time.Second, Below: [len(dispatch.TookBounds)]uint64{0, 9, 10, 10, 10, 15, 15, 17, 17, 17, 17, 17, 17, 17}},
			Failures: []dispatch.Failure{{At: noon, Class: target.Status5xx, Status: 503, Reason: "the endpoint answers 503", Preview: []byte("hush, busy"), Took: time.Second}},
		}, {
			Name: "a/b ü\"<i>", Server: "media", Queue: "q", URL: "https://app:8443/x%2Fy", Paused: true, Backlog: -1, Breaker: "open", Held: noon,
		}},
		letters: []dispatch.Letter{
			{ID: "one", Reason: "too many attempts", Class: "5xx", Status: 500, Attempts: 3, Failed: noon, Exchange: "x", RoutingKey: "k", ContentType: "text/plain", Body: []byte("first")},
			{ID: "two", Body: []byte(strings.Repeat("x", shownBody+1))},
			{ID: "one", Body: []byte("second")},
		},
	}
}

// site serves jobs; ask sends a request to it, with the token.
type site struct {
	t *testing.T
	*jobs
	handler http.Handler
}

func serve(t *testing.T, j *jobs, with secret.String) *site {
	t.Helper()
	h, err := Handler(Options{Jobs: j, Token: with, Version: "v2"})
	require.NoError(t, err)
	return &site{t, j, h}
}

func (s *site) send(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, path, content)
	r.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	require.Zero(s.t, s.open, "every desk is closed")
	return w
}

// ok sends a request that works, and returns the answer.
func (s *site) ok(method, path, body string, into any) {
	s.t.Helper()
	w := s.send(method, path, body)
	require.Equal(s.t, 200, w.Code, "%s", w.Body)
	require.Equal(s.t, "application/json", w.Header().Get("Content-Type"))
	require.Equal(s.t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	require.Equal(s.t, "no-store", w.Header().Get("Cache-Control"))
	if into != nil {
		require.NoError(s.t, json.Unmarshal(w.Body.Bytes(), into))
	}
}

// refused sends a request that is answered with a problem, and returns its text.
func (s *site) refused(status int, method, path, body string, headers ...string) string {
	s.t.Helper()
	w := s.send(method, path, body, headers...)
	require.Equal(s.t, status, w.Code, "%s %s: %s", method, path, w.Body)
	require.Equal(s.t, "application/problem+json", w.Header().Get("Content-Type"))
	require.Equal(s.t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	var p Problem
	require.NoError(s.t, json.Unmarshal(w.Body.Bytes(), &p))
	require.Equal(s.t, Problem{http.StatusText(status), status, p.Detail}, p)
	return p.Detail
}
