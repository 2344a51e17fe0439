package admin

import (
	"encoding/json"
	"net/http"
)

// problem is what went wrong with a request, as RFC 9457 has it.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"` // what, where, and what to do
}

// refuse answers a request with a problem.
func refuse(w http.ResponseWriter, status int, detail string) {
	write(w, "application/problem+json", status, problem{http.StatusText(status), status, detail})
}

// reply answers a request with a value.
func reply(w http.ResponseWriter, v any) { write(w, "application/json", http.StatusOK, v) }

func write(w http.ResponseWriter, kind string, status int, v any) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a peer that is gone needs no answer
}
