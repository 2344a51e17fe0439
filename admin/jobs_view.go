package admin

import (
	"net/http"
	"net/url"
	"time"

	"github.com/shardmq/shardmq/dispatch"
)

// Job is a job as the API shows it. Counts are since the start.
type Job struct {
	Name      string            `json:"name"`
	Server    string            `json:"server"`
	Queue     string            `json:"queue"`
	URL       string            `json:"url"` // without what may be a secret
	Connected bool              `json:"connected"`
	Paused    bool              `json:"paused"`
	Executors int               `json:"executors"`       // consumers at the broker
	Wanted    int               `json:"wanted"`          // with a total: at most
	Total     *int              `json:"executors_total"` // null = no total for all processes
	Leases    int               `json:"leases"`          // this process' part of it
	InFlight  int               `json:"in_flight"`
	Waiting   int               `json:"waiting"` // received, and not in flight
	Backlog   *int              `json:"backlog"` // null = not known
	Done      uint64            `json:"done"`
	Dropped   uint64            `json:"dropped"`
	Dead      uint64            `json:"dead"`
	Retried   uint64            `json:"retried"`
	Repeated  uint64            `json:"repeated"`
	Attempts  map[string]uint64 `json:"attempts"` // by class
	P50       float64           `json:"p50_seconds"`
	P95       float64           `json:"p95_seconds"`
	P99       float64           `json:"p99_seconds"`
	Breaker   string            `json:"breaker"`    // closed, open, half-open; none = there is none
	Held      *time.Time        `json:"held_until"` // null = the endpoint has not asked to be left alone
	Failures  []Failure         `json:"failures"`   // the oldest first
}

// Failure is a failed attempt as the API shows it.
type Failure struct {
	At     time.Time `json:"at"`
	Class  string    `json:"class"`
	Status int       `json:"status"` // 0 = no answer
	Reason string    `json:"reason"`
	Took   float64   `json:"took_seconds"`
	// Answer is the beginning of the answer's body, for who has the token and asks for it.
	Answer []byte `json:"answer,omitempty"`
}

func jobOf(st *dispatch.Status) Job {
	j := Job{Name: st.Name, Server: st.Server, Queue: st.Queue, URL: shownURL(st.URL), Connected: st.Connected, Paused: st.Paused,
		Executors: st.Executors, Wanted: st.Wanted, Leases: st.Leases, InFlight: st.InFlight, Waiting: st.Waiting, Done: st.Done, Dropped: st.Dropped,
		Dead: st.Dead, Retried: st.Retried, Repeated: st.Repeated, Attempts: map[string]uint64{}, P50: st.P50.Seconds(),
		P95: st.P95.Seconds(), P99: st.P99.Seconds(), Breaker: st.Breaker, Failures: []Failure{}}
	if st.Total > 0 {
		j.Total = &st.Total
	}
	if st.Backlog >= 0 {
		j.Backlog = &st.Backlog
	}
	if !st.Held.IsZero() {
		j.Held = &st.Held
	}
	for class, n := range st.Classes {
		j.Attempts[string(class)] = n
	}
	for _, f := range st.Failures {
		j.Failures = append(j.Failures, Failure{At: f.At, Class: string(f.Class), Status: f.Status, Reason: f.Reason, Took: f.Took.Seconds()})
	}
	return j
}

// shownURL leaves out of an endpoint's URL what may be a secret: whoever reaches the listener sees the jobs.
func shownURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

func (a *jobsAPI) list(w http.ResponseWriter, _ *http.Request) {
	all := []Job{}
	for _, st := range a.jobs.Jobs() {
		all = append(all, jobOf(&st))
	}
	reply(w, map[string]any{"jobs": all})
}

func (a *jobsAPI) one(w http.ResponseWriter, r *http.Request) {
	if st, _, ok := a.find(w, r); ok {
		reply(w, jobOf(&st))
	}
}

// failures shows a job's last failures with what the endpoint answered.
func (a *jobsAPI) failures(w http.ResponseWriter, r *http.Request) {
	st, _, ok := a.find(w, r)
	if !ok {
		return
	}
	all := jobOf(&st).Failures
	for i := range all {
		all[i].Answer = st.Failures[i].Preview
	}
	reply(w, map[string]any{"failures": all})
}
