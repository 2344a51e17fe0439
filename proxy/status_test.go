package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/admin"
	"github.com/shardmq/shardmq/dispatch"
	"github.com/shardmq/shardmq/shards/discovery"
)

// adminOf returns the address that the rig's proxy serves health checks on.
func adminOf(t *testing.T, r *rig) string {
	t.Helper()
	lines := r.logs.FilterMessage("serving health checks and metrics").All()
	require.Len(t, lines, 1)
	return lines[0].ContextMap()["address"].(string)
}

func fetch(t *testing.T, address, path string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + address + path)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func TestAdmin(t *testing.T) {
	r := startRig(t, func(o *Options) { o.Admin = "127.0.0.1:0" })
	address := adminOf(t, r)
	code, text := fetch(t, address, "/readyz")
	require.Equal(t, 200, code, text)
	(<-r.broker.conns).Close() // the check's
	r.open(0)
	_, text = fetch(t, address, "/metrics")
	require.Contains(t, text, "\nshardmq_connections 1\n")
	require.Contains(t, text, "\nshardmq_connections_total 1\n")
	require.Contains(t, text, `shardmq_node_connections{node="`+r.broker.addr()+`"} 1`)
	require.NotContains(t, text, "shardmq_node_up", "without policies there is no control connection")
}

type noJobs = admin.Jobs

// oneJob is a job that runs beside the proxy.
type oneJob struct{ noJobs }

func (oneJob) Jobs() []dispatch.Status {
	return []dispatch.Status{{Name: "mail", Server: "s"}}
}

func TestAdminWithJobs(t *testing.T) {
	r := startRig(t, func(o *Options) { o.Admin, o.Jobs, o.AdminToken = "127.0.0.1:0", oneJob{}, "0f1e2d3c4b5a6978" })
	address := adminOf(t, r)
	code, text := fetch(t, address, "/api/v1/jobs")
	require.Equal(t, 200, code)
	require.Contains(t, text, `{"jobs":[{"name":"mail","server":"s"`)
	code, _ = fetch(t, address, "/api/v1/jobs/mail/dead")
	require.Equal(t, 401, code)
	code, text = fetch(t, address, "/readyz")
	(<-r.broker.conns).Close() // the check's
	require.Equal(t, 200, code)
	require.Contains(t, text, "ready, but no jobs are fetched")
}

func TestNotReady(t *testing.T) {
	dead := deadNode(t)
	r := startRig(t, func(o *Options) { o.Admin, o.Nodes = "127.0.0.1:0", []Node{dead} })
	address := adminOf(t, r)
	code, text := fetch(t, address, "/readyz")
	require.Equal(t, 503, code)
	require.Contains(t, text, "not ready: no upstream node reachable: "+dead.Address+": ")
	code, _ = fetch(t, address, "/livez")
	require.Equal(t, 200, code, "restarting does not bring a broker back")

	client := r.dial()
	client.write([]byte("AMQP\x00\x00\x09\x01"))
	require.Eventually(t, func() bool { return r.srv.Status().Refused == 1 }, time.Minute, time.Millisecond)
}

// A node that policies need is up when its control connection stands.
func TestReachableByControlConnection(t *testing.T) {
	b := listenBroker(t) // accepts, and says nothing
	s := newServer(Options{Nodes: []Node{{Name: "rabbit@a", Address: b.addr()}}, Policies: testPolicies(t)})
	defer s.closeTopologies()
	require.NoError(t, s.Reachable(t.Context()), "no topology yet: it accepts connections")
	require.NotNil(t, s.topology("/"))
	require.ErrorContains(t, s.Reachable(t.Context()), b.addr()+": no control connection")
	st := s.Status()
	require.Len(t, st.Vhosts, 1)
	require.True(t, st.Nodes[0].Known)
	require.False(t, st.Nodes[0].Up)

	s.closing = true
	require.ErrorIs(t, s.Reachable(t.Context()), errGoing)
	require.ErrorContains(t, newServer(Options{}).Reachable(t.Context()), noneKnown)
}

func TestAdminAddressIsTaken(t *testing.T) {
	b := listenBroker(t)
	err := Run(t.Context(), Options{Listeners: []Listener{{Address: "127.0.0.1:0"}}, Admin: b.addr(), Nodes: []Node{{Address: "127.0.0.1:1"}}})
	var le *ListenError
	require.ErrorAs(t, err, &le)
	require.Equal(t, b.addr(), le.Address)
}

// finder finds what a test says.
type finder struct {
	mu    sync.Mutex
	nodes []discovery.Node
}

func (s *finder) Nodes(context.Context) ([]discovery.Node, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes == nil {
		return nil, errors.New("no answer")
	}
	return s.nodes, nil
}

func (s *finder) find(nodes ...discovery.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes = nodes
}

func TestDiscoveredNodes(t *testing.T) {
	var found finder
	r := startRig(t, func(o *Options) { o.Nodes, o.Discovery, o.DiscoveryInterval = nil, &found, time.Millisecond })
	require.Empty(t, r.srv.upstreams(), "the proxy runs all the same")
	found.find(discovery.Node{Name: "rabbit@a", Address: r.broker.addr()})
	require.Eventually(t, func() bool { return len(r.srv.upstreams()) == 1 }, time.Minute, time.Millisecond)
	r.open(0)

	other := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}
	found.find(discovery.Node{Name: "rabbit@b", Address: other.String()})
	require.Eventually(t, func() bool {
		now := r.srv.upstreams()
		return len(now) == 1 && now[0].Name == "rabbit@b"
	}, time.Minute, time.Millisecond, "one that is gone is given up after a few answers")
}
