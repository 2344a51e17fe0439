package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
)

// Problem is what went wrong with a request, as RFC 9457 has it.
type Problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"` // what, where, and what to do
}

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

const maxRequest = 64 << 10 // octets of a request's body

// refuse answers a request with a problem.
func refuse(w http.ResponseWriter, status int, detail string) {
	send(w, "application/problem+json", status, Problem{http.StatusText(status), status, detail})
}

// reply answers a request with a value.
func reply(w http.ResponseWriter, v any) { send(w, "application/json", http.StatusOK, v) }

func send(w http.ResponseWriter, kind string, status int, v any) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a peer that is gone needs no answer
}

// only answers requests with another method than these.
func only(methods string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", methods)
		refuse(w, http.StatusMethodNotAllowed, fmt.Sprintf("%s does not go here; send %s", r.Method, methods))
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
	if err == nil {
		if _, next := dec.Token(); !errors.Is(next, io.EOF) {
			err = errors.New("there is something behind the value")
		}
	}
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is longer than %d octets", maxRequest))
		return false
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "the body is not as it should be: "+decodeText(err))
	}
	return err == nil
}

// decodeText says what is wrong with a body, without Go's types.
func decodeText(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if wrong.Field == "" {
			return "it is no JSON object"
		}
		kind := map[string]string{"int": "a whole number", "bool": "true or false", "string": "text"}[wrong.Type.String()]
		return fmt.Sprintf("%s is a %s; give %s", wrong.Field, wrong.Value, kind)
	}
	if errors.Is(err, io.EOF) {
		return "it is empty"
	}
	return err.Error()
}
