package admin

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/shardmq/shardmq/dispatch"
)

const (
	mail  = "/api/v1/jobs/text_mail"
	media = "/api/v1/jobs/media%2Fa%2Fb%20%C3%BC%22%3Ci%3E"
)

// What the API shows is its contract.
func TestJobsAsShown(t *testing.T) {
	s := serve(t, two(), token)
	expected, err := os.ReadFile("testdata/jobs.json")
	require.NoError(t, err)
	w := s.send("GET", "/api/v1/jobs", "", "Authorization", "")
	require.Equal(t, 200, w.Code, "looking takes no token")
	require.JSONEq(t, string(expected), w.Body.String())
	require.NotContains(t, w.Body.String(), "hush")

	var j Job
	s.ok("GET", mail, "", &j)
	require.Equal(t, "text_mail", j.Name)
	s.ok("GET", media, "", &j)
	require.Equal(t, "a/b ü\"<i>", j.Name)
	s.ok("HEAD", mail, "", nil)

	require.JSONEq(t, `{"failures": [{"at": "2026-05-06T12:00:00Z", "class": "5xx", "status": 503, "reason": "the endpoint answers 503", "took_seconds": 1,
		"answer": "aHVzaCwgYnVzeQ=="}]}`, s.send("GET", mail+"/failures", "").Body.String())
	require.JSONEq(t, `{"failures": []}`, s.send("GET", media+"/failures", "").Body.String())

	s.all = nil
	require.JSONEq(t, `{"jobs": []}`, s.send("GET", "/api/v1/jobs", "").Body.String())
}

func TestScaleAndPause(t *testing.T) {
	s := serve(t, two(), token)
	var j Job
	s.ok("POST", mail+"/scale", `{"executors": 9}`, &j)
	require.Equal(t, 9, j.Wanted)
	s.ok("POST", "/api/v1/jobs/mail%2Ftext_mail/scale", `{"executors": 0}`, &j)
	require.Zero(t, j.Wanted)
	s.ok("POST", mail+"/pause", "", &j)
	require.True(t, j.Paused)
	s.ok("POST", mail+"/resume", "{}", &j)
	require.False(t, j.Paused)
	s.ok("POST", media+"/resume", "", &j)
	require.Equal(t, "media", j.Server)
	require.Contains(t, s.refused(400, "POST", mail+"/scale", `{"executors": 1001}`), "cannot have 1001 executors")
}

func TestDrain(t *testing.T) {
	j := two()
	looks := 0
	j.step = func(j *jobs) { // what is in flight ends one by one
		st := &j.all[0]
		if !st.Paused {
			return
		}
		looks++
		st.Executors = 0
		if st.Waiting > 0 {
			st.Waiting--
		} else if st.InFlight > 0 {
			st.InFlight--
		}
	}
	s := serve(t, j, token)
	var after Job
	s.ok("POST", mail+"/drain", "", &after)
	require.True(t, after.Paused)
	require.Zero(t, after.InFlight+after.Waiting+after.Executors)
	require.GreaterOrEqual(t, looks, 3)
}

func TestDrainEndsOtherwise(t *testing.T) {
	j := two()
	a := &jobsAPI{jobs: j, token: token} // without patience
	mux := http.NewServeMux()
	a.register(mux)
	s := &site{t, j, mux}
	require.Contains(t, s.refused(504, "POST", mail+"/drain", ""), "the job is paused, and not yet done is: 2 in flight, 1 received; ask again")
	require.True(t, j.all[0].Paused)

	j.step = func(j *jobs) { j.all[0].Paused = false }
	require.Contains(t, s.refused(409, "POST", mail+"/drain", ""), "resumed meanwhile")
	j.step = func(j *jobs) {
		if len(j.all) > 0 && j.all[0].Paused { // asked for
			j.all = nil
		}
	}
	require.Contains(t, s.refused(404, "POST", mail+"/drain", ""), `there is no job "text_mail"`)
}

func TestPurge(t *testing.T) {
	s := serve(t, two(), token)
	var gone map[string]int
	s.ok("POST", mail+"/purge", `{"yes": true}`, &gone)
	require.Equal(t, map[string]int{"purged": 7}, gone)
	for _, body := range []string{`{}`, `{"yes": false}`} {
		require.Contains(t, s.refused(400, "POST", mail+"/purge", body), `send {"yes": true}`)
	}
	s.failing = errors.New("no connection to mail")
	require.Equal(t, "no connection to mail", s.refused(502, "POST", mail+"/purge", `{"yes": true}`))
}

// actions are all that take the token, with a body that they take.
var actions = map[string]string{
	"POST scale": `{"executors": 1}`, "POST pause": "", "POST resume": "", "POST drain": "", "POST purge": `{"yes": true}`,
	"GET dead": "", "GET failures": "", "POST dead/replay": `{"all": true}`, "POST dead/drop": `{"id": "one"}`,
}

