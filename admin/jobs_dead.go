package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/shardmq/shardmq/dispatch"
)

const (
	lettersShown = 100      // dead letters that are shown if nothing is said
	mostLetters  = 1000     // that are shown at most
	shownBody    = 64 << 10 // octets of a body
)

// Letter is a dead letter as the API shows it.
type Letter struct {
	ID          string    `json:"id"`
	Reason      string    `json:"reason"`
	Class       string    `json:"class"`
	Status      int       `json:"status"` // 0 = no answer
	Attempts    int       `json:"attempts"`
	Failed      time.Time `json:"failed"`
	Exchange    string    `json:"exchange"`
	RoutingKey  string    `json:"routing_key"`
	ContentType string    `json:"content_type"`
	Octets      int       `json:"octets"`         // of the body
	Body        []byte    `json:"body,omitempty"` // its beginning, if asked for
	Cut         bool      `json:"body_cut,omitempty"`
}

func letterOf(l *dispatch.Letter, body bool) Letter {
	shown := Letter{ID: l.ID, Reason: l.Reason, Class: l.Class, Status: l.Status, Attempts: l.Attempts, Failed: l.Failed,
		Exchange: l.Exchange, RoutingKey: l.RoutingKey, ContentType: l.ContentType, Octets: len(l.Body)}
	if body {
		shown.Body = l.Body[:min(len(l.Body), shownBody)]
		shown.Cut = len(l.Body) > shownBody
	}
	return shown
}

// Letters is a list of dead letters, the oldest first.
type Letters struct {
	Letters []Letter `json:"letters"`
	More    bool     `json:"more"` // there are others
}

// Settled says how many dead letters have been replayed or dropped.
type Settled struct {
	Letters int  `json:"letters"`
	More    bool `json:"more"` // the time was over before all were: ask again
}

var errEnough = errors.New("as many as were asked for")

// wanted is which dead letters a request asks for.
type wanted struct {
	id     string // "" = any
	limit  int
	bodies bool
}

func (q *wanted) set(name, value string) (err error) {
	switch name {
	case "id":
		q.id = value
	case "limit":
		q.limit, err = strconv.Atoi(value)
		if q.limit < 1 || q.limit > mostLetters {
			err = strconv.ErrRange
		}
	case "bodies":
		q.bodies, err = strconv.ParseBool(value)
	default:
		err = errors.New("not known")
	}
	return err
}

// letters lists dead letters: up to ?limit=, or that with ?id=; with their bodies with ?bodies=true.
func (a *jobsAPI) letters(w http.ResponseWriter, r *http.Request) {
	q := wanted{limit: lettersShown}
	for name, values := range r.URL.Query() {
		for _, v := range values {
			if q.set(name, v) != nil {
				refuse(w, http.StatusBadRequest, fmt.Sprintf("parameter %q: give limit=1 to %d, id=ID, bodies=true or bodies=false", name, mostLetters))
				return
			}
		}
	}
	all := Letters{Letters: []Letter{}}
	if a.desk(w, r, func(ctx context.Context, d Desk) error {
		err := d.DeadLetters(ctx, func(l dispatch.Letter) (dispatch.Fate, error) {
			switch {
			case len(all.Letters) == q.limit:
				all.More = true
				return dispatch.Stay, errEnough
			case q.id == "" || q.id == l.ID:
				all.Letters = append(all.Letters, letterOf(&l, q.bodies))
			}
			return dispatch.Stay, nil
		})
		if errors.Is(err, errEnough) {
			return nil
		}
		return err
	}) {
		reply(w, all)
	}
}

// settle replays or drops dead letters: the oldest with an id, or all.
func (a *jobsAPI) settle(fate dispatch.Fate) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var ask struct {
			ID  string `json:"id"`
			All bool   `json:"all"`
		}
		if !read(w, r, &ask) {
			return
		}
		if (ask.ID == "") != ask.All {
			refuse(w, http.StatusBadRequest, `say which: {"id": "..."} or {"all": true}`)
			return
		}
		var done Settled
		if !a.desk(w, r, func(ctx context.Context, d Desk) (err error) {
			done, err = settled(ctx, d, ask.ID, fate)
			return err
		}) {
			return
		}
		if ask.ID != "" && done.Letters == 0 {
			refuse(w, http.StatusNotFound, fmt.Sprintf("there is no dead letter %q", ask.ID))
			return
		}
		reply(w, done)
	}
}

// settled deals with the oldest dead letter with an id, or with all if that is "". That the time is over is no error
// if something was done before.
func settled(ctx context.Context, d Desk, id string, fate dispatch.Fate) (done Settled, err error) {
	n := 0
	err = d.DeadLetters(ctx, func(l dispatch.Letter) (dispatch.Fate, error) {
		switch {
		case id != "" && n > 0:
			return dispatch.Stay, errEnough
		case id != "" && id != l.ID:
			return dispatch.Stay, nil
		}
		n++
		return fate, nil
	})
	switch {
	case err == nil, errors.Is(err, errEnough):
		return Settled{Letters: n}, nil
	case n > 0 && errors.Is(err, context.DeadlineExceeded):
		return Settled{Letters: n, More: id == ""}, nil
	case n > 0:
		return Settled{}, fmt.Errorf("after %d: %w", n, err)
	}
	return Settled{}, err
}
