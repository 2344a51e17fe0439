package admin

import (
	"embed"
	"net/http"
	"path"
)

// web has the page's files: they need no build step, and load nothing from elsewhere.
//
//go:embed web
var web embed.FS

// policy keeps the page from running or loading anything that is not in web, whatever names and bodies hold.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// kinds are the files' types, by their ending. What the system's own table says is not asked.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
}

// pages serves the page of jobs; root has / lead there.
func pages(mux *http.ServeMux, root bool) {
	mux.HandleFunc("GET /jobs", page("jobs.html"))
	for _, name := range []string{"jobs.css", "jobs.js", "row.js", "letters.js", "api.js"} {
		mux.HandleFunc("GET /web/"+name, page(name))
	}
	if root {
		mux.Handle("GET /{$}", http.RedirectHandler("jobs", http.StatusFound))
	}
}

func page(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", kinds[path.Ext(name)])
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache") // the next version's files have the same names
		http.ServeFileFS(w, r, web, "web/"+name)
	}
}