func TestActionsTakeTheToken(t *testing.T) {
	before := two()
	for action, body := range actions {
		method, path, _ := strings.Cut(action, " ")
		path = mail + "/" + path
		s := serve(t, two(), token)
		for _, given := range []string{"", "Bearer", "Bearer ", "Bearer " + token[1:], "Bearer " + token + "0", "Bearer  " + token, "Basic " + token, token} {
			w := s.send(method, path, body, "Authorization", given)
			require.Equal(t, 401, w.Code, "%s %q", action, given)
			require.Equal(t, `Bearer realm="shardmq"`, w.Header().Get("WWW-Authenticate"))
			require.Contains(t, w.Body.String(), "Authorization: Bearer TOKEN")
			require.NotContains(t, w.Body.String(), token)
		}
		open := serve(t, two(), "")
		for _, given := range []string{"", "Bearer ", "Bearer " + token} {
			require.Contains(t, open.refused(403, method, path, body, "Authorization", given), "none is configured: set admin.token")
		}
		for _, each := range []*site{s, open} {
			require.Equal(t, before.all, each.all, action)
			require.Equal(t, before.letters, each.letters, action)
		}
		s.all[0].InFlight, s.all[0].Waiting, s.all[0].Executors = 0, 0, 0 // nothing to wait for
		require.Equal(t, 200, s.send(method, path, body, "Authorization", "bearer "+token).Code, action)
	}
}

// A page of another site can send what is no JSON without being asked; a browser says so.
func TestOtherSites(t *testing.T) {
	s := serve(t, two(), token)
	for action, body := range actions {
		if method, path, _ := strings.Cut(action, " "); method == "POST" {
			require.Contains(t, s.refused(403, "POST", mail+"/"+path, body, "Sec-Fetch-Site", "cross-site"), "another site", action)
			require.Contains(t, s.refused(403, "POST", mail+"/"+path, body, "Origin", "http://other.example"), "another site", action)
		}
	}
	require.Equal(t, two().all, s.all)
	require.Equal(t, 200, s.send("POST", mail+"/pause", "", "Sec-Fetch-Site", "same-origin", "Origin", "http://example.com").Code)
	require.Equal(t, 200, s.send("GET", "/jobs", "", "Sec-Fetch-Site", "cross-site").Code, "a link leads here")
}

func TestBadRequests(t *testing.T) {
	s := serve(t, two(), token)
	for _, c := range []struct {
		method, path, body string
		status             int
		text               string
	}{
		{"POST", "/scale", "", 415, "send JSON, with Content-Type: application/json"},
		{"POST", "/scale", "{", 400, "the body is not as it should be: unexpected EOF"},
		{"POST", "/scale", " ", 400, "the body is not as it should be: it is empty"},
		{"POST", "/scale", "[1]", 400, "it is no JSON object"},
		{"POST", "/scale", "null", 400, `say how many, e.g. {"executors": 3}`},
		{"POST", "/scale", "{}", 400, `say how many`},
		{"POST", "/scale", `{"executors": null}`, 400, `say how many`},
		{"POST", "/scale", `{"executors": "3"}`, 400, "executors is a string; give a whole number"},
		{"POST", "/scale", `{"executors": 1.5}`, 400, "executors is a number 1.5; give a whole number"},
		{"POST", "/scale", `{"executors": 1e99}`, 400, "give a whole number"},
		{"POST", "/scale", `{"executors": -1}`, 400, "cannot have -1 executors"},
		{"POST", "/scale", `{"executors": 3, "force": true}`, 400, `unknown field "force"`},
		{"POST", "/scale", `{"executors": 3} {"executors": 4}`, 400, "there is something behind the value"},
		{"POST", "/scale", `{"executors": 3}]`, 400, "there is something behind the value"},
		{"POST", "/scale", `{"executors": ` + strings.Repeat(" ", maxRequest) + "1}", 413, "longer than 65536 octets"},
		{"POST", "/purge", `{"yes": "yes"}`, 400, "yes is a string; give true or false"},
		{"POST", "/dead/drop", `{"id": 5}`, 400, "id is a number; give text"},
		{"POST", "/dead/drop", `{}`, 400, `say which: {"id": "..."} or {"all": true}`},
		{"POST", "/dead/drop", `{"id": "one", "all": true}`, 400, "say which"},
		{"POST", "/dead/replay", `{"id": "none"}`, 404, `there is no dead letter "none"`},
		{"GET", "/dead?limit=0", "", 400, `parameter "limit": give limit=1 to 1000, id=ID, bodies=true or bodies=false`},
		{"GET", "/dead?limit=1001", "", 400, `parameter "limit"`},
		{"GET", "/dead?limit=1&limit=x", "", 400, `parameter "limit"`},
		{"GET", "/dead?bodies=all", "", 400, `parameter "bodies"`},
		{"GET", "/dead?offset=1", "", 400, `parameter "offset"`},
		{"GET", "/nothing", "", 404, "there is nothing here"},
		{"POST", "/dead/keep", "{}", 404, "there is nothing here"},
	} {
		require.Contains(t, s.refused(c.status, c.method, mail+c.path, c.body), c.text, "%s %s", c.path, c.body[:min(60, len(c.body))])
	}
	require.Equal(t, two().all, s.all)
	require.Equal(t, two().letters, s.letters)
	require.Contains(t, s.refused(404, "GET", "/api/v2/jobs", ""), "there is nothing here")
	require.Contains(t, s.refused(415, "POST", mail+"/scale", `{"executors": 1}`, "Content-Type", "text/plain"), "application/json")
	require.Equal(t, 200, s.send("POST", mail+"/scale", `{"executors": 1}`, "Content-Type", "application/json; charset=utf-8").Code)
}

