package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/shardmq/shardmq/dispatch"
)

// How many dead letters are shown if nothing is said, and at most.
const (
	lettersShown = 100
	mostLetters  = 1000
)

// Letter is a dead letter as the API shows it.
type Letter struct {
	ID          string    `json:"id"`
	Reason      string    `json:"reason"`
	Class       string    `json:"class"`
	Status      int       `json:"status"`
	Attempts    int       `json:"attempts"`
	Failed      time.Time `json:"failed"`
	Exchange    string    `json:"exchange"`
	RoutingKey  string    `json:"routing_key"`
	ContentType string    `json:"content_type"`
	Octets      int       `json:"octets"`
	Body        []byte    `json:"body,omitempty"` // if asked for
}

var errEnough = errors.New("as many as were asked for")

// letters lists dead letters: up to ?limit=, with their bodies with ?bodies=true.
func (a *jobsAPI) letters(w http.ResponseWriter, r *http.Request) {
	limit, bodies := lettersShown, false
	var err error
	for name, values := range r.URL.Query() {
		switch name {
		case "limit":
			limit, err = strconv.Atoi(values[0])
		case "bodies":
			bodies, err = strconv.ParseBool(values[0])
		default:
			err = errors.New("not known")
		}
		if err != nil || limit < 1 || limit > mostLetters {
			refuse(w, http.StatusBadRequest, fmt.Sprintf("parameter %q: give limit=1 to %d, bodies=true or bodies=false", name, mostLetters))
			return
		}
	}
	d, ok := a.desk(w, r)
	if !ok {
		return
	}
	defer d.Close()
	all := []Letter{}
	err = d.DeadLetters(r.Context(), func(l dispatch.Letter) (dispatch.Fate, error) {
		shown := Letter{l.ID, l.Reason, l.Class, l.Status, l.Attempts, l.Failed, l.Exchange, l.RoutingKey, l.ContentType, len(l.Body), nil}
		if bodies {
			shown.Body = l.Body
		}
		if all = append(all, shown); len(all) == limit {
			return dispatch.Stay, errEnough
		}
		return dispatch.Stay, nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		a.failed(w, err, http.StatusBadGateway)
		return
	}
	reply(w, map[string]any{"letters": all})
}

// settle replays or drops dead letters: that with an id, or all.
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
		d, ok := a.desk(w, r)
		if !ok {
			return
		}
		defer d.Close()
		n := 0
		err := d.DeadLetters(r.Context(), func(l dispatch.Letter) (dispatch.Fate, error) {
			if ask.All || l.ID == ask.ID {
				n++
				return fate, nil
			}
			return dispatch.Stay, nil
		})
		if err != nil {
			a.failed(w, fmt.Errorf("after %d: %w", n, err), http.StatusBadGateway)
			return
		}
		reply(w, map[string]int{"letters": n})
	}
}
