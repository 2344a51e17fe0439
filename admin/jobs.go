package admin

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
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
	// Scale, Pause and Desk are of the job called SERVER/NAME. Errors wrap dispatch.ErrNoJob if there is none.
	Scale(name string, executors int) error
	Pause(name string, paused bool) error
	Desk(ctx context.Context, name string) (Desk, error)
}

// Desk works on the queues of a job.
type Desk interface {
	Purge(ctx context.Context) (gone int, err error)
	DeadLetters(ctx context.Context, visit func(dispatch.Letter) (dispatch.Fate, error)) error
	Close()
}

// Of returns a dispatcher's jobs.
func Of(d *dispatch.Dispatcher) Jobs { return dispatched{d} }

// dispatched has a dispatcher's desks as an interface.
type dispatched struct{ *dispatch.Dispatcher }

// Desk implements Jobs.
func (d dispatched) Desk(ctx context.Context, name string) (Desk, error) {
	desk, err := d.Dispatcher.Desk(ctx, name)
	if err != nil {
		return nil, err // not a nil *dispatch.Desk, which would be a Desk that is there
	}
	return desk, nil
}

const (
	patience       = 25 * time.Second // that an action is given; below answerTimeout
	drainLookEvery = 50 * time.Millisecond
)

// jobsAPI serves /api/v1/jobs. Whoever wants to change something needs the token.
type jobsAPI struct {
	jobs     Jobs
	token    secret.String // "" = nothing can be changed
	patience time.Duration
}

func (a *jobsAPI) register(mux *http.ServeMux) {
	const all, one = "/api/v1/jobs", "/api/v1/jobs/{job}"
	get := func(path string, h http.HandlerFunc) {
		mux.HandleFunc("GET "+path, h)
		mux.HandleFunc(path, only("GET, HEAD"))
	}
	post := func(path string, h http.HandlerFunc) {
		mux.HandleFunc("POST "+path, a.authorized(h))
		mux.HandleFunc(path, only("POST"))
	}
	get(all, a.list)
	get(one, a.one)
	get(one+"/dead", a.authorized(a.letters)) // it shows what is in messages, and the next one what is in answers
	get(one+"/failures", a.authorized(a.failures))
	post(one+"/scale", a.scale)
	post(one+"/pause", a.pause(true))
	post(one+"/resume", a.pause(false))
	post(one+"/drain", a.drain)
	post(one+"/purge", a.purge)
	post(one+"/dead/replay", a.settle(dispatch.Replay))
	post(one+"/dead/drop", a.settle(dispatch.Discard))
	mux.HandleFunc("/api/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "there is nothing here; GET "+all+" lists the jobs")
	})
}

// authorized serves who has the token.
func (a *jobsAPI) authorized(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		switch {
		case a.token == "":
			refuse(w, http.StatusForbidden, "this needs a token, and none is configured: set admin.token")
		case !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare([]byte(given), []byte(a.token)) != 1:
			w.Header().Set("WWW-Authenticate", `Bearer realm="shardmq"`)
			refuse(w, http.StatusUnauthorized, "send the token of admin.token as: Authorization: Bearer TOKEN")
		default:
			h(w, r)
		}
	}
}

// find returns the job that the request is about, and what it is called for sure. It answers if there is none.
func (a *jobsAPI) find(w http.ResponseWriter, r *http.Request) (st dispatch.Status, name string, ok bool) {
	asked := r.PathValue("job")
	n := 0
	for _, each := range a.jobs.Jobs() {
		if full := each.Server + "/" + each.Name; each.Name == asked || full == asked {
			st, name = each, full
			n++
		}
	}
	switch n {
	case 1:
		return st, name, true
	case 0:
		refuse(w, http.StatusNotFound, fmt.Sprintf("there is no job %q; GET /api/v1/jobs lists them", asked))
	default:
		refuse(w, http.StatusConflict, fmt.Sprintf("several servers have a job %q; ask for SERVER/%s, with the slash as %%2F", asked, asked))
	}
	return st, name, false
}

// failed answers with an error that an action returned.
func failed(w http.ResponseWriter, err error, status int) {
	switch {
	case errors.Is(err, dispatch.ErrNoJob):
		status = http.StatusNotFound
	case errors.Is(err, context.DeadlineExceeded):
		status = http.StatusGatewayTimeout
	}
	refuse(w, status, err.Error())
}

func (a *jobsAPI) scale(w http.ResponseWriter, r *http.Request) {
	_, name, ok := a.find(w, r)
	if !ok {
		return
	}
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
	if err := a.jobs.Scale(name, *ask.Executors); err != nil {
		failed(w, err, http.StatusBadRequest)
		return
	}
	a.one(w, r)
}

func (a *jobsAPI) pause(paused bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, name, ok := a.find(w, r)
		if !ok {
			return
		}
		if err := a.jobs.Pause(name, paused); err != nil {
			failed(w, err, http.StatusBadRequest)
			return
		}
		a.one(w, r)
	}
}

// drain pauses a job and waits until nothing of it is in flight.
func (a *jobsAPI) drain(w http.ResponseWriter, r *http.Request) {
	_, name, ok := a.find(w, r)
	if !ok {
		return
	}
	if err := a.jobs.Pause(name, true); err != nil {
		failed(w, err, http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.patience)
	defer cancel()
	tick := time.NewTicker(drainLookEvery)
	defer tick.Stop()
	for {
		st, _, ok := a.find(w, r)
		switch {
		case !ok:
			return
		case !st.Paused:
			refuse(w, http.StatusConflict, "the job has been resumed meanwhile")
			return
		case st.Executors == 0 && st.InFlight == 0 && st.Waiting == 0:
			reply(w, jobOf(&st))
			return
		}
		select {
		case <-ctx.Done():
			refuse(w, http.StatusGatewayTimeout, fmt.Sprintf("the job is paused, and not yet done is: %d in flight, %d received; ask again",
				st.InFlight, st.Waiting))
			return
		case <-tick.C:
		}
	}
}

// desk has work done at the job's desk, for so long as an action is given. It answers if that fails.
func (a *jobsAPI) desk(w http.ResponseWriter, r *http.Request, work func(context.Context, Desk) error) (ok bool) {
	_, name, ok := a.find(w, r)
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.patience)
	defer cancel()
	d, err := a.jobs.Desk(ctx, name)
	if err == nil {
		defer d.Close()
		err = work(ctx, d)
	}
	if err != nil {
		failed(w, err, http.StatusBadGateway)
	}
	return err == nil
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
	gone := 0
	if a.desk(w, r, func(ctx context.Context, d Desk) (err error) {
		gone, err = d.Purge(ctx)
		if err != nil {
			return fmt.Errorf("after %d: %w", gone, err)
		}
		return nil
	}) {
		reply(w, map[string]int{"purged": gone})
	}
}