func TestUnknownJob(t *testing.T) {
	s := serve(t, two(), token)
	for action, body := range actions {
		method, path, _ := strings.Cut(action, " ")
		require.Contains(t, s.refused(404, method, "/api/v1/jobs/x%0A%3Cb%3E/"+path, body), `there is no job "x\n<b>"; GET /api/v1/jobs lists them`, action)
	}
	require.Contains(t, s.refused(404, "GET", "/api/v1/jobs/mail%2Fother", ""), `there is no job "mail/other"`)

	s.all[1].Name = "text_mail"
	for action, body := range actions {
		method, path, _ := strings.Cut(action, " ")
		require.Contains(t, s.refused(409, method, mail+"/"+path, body), "several servers have a job", action)
	}
	require.Equal(t, 3, s.all[0].Wanted)
	s.ok("GET", "/api/v1/jobs/media%2Ftext_mail", "", nil)
}

func TestMethodsNotAllowed(t *testing.T) {
	s := serve(t, two(), token)
	for action := range actions {
		method, path, _ := strings.Cut(action, " ")
		for _, other := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			if other == method {
				continue
			}
			w := s.send(other, mail+"/"+path, "")
			require.Equal(t, 405, w.Code, "%s %s", other, path)
			require.Contains(t, w.Header().Get("Allow"), method)
			require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
		}
	}
	for _, path := range []string{"/api/v1/jobs", mail} {
		require.Equal(t, "DELETE does not go here; send GET, HEAD", s.refused(405, "DELETE", path, ""))
	}
}

func TestJobMetrics(t *testing.T) {
	expected, err := os.ReadFile("testdata/jobs_metrics.txt")
	require.NoError(t, err)
	require.NoError(t, testutil.CollectAndCompare(NewJobMetrics(two()), strings.NewReader(string(expected))))
	problems, err := testutil.CollectAndLint(NewJobMetrics(two()))
	require.NoError(t, err)
	require.Empty(t, problems)

	both, err := Handler(Options{Proxy: full(), Jobs: two()})
	require.NoError(t, err)
	for version, h := range map[string]http.Handler{"v1": both, "v2": serve(t, two(), "").handler} {
		_, text := get(t, h, "GET", "/metrics")
		require.Contains(t, text, `shardmq_dispatch_executors{job="text_mail",server="mail"} 2`)
		require.Equal(t, 1, strings.Count(text, "\nshardmq_build_info{"), text)
		require.Contains(t, text, `shardmq_build_info{version="`+version+`"} 1`)
		require.Contains(t, text, "go_goroutines")
	}
}

func TestJobsReady(t *testing.T) {
	away := two()
	away.all[0].Connected = false
	away.all = append(away.all, away.all[0])
	const reason = "no jobs are fetched, for there is no connection to server mail, media; the log says why"
	noNode := &fake{unreachable: errors.New("no upstream node reachable")}
	for name, c := range map[string]struct {
		o    Options
		code int
		text string
	}{
		"some are connected":  {Options{Jobs: two()}, 200, "ready"},
		"none is":             {Options{Jobs: away}, 503, "not ready: " + reason},
		"there are none":      {Options{Jobs: &jobs{}}, 200, "ready"},
		"the proxy decides":   {Options{Jobs: away, Proxy: full()}, 200, "ready, but " + reason},
		"both are connected":  {Options{Jobs: two(), Proxy: full()}, 200, "ready"},
		"the proxy is not":    {Options{Jobs: two(), Proxy: noNode}, 503, "not ready: no upstream node reachable"},
		"nothing is done yet": {Options{}, 200, "ready"},
	} {
		h, err := Handler(c.o)
		require.NoError(t, err)
		code, text := get(t, h, "GET", "/readyz")
		require.Equal(t, c.code, code, name)
		require.Equal(t, c.text+"\n", text, name)
	}
}

// A dispatcher's jobs are served as they are; a desk that cannot be opened is none.
func TestOfDispatcher(t *testing.T) {
	d := dispatch.New(t.Context(), dispatch.Options{Log: zap.NewNop()})
	h, err := Handler(Options{Jobs: Of(d), Token: token})
	require.NoError(t, err)
	code, text := get(t, h, "GET", "/api/v1/jobs")
	require.Equal(t, 200, code)
	require.JSONEq(t, `{"jobs": []}`, text)
	desk, err := Of(d).Desk(t.Context(), "x")
	require.ErrorIs(t, err, dispatch.ErrNoJob)
	require.Nil(t, desk)
}
