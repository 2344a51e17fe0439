package inventory

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestManagementStats(t *testing.T) {
	var path, user string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.EscapedPath()
		user, _, _ = r.BasicAuth()
		_, _ = w.Write([]byte(`[{"name":"q","type":"classic","node":"rabbit@a","messages_unacknowledged":3,
			"message_stats":{"publish_details":{"rate":1.5},"deliver_get_details":{"rate":2.5}}},{"name":"idle"},
			{"name":"r","type":"quorum","node":"rabbit@a","leader":"rabbit@b","members":["rabbit@a","rabbit@b"],"messages_unacknowledged":0}]`))
	}))
	defer s.Close()
	m := &Management{URL: s.URL + "/", Username: "monitor", Password: "p"}
	stats, err := m.Stats(t.Context(), "/")
	require.NoError(t, err)
	require.Equal(t, map[string]Stats{
		"q":    {Unacked: new(int64(3)), Publish: 1.5, Deliver: 2.5, Type: "classic", Node: "rabbit@a"},
		"r":    {Unacked: new(int64(0)), Type: "quorum", Node: "rabbit@b"},
		"idle": {}, // what is not counted yet is not 0
	}, stats)
	require.Equal(t, "/api/queues/%2F", path)
	require.Equal(t, "monitor", user)
	http.DefaultClient.CloseIdleConnections()
}

func TestManagementErrors(t *testing.T) {
	for name, c := range map[string]struct {
		code int
		body string
		want string
	}{
		"refused":  {401, "", "answers 401 Unauthorized (the user needs the tag monitoring)"},
		"unknown":  {404, "", "answers 404 Not Found (is it the address of the management API, and does the user see the vhost?)"},
		"broken":   {500, "", "answers 500 Internal Server Error"},
		"no list":  {200, "{}", "management API: json: cannot unmarshal object"},
		"cut off":  {200, "[{", "management API: unexpected EOF"},
		"redirect": {302, "", "answers 302 Found"},
		"no JSON":  {200, "<html>", "management API: invalid character"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.body))
			}))
			defer s.Close()
			_, err := (&Management{URL: s.URL, Username: "u", Password: "secret"}).Stats(t.Context(), "v")
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}
