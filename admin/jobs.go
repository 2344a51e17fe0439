package admin

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/shardmq/shardmq/config/secret"
	"github.com/shardmq/shardmq/dispatch"
)

// Jobs are the jobs that a process dispatches. Its methods are safe for concurrent use.
type Jobs interface {
	// Jobs tells how each job stands, from what is known here.
	Jobs() []dispatch.Status
	// Scale, Pause and Desk are of the job with that name. Errors wrap dispatch.ErrNoJob if there is none.
	Scale(name string, executors int) error
	Pause(name string, paused bool) error
	Desk(name string) (Desk, error)
}

// Desk works on the queues of a job.
type Desk interface {
	Purge(ctx context.Context) (gone int, err error)
	DeadLetters(ctx context.Context, visit func(dispatch.Letter) (dispatch.Fate, error)) error
	Close()
}

const (
	maxRequest     = 64 << 10         // octets of a request's body
	drainPatience  = 25 * time.Second // below answerTimeout
	drainLookEvery = 50 * time.Millisecond
)

// jobsAPI serves /api/v1/jobs. Whoever wants to change something needs the token.
type jobsAPI struct {
	jobs  Jobs
	token secret.String // "" = nothing can be changed
}

func (a *jobsAPI) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/v1/jobs", a.list)
	mux.HandleFunc("GET /api/v1/jobs/{job}", a.one)
	mux.HandleFunc("GET /api/v1/jobs/{job}/dead", a.authorized(a.letters)) // it shows what is in messages
	for action, do := range map[string]http.HandlerFunc{
		"scale": a.scale, "pause": a.pause(true), "resume": a.pause(false), "drain": a.drain, "purge": a.purge,
		"dead/replay": a.settle(dispatch.Replay), "dead/drop": a.settle(dispatch.Discard),
	} {
		mux.HandleFunc("POST /api/v1/jobs/{job}/"+action, a.authorized(do))
	}
}

// authorized serves who has the token. A page of another site cannot send it, so no more is needed against such.
func (a *jobsAPI) authorized(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		given, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch {
		case a.token == "":
			refuse(w, http.StatusForbidden, "this needs a token, and none is configured: set admin.token")
		case !is || subtle.ConstantTimeCompare([]byte(given), []byte(a.token)) != 1:
			w.Header().Set("WWW-Authenticate", `Bearer realm="shardmq"`)
			refuse(w, http.StatusUnauthorized, "send the token of admin.token as: Authorization: Bearer TOKEN")
		default:
			h(w, r)
		}
	}
}

// Job is a job as the API shows it.
type Job struct {
	Name      string            `json:"name"`
	Server    string            `json:"server"`
	Queue     string            `json:"queue"`
	URL       string            `json:"url"`
	Connected bool              `json:"connected"`
	Paused    bool              `json:"paused"`
	Executors int               `json:"executors"` // consumers at the broker
	Wanted    int               `json:"wanted"`
	InFlight  int               `json:"in_flight"`
	Waiting   int               `json:"waiting"`
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
	Breaker   string            `json:"breaker"`
	Held      *time.Time        `json:"held_until"`
	Failures  []Failure         `json:"failures"` // the oldest first
}

// Failure is a failed attempt as the API shows it.
type Failure struct {
	At     time.Time `json:"at"`
	Class  string    `json:"class"`
	Status int       `json:"status"`
	Reason string    `json:"reason"`
	Took   float64   `json:"took_seconds"`
}

func jobOf(st dispatch.Status) Job {
	j := Job{Name: st.Name, Server: st.Server, Queue: st.Queue, URL: st.URL, Connected: st.Connected, Paused: st.Paused,
		Executors: st.Executors, Wanted: st.Wanted, InFlight: st.InFlight, Waiting: st.Waiting, Done: st.Done, Dropped: st.Dropped,
		Dead: st.Dead, Retried: st.Retried, Repeated: st.Repeated, Attempts: map[string]uint64{}, P50: st.P50.Seconds(),
		P95: st.P95.Seconds(), P99: st.P99.Seconds(), Breaker: st.Breaker, Failures: []Failure{}}
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
		j.Failures = append(j.Failures, Failure{f.At, string(f.Class), f.Status, f.Reason, f.Took.Seconds()})
	}
	return j
}

