package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/shardmq/shardmq/shards"
	"github.com/shardmq/shardmq/shards/coordination"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a proxy that stands as a test says.
type fake struct {
	status      Status
	unreachable error
}

func (f *fake) Status() Status                  { return f.status }
func (f *fake) Reachable(context.Context) error { return f.unreachable }

func shard(i int, ready uint32, live bool) shards.ShardSnapshot {
	return shards.ShardSnapshot{Shard: shards.Shard{Queue: fmt.Sprint("sharding: images - rabbit@a - ", i), Node: "rabbit@a", Index: i},
		Ready: ready, Consumers: uint32(i), Known: true, Live: live}
}

func full() *fake {
	return &fake{status: Status{
		Version: "v1", Connections: 3, Accepted: 8, Refused: 1, Limit: 9, TurnedAway: 2, AcceptErrors: 5,
		Nodes: []Node{{Name: "rabbit@a", Up: true, Known: true, Connections: 3}, {Name: "b:5672"}},
		Vhosts: []Vhost{{Name: "/", Coordination: coordination.Status{Leads: true, Leader: "p1", Term: 4, Proxies: []string{"p1", "p2"}},
			Exchanges: []shards.ExchangeSnapshot{{Exchange: "images", Vhost: "/", Generation: 2, Consumers: 5, Moves: 6, Differing: 1, Unsharded: 7, Uncovered: []string{"sharding: images - rabbit@a - 1"},
				Shards: []shards.ShardSnapshot{shard(0, 30, true), shard(1, 10, true), shard(2, 99, false)}}}}},
	}}
}

func TestMetrics(t *testing.T) {
	expected, err := os.ReadFile("testdata/metrics.txt")
	require.NoError(t, err)
	require.NoError(t, testutil.CollectAndCompare(NewMetrics(full()), strings.NewReader(string(expected))))
	problems, err := testutil.CollectAndLint(NewMetrics(full()))
	require.NoError(t, err)
	require.Empty(t, problems)
}

// TestDocumentedMetrics: docs/metrics.md lists exactly the metrics there are, with
// their labels and texts.
func TestDocumentedMetrics(t *testing.T) {
	text, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	var documented, there []string
	row := regexp.MustCompile("(?m)^\\| `(shardmq_[a-z_]+)` \\| (gauge|counter|histogram) \\| ([^|]*) \\| ([^|]+) \\|")
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, fmt.Sprintf("%s {%s} %s", m[1], strings.ReplaceAll(strings.Trim(m[3], " –"), "`", ""), m[4]))
		require.Equal(t, strings.HasSuffix(m[1], "_total"), m[2] == "counter", m[1])
	}
	for _, m := range slices.Concat(all, allOfJobs) {
		there = append(there, fmt.Sprintf("%s {%s} %s", m.name, strings.Join(m.labels, ", "), m.help))
	}
	require.Equal(t, there, documented)
}

func TestBoundedSeries(t *testing.T) {
	f := full()
	f.status.Vhosts[0].Exchanges = nil
	for i := range maxExchanges + 5 {
		f.status.Vhosts[0].Exchanges = append(f.status.Vhosts[0].Exchanges, shards.ExchangeSnapshot{Exchange: fmt.Sprint("x", i)})
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewMetrics(f))
	n, err := testutil.GatherAndCount(registry, "shardmq_shards")
	require.NoError(t, err)
	require.Equal(t, maxExchanges, n)
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(
		"# HELP shardmq_exchanges_omitted Exchanges left out of the metrics by their bounds.\n"+
			"# TYPE shardmq_exchanges_omitted gauge\nshardmq_exchanges_omitted 5\n"), "shardmq_exchanges_omitted"))
	many := make([]shards.ShardSnapshot, maxShards+1)
	f.status.Vhosts[0].Exchanges = []shards.ExchangeSnapshot{{Exchange: "large", Shards: many}}
	n, err = testutil.GatherAndCount(registry, "shardmq_shards")
	require.NoError(t, err)
	require.Zero(t, n)
}

