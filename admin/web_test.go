package admin

import (
	"io/fs"
	"path"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every file of the page is served, with what keeps it from running anything else; and it asks for none besides.
func TestPageFiles(t *testing.T) {
	s := serve(t, two(), token)
	entries, err := fs.ReadDir(web, "web")
	require.NoError(t, err)
	var asked []string
	for _, e := range entries {
		where := "/web/" + e.Name()
		if e.Name() == "jobs.html" {
			where = "/jobs"
		}
		w := s.send("GET", where, "", "Authorization", "")
		require.Equal(t, 200, w.Code, where)
		require.Equal(t, kinds[path.Ext(e.Name())], w.Header().Get("Content-Type"))
		require.Equal(t, policy, w.Header().Get("Content-Security-Policy"))
		require.Equal(t, "no-referrer", w.Header().Get("Referrer-Policy"))
		content, err := fs.ReadFile(web, "web/"+e.Name())
		require.NoError(t, err)
		require.Equal(t, string(content), w.Body.String())

		// Names and bodies are text: nothing takes text for HTML or for a program, and nothing comes from elsewhere.
		require.NotRegexp(t, `innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc`, string(content), where)
		require.NotRegexp(t, `https?:|//[a-z]+\.[a-z]|style="|\son[a-z]+="|<script>|<style>`, string(content), where)
		for _, m := range regexp.MustCompile(`(?:src|href)="([^":]+)"|from "\./([^"]+)"`).FindAllStringSubmatch(string(content), -1) {
			if m[2] != "" {
				m[1] = "web/" + m[2]
			}
			asked = append(asked, "/"+m[1])
		}
	}
	require.Contains(t, asked, "/web/jobs.js")
	require.Contains(t, asked, "/web/api.js")
	for _, where := range asked {
		require.Equal(t, 200, s.send("GET", where, "").Code, where)
	}
}

func TestPageIsWhereJobsAre(t *testing.T) {
	s := serve(t, two(), token)
	w := s.send("GET", "/", "")
	require.Equal(t, 302, w.Code)
	require.Equal(t, "/jobs", w.Header().Get("Location"))
	for _, where := range []string{"/web/", "/web/other.js", "/jobs/", "/index.html"} {
		code, _ := get(t, s.handler, "GET", where)
		require.Equal(t, 404, code, where)
	}
	code, _ := get(t, s.handler, "POST", "/jobs")
	require.Equal(t, 405, code)

	both, err := Handler(Options{Proxy: full(), Jobs: two()})
	require.NoError(t, err)
	code, _ = get(t, both, "GET", "/jobs")
	require.Equal(t, 200, code)
	code, _ = get(t, both, "GET", "/")
	require.Equal(t, 404, code)

	proxy, err := Handler(Options{Proxy: full()})
	require.NoError(t, err)
	for _, where := range []string{"/", "/jobs", "/web/jobs.js", "/api/v1/jobs"} {
		code, _ = get(t, proxy, "GET", where)
		require.Equal(t, 404, code, where)
	}
}