func (a *jobsAPI) list(w http.ResponseWriter, _ *http.Request) {
	all := []Job{}
	for _, st := range a.jobs.Jobs() {
		all = append(all, jobOf(st))
	}
	reply(w, map[string]any{"jobs": all})
}

// find returns the job that the request is about. It answers if there is none.
func (a *jobsAPI) find(w http.ResponseWriter, r *http.Request) (st dispatch.Status, ok bool) {
	name := r.PathValue("job")
	for _, st := range a.jobs.Jobs() {
		if st.Name == name || st.Server+"/"+st.Name == name {
			return st, true
		}
	}
	refuse(w, http.StatusNotFound, fmt.Sprintf("there is no job %q; GET /api/v1/jobs lists them", name))
	return st, false
}

func (a *jobsAPI) one(w http.ResponseWriter, r *http.Request) {
	if st, ok := a.find(w, r); ok {
		reply(w, jobOf(st))
	}
}

// read decodes the request's body. It answers if that is not as it should be.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "send JSON, with Content-Type: application/json")
		return false
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	if err == nil && dec.More() {
		err = errors.New("there is more than one value")
	}
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is longer than %d octets", maxRequest))
		return false
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the body is empty")
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "the body is not as it should be: "+err.Error())
	}
	return err == nil
}

// failed answers with an error that an action returned.
func (a *jobsAPI) failed(w http.ResponseWriter, err error, status int) {
	if errors.Is(err, dispatch.ErrNoJob) {
		status = http.StatusNotFound
	}
	refuse(w, status, err.Error())
}

func (a *jobsAPI) scale(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Executors *int `json:"executors"`
	}
	if !read(w, r, &ask) {
		return
	}
	if ask.Executors == nil {
		refuse(w, http.StatusBadRequest, `say how many, e.g. {"executors": 3}`)
		return
	}
	if err := a.jobs.Scale(r.PathValue("job"), *ask.Executors); err != nil {
		a.failed(w, err, http.StatusBadRequest)
		return
	}
	a.one(w, r)
}

func (a *jobsAPI) pause(paused bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := a.jobs.Pause(r.PathValue("job"), paused); err != nil {
			a.failed(w, err, http.StatusBadRequest)
			return
		}
		a.one(w, r)
	}
}

// drain pauses a job and waits until nothing of it is in flight.
func (a *jobsAPI) drain(w http.ResponseWriter, r *http.Request) {
	if err := a.jobs.Pause(r.PathValue("job"), true); err != nil {
		a.failed(w, err, http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), drainPatience)
	defer cancel()
	tick := time.NewTicker(drainLookEvery)
	defer tick.Stop()
	for {
		st, ok := a.find(w, r)
		if !ok {
			return
		}
		if st.Executors == 0 && st.InFlight == 0 {
			reply(w, jobOf(st))
			return
		}
		select {
		case <-ctx.Done():
			refuse(w, http.StatusGatewayTimeout, fmt.Sprintf("the job is paused, and %d requests are still in flight; ask again", st.InFlight))
			return
		case <-tick.C:
		}
	}
}

// desk opens the job's desk. It answers if that fails.
func (a *jobsAPI) desk(w http.ResponseWriter, r *http.Request) (Desk, bool) {
	d, err := a.jobs.Desk(r.PathValue("job"))
	if err != nil {
		a.failed(w, err, http.StatusBadGateway)
	}
	return d, err == nil
}

func (a *jobsAPI) purge(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Yes bool `json:"yes"`
	}
	if !read(w, r, &ask) {
		return
	}
	if !ask.Yes {
		refuse(w, http.StatusBadRequest, `all jobs that wait would be gone for good; send {"yes": true} if that is meant`)
		return
	}
	d, ok := a.desk(w, r)
	if !ok {
		return
	}
	defer d.Close()
	gone, err := d.Purge(r.Context())
	if err != nil {
		a.failed(w, err, http.StatusBadGateway)
		return
	}
	reply(w, map[string]int{"purged": gone})
}