// Names are octets, and a node may have shards named in both ways.
func TestOddNames(t *testing.T) {
	f := full()
	x := &f.status.Vhosts[0].Exchanges[0]
	fixed := shard(0, 1, true)
	fixed.Queue = "sharding: images - 0"
	x.Shards = append(x.Shards, fixed)
	f.status.Vhosts[0].Exchanges = append(f.status.Vhosts[0].Exchanges, shards.ExchangeSnapshot{Exchange: "\xff"}, shards.ExchangeSnapshot{Exchange: "\xfe"})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewMetrics(f))
	n, err := testutil.GatherAndCount(registry, "shardmq_shard_messages_ready", "shardmq_shards")
	require.NoError(t, err)
	require.Equal(t, 4+3, n)
}

func TestSkew(t *testing.T) {
	unknown := shard(3, 50, true)
	unknown.Known = false
	for _, c := range []struct {
		shards []shards.ShardSnapshot
		ratio  float64
		known  bool
	}{
		{nil, 0, false},
		{[]shards.ShardSnapshot{unknown, shard(0, 7, false)}, 0, false},
		{[]shards.ShardSnapshot{shard(0, 0, true), shard(1, 0, true)}, 1, true},
		{[]shards.ShardSnapshot{shard(0, 6, true), shard(1, 2, true), unknown}, 1.5, true},
	} {
		ratio, known := skewOf(c.shards)
		require.Equal(t, c.known, known)
		require.InDelta(t, c.ratio, ratio, 1e-9)
	}
}

func get(t *testing.T, h http.Handler, method, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Code, w.Body.String()
}

func TestHealth(t *testing.T) {
	led, leaderless := full(), full()
	leaderless.status.Vhosts[0].Coordination.Leader = ""
	undecided := full()
	undecided.status.Vhosts[0].Coordination.Leader = ""
	undecided.status.Vhosts[0].Exchanges[0].Generation = 0
	alone := full()
	alone.status.Vhosts = []Vhost{{Name: "/", Alone: true}}
	unled := full()
	unled.status.Vhosts = []Vhost{{Name: "/"}, {Name: "v"}}
	for name, c := range map[string]struct {
		src  *fake
		code int
		text string
	}{
		"led":                  {led, 200, "ready"},
		"decided before":       {leaderless, 200, "ready"},
		"nothing decided":      {undecided, 503, "not ready: no proxy leads yet in vhost /"},
		"lacks rights":         {alone, 200, "ready"},
		"no leader, no shards": {unled, 503, "not ready: no proxy leads yet in vhost /, v"},
		"no policies":          {&fake{}, 200, "ready"},
		"no node":              {&fake{unreachable: errors.New("no upstream node reachable")}, 503, "not ready: no upstream node reachable"},
	} {
		h, err := Handler(Options{Proxy: c.src})
		require.NoError(t, err)
		code, text := get(t, h, "GET", "/readyz")
		require.Equal(t, c.code, code, name)
		require.Equal(t, c.text+"\n", text, name)
		for _, path := range []string{"/livez", "/healthz"} {
			code, text = get(t, h, "GET", path)
			require.Equal(t, 200, code)
			require.Equal(t, "alive\n", text)
		}
		code, text = get(t, h, "GET", "/metrics")
		require.Equal(t, 200, code)
		require.Contains(t, text, "shardmq_build_info")
		require.Contains(t, text, "go_goroutines")
		code, _ = get(t, h, "POST", "/metrics")
		require.Equal(t, 405, code)
		code, _ = get(t, h, "GET", "/debug/pprof/")
		require.Equal(t, 404, code)
	}
}

func TestServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	h, err := Handler(Options{Proxy: full()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, h) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + l.Addr().String() + "/livez")
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "alive\n", string(body))
	cancel()
	require.NoError(t, <-done)

	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	require.ErrorIs(t, Serve(t.Context(), closed, h), net.ErrClosed)
}
