package main

import (
	"context"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/admin"
	"github.com/shardmq/shardmq/dispatch"
)

const adminToken = "0f1e2d3c4b5a6978"

// steered is a process with two jobs, and with dead letters of both.
type steered struct {
	t       *testing.T
	mu      sync.Mutex
	all     []dispatch.Status
	letters []dispatch.Letter
	failing error // of desks
	url     string
}

func steer(t *testing.T) *steered {
	s := &steered{t: t, all: []dispatch.Status{
		{
			Name: "text_mail", Server: "mail", Connected: true, Executors: 2, Wanted: 3, InFlight: 1, Done: 10, Retried: 4, Dropped: 1, Dead: 2, Backlog: 12,
			Breaker: "closed", P50: 1234567 * time.Nanosecond, P95: 200 * time.Millisecond, P99: 1500 * time.Millisecond,
		},
		{Name: "odd/\x1b[31m", Server: "media", Backlog: -1, Breaker: "none"},
	}, letters: []dispatch.Letter{
		{ID: "one", Reason: "too many attempts", Class: "5xx", Status: 500, Attempts: 3, Failed: time.Unix(1e9, 0), Body: []byte("first")},
		{ID: "\x1b[2J", Class: "timeout"},
		{ID: "three"},
	}}
	h, err := admin.Handler(admin.Options{Jobs: s, Token: adminToken})
	require.NoError(t, err)
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	s.url = server.URL
	t.Setenv(tokenVariable, adminToken)
	return s
}

// run runs a command of "shardmq dispatch".
func (s *steered) run(args ...string) result {
	return shardmq(nil, slices.Concat([]string{"dispatch"}, args, []string{"--admin", s.url})...)
}

// ok runs one that works, and returns what it prints.
func (s *steered) ok(args ...string) string {
	s.t.Helper()
	r := s.run(args...)
	require.Zero(s.t, r.code, "%v: %s", args, r.stderr)
	return r.stdout
}

func (s *steered) Jobs() []dispatch.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

func (s *steered) change(name string, with func(*dispatch.Status)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.all {
		if s.all[i].Server+"/"+s.all[i].Name == name {
			with(&s.all[i])
			return nil
		}
	}
	return dispatch.ErrNoJob
}

func (s *steered) Scale(name string, n int) error {
	return s.change(name, func(st *dispatch.Status) { st.Wanted = n })
}

func (s *steered) Pause(name string, paused bool) error {
	return s.change(name, func(st *dispatch.Status) {
		st.Paused = paused
		if paused {
			st.Executors = 0
		}
	})
}

func (s *steered) Desk(context.Context, string) (admin.Desk, error) {
	return (*steeredDesk)(s), s.failing
}

type steeredDesk steered

func (d *steeredDesk) Purge(context.Context) (int, error) { return 7, nil }
func (d *steeredDesk) Close()                             {}

func (d *steeredDesk) DeadLetters(_ context.Context, visit func(dispatch.Letter) (dispatch.Fate, error)) (err error) {
	var stay []dispatch.Letter
	for _, l := range d.letters {
		fate := dispatch.Stay
		if err == nil {
			fate, err = visit(l)
		}
		if fate == dispatch.Stay {
			stay = append(stay, l)
		}
	}
	d.letters = stay
	return err
}
