package discovery

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	threeNodes = `[{"name":"rabbit@b.example","running":true,"x":{}},{"name":"rabbit@a.example","running":true},{"name":"rabbit@c.example","running":false}]`
	listeners  = `{"listeners":[{"node":"rabbit@a.example","protocol":"clustering","port":25672},
		{"node":"rabbit@a.example","protocol":"amqp","ip_address":"::","port":5672},{"node":"rabbit@a.example","protocol":"amqp/ssl","port":5671},
		{"node":"rabbit@b.example","protocol":"amqp","port":5672},{"node":"rabbit@b.example","protocol":"amqp","port":5999},
		{"node":"rabbit@b.example","protocol":"amqp/ssl","port":5681}]}`
)

// api serves documents by path, below /rabbit, to the user u with the password pw.
func api(t *testing.T, documents map[string]string) Management {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		text, found := documents[strings.TrimPrefix(r.URL.Path, "/rabbit")]
		switch {
		case user != "u" || password != "pw":
			w.WriteHeader(http.StatusUnauthorized)
		case !found:
			http.NotFound(w, r)
		case strings.HasPrefix(text, "http"):
			http.Redirect(w, r, text, http.StatusFound)
		default:
			_, _ = w.Write([]byte(text))
		}
	}))
	t.Cleanup(func() { s.Client().CloseIdleConnections(); s.Close() })
	return Management{URL: s.URL + "/rabbit/", Username: "u", Password: "pw", Client: s.Client()}
}

func TestManagement(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Management)
		want   []Node
	}{
		{"as the nodes say", func(*Management) {}, []Node{
			{"rabbit@a.example", "a.example:5672", ""}, {"rabbit@b.example", "b.example:5672", ""}, {"rabbit@c.example", "c.example:5672", ""},
		}},
		{"TLS, ports that differ", func(m *Management) { m.TLS = true; m.Zone = "z" }, []Node{
			{"rabbit@a.example", "a.example:5671", "z"}, {"rabbit@b.example", "b.example:5681", "z"}, {"rabbit@c.example", "", "z"},
		}},
		{"a port and a host of our own", func(m *Management) { m.Port = 7; m.Host = "{host}.other" }, []Node{
			{"rabbit@a.example", "a.other:7", ""}, {"rabbit@b.example", "b.other:7", ""}, {"rabbit@c.example", "c.other:7", ""},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := api(t, map[string]string{"/api/nodes": threeNodes, "/api/overview": listeners})
			tt.change(&m)
			nodes, err := m.Nodes(t.Context())
			require.NoError(t, err)
			require.Equal(t, tt.want, nodes)
		})
	}
}

func TestManagementFailures(t *testing.T) {
	good := map[string]string{"/api/nodes": threeNodes, "/api/overview": listeners}
	for _, tt := range []struct {
		name      string
		documents map[string]string
		change    func(*Management)
		want      string
	}{
		{"password", good, func(m *Management) { m.Password = "secret" }, "answers 401 Unauthorized: the user needs the tag monitoring"},
		{"another server", nil, nil, "/api/nodes answers 404 Not Found"},
		{"no overview", map[string]string{"/api/nodes": threeNodes}, nil, "/api/overview answers 404"},
		{"not JSON", map[string]string{"/api/nodes": "<html>"}, nil, "invalid character"},
		{"not a node", map[string]string{"/api/nodes": `[{"name":"rabbit"}]`, "/api/overview": listeners}, nil, `"rabbit" is not the name of a node`},
		{"too long", map[string]string{"/api/nodes": "[" + strings.Repeat(" ", maxAnswer) + "]"}, nil, "longer than 8 MiB"},
		{"redirect", map[string]string{"/api/nodes": "http://192.0.2.1/"}, nil, ErrRedirected.Error()},
		{"nobody there", good, func(m *Management) { m.URL = "http://user:secret@127.0.0.1:1" }, "management API: "},
		{"no URL", good, func(m *Management) { m.URL = "http://user:secret@[" }, "management API: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := api(t, tt.documents)
			if tt.change != nil {
				tt.change(&m)
			}
			nodes, err := m.Nodes(t.Context())
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "secret")
			require.Empty(t, nodes)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := api(t, good).Nodes(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

// The injected client's transport is what is used.
func TestManagementTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("[]")) }))
	s.Config.ErrorLog = nil
	t.Cleanup(func() { s.Client().CloseIdleConnections(); s.Close() })
	nodes, err := Management{URL: s.URL, Port: 1, Client: s.Client()}.Nodes(t.Context())
	require.NoError(t, err)
	require.Empty(t, nodes)
	strict := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}}
	_, err = Management{URL: s.URL, Port: 1, Client: strict}.Nodes(t.Context())
	var unknown *tls.CertificateVerificationError
	require.ErrorAs(t, err, &unknown)
}
