package integration

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

// patience bounds every wait for something that has to happen. It is generous: it is reached only by a failure.
const patience = 60 * time.Second

// env is one test's place in a broker: a vhost of its own, or the vhost of AMQP_URL with names of its own.
type env struct {
	t      *testing.T
	broker *rig.Node
	vhost  string
	url    string // directly to the broker
	suffix string // of every name, where the vhost is not ours alone
	goes   bool   // the broker goes when the tests end, and what was made in it too

	nodeName string // see node
}

var envNumber atomic.Uint32

// newEnv gives the test its place in the shared broker.
func newEnv(t *testing.T) *env {
	t.Helper()
	if shared.External() {
		u, err := amqp.ParseURI(shared.URL)
		require.NoError(t, err, "AMQP_URL")
		suffix := fmt.Sprintf("-%x-%04d", time.Now().UnixNano(), envNumber.Add(1))
		return &env{t: t, broker: shared, vhost: u.Vhost, url: shared.URL, suffix: suffix}
	}
	vhost, err := freshVhosts.take(t.Context(), shared)
	require.NoError(t, err)
	return &env{t: t, broker: shared, vhost: vhost, url: shared.URL + "/" + vhost}
}

// newNodeEnv starts a broker for this test alone; its default vhost is the test's.
func newNodeEnv(t *testing.T, o rig.NodeOptions) *env {
	t.Helper()
	node, err := rig.StartNode(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Stop()) })
	return &env{t: t, broker: node, vhost: "/", url: node.URL + "/%2F"}
}

// newCtlEnv is newEnv for tests that need rabbitmqctl: where AMQP_URL names the shared broker they start their own.
func newCtlEnv(t *testing.T) *env {
	t.Helper()
	if shared.External() {
		return newNodeEnv(t, rig.NodeOptions{})
	}
	return newEnv(t)
}

// freshVhosts hands out vhosts that nobody used before. They are made by the dozen, since one run of rabbitmqctl takes
// far longer than what it is asked to do, and are gone when the node is. Their names are of one length: it shows in
// transcripts.
var freshVhosts vhostPool

type vhostPool struct {
	mu   sync.Mutex
	free []string
	made int
}

func (p *vhostPool) take(ctx context.Context, node *rig.Node) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		const dozen = 24
		make := fmt.Sprintf(`[begin V = list_to_binary(io_lib:format("test-~4..0B", [I])), ok = rabbit_vhost:add(V, <<"rig">>),
			ok = rabbit_auth_backend_internal:set_permissions(<<"guest">>, V, <<".*">>, <<".*">>, <<".*">>, <<"rig">>)
			end || I <- lists:seq(%d, %d)].`, p.made+1, p.made+dozen)
		if _, err := node.Ctl(ctx, "eval", make); err != nil {
			return "", fmt.Errorf("make vhosts: %w", err)
		}
		for i := range dozen {
			p.free = append(p.free, fmt.Sprintf("test-%04d", p.made+1+i))
		}
		p.made += dozen
	}
	vhost := p.free[0]
	p.free = p.free[1:]
	return vhost, nil
}

// ctl runs rabbitmqctl on the test's broker.
func (e *env) ctl(args ...string) string {
	e.t.Helper()
	out, err := e.broker.Ctl(e.t.Context(), args...)
	require.NoError(e.t, err)
	return out
}

// closeConnectionsOf has the broker close all connections of a user. rabbitmqctl fails over one that ends by itself at that moment, and goes no further.
func (e *env) closeConnectionsOf(user string) {
	e.t.Helper()
	eventually(e.t, "connections closed", func() string {
		if _, err := e.broker.Ctl(e.t.Context(), "close_all_user_connections", user, "time for tea"); err != nil {
			return err.Error()
		}
		return ""
	})
}

// name returns the name of an exchange or queue: the plain one where the vhost is the test's alone. Otherwise what it
// names, as exchange and as queue, is removed after the test.
func (e *env) name(plain string) string {
	if e.suffix == "" || e.goes {
		return plain + e.suffix
	}
	name := plain + e.suffix
	e.t.Cleanup(func() { e.remove(name) })
	return name
}

func (e *env) remove(name string) {
	conn, err := amqp.Dial(e.url)
	if err != nil {
		return
	}
	defer conn.Close()
	for _, exchange := range []string{name, name + ".unsharded"} {
		if ch, err := conn.Channel(); err == nil && len(exchange) < 256 {
			_ = ch.ExchangeDelete(exchange, false, false)
		}
	}
	ch, err := conn.Channel()
	if err != nil {
		return
	}
	_, _ = ch.QueueDelete(name, false, false, true)
	for i := range 128 { // without waiting; what is not there is no error
		if queue := e.shard(name, i); len(queue) < 256 {
			_, _ = ch.QueueDelete(queue, false, false, true)
		}
	}
	_ = ch.Close()
}

// proxy starts shardmq in front of the test's broker with N shards for each named exchange, and stops it at the end.
func (e *env) proxy(shards map[string]int, args ...string) *rig.Proxy {
	e.t.Helper()
	return e.start(rig.ProxyOptions{Upstream: e.url, Shards: shards, Args: args})
}

// proxyWith starts shardmq with policies (YAML, a list) for the test's vhost.
func (e *env) proxyWith(policies string) *rig.Proxy {
	e.t.Helper()
	return e.start(rig.ProxyOptions{Upstream: e.url, Config: e.config(e.broker.Addr, policies)})
}

// config is the text of a shardmq.yaml for the broker, reached at address, which ends with policies (YAML, a list).
// Further top-level keys may follow.
func (e *env) config(address, policies string) string {
	e.t.Helper()
	u, err := amqp.ParseURI(e.url)
	require.NoError(e.t, err)
	return fmt.Sprintf(`listeners:
  - address: "127.0.0.1:0"
upstream:
  nodes:
    - {address: %q}
  control: {username: %q, password: %q}
  dial-timeout: 2s
policies:
%s`, address, u.Username, u.Password, policies)
}

// policy is a line of policies: N shards for one literal name in the test's vhost, and more of the definition.
func (e *env) policy(exchange string, n int, more string) string {
	return fmt.Sprintf("  - {name: %q, vhost: %q, pattern: '^%s$', definition: {shards-per-node: %d%s}}\n", exchange, e.vhost, exchange, n, more)
}

func (e *env) start(o rig.ProxyOptions) *rig.Proxy {
	e.t.Helper()
	p, err := rig.StartProxy(e.t.Context(), o)
	require.NoError(e.t, err)
	e.t.Cleanup(func() {
		code, err := p.Stop()
		if e.t.Failed() {
			e.t.Logf("the proxy's log:\n%s", lastLines(p.Logs(), 60))
			return
		}
		require.NoError(e.t, err)
		require.Zero(e.t, code, "the proxy's exit code; its log:\n%s", p.Logs())
		require.NotContains(e.t, p.Logs(), "panic", "a session of the proxy panicked")
		require.NotContains(e.t, p.Logs(), "DATA RACE")
	})
	return p
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > n {
		lines = append([]string{fmt.Sprintf("(%d lines before)", len(lines)-n)}, lines[len(lines)-n:]...)
	}
	return strings.Join(lines, "\n")
}

// withUser returns an AMQP URL for another user or password.
func withUser(t *testing.T, address, user, password string) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	u.User = url.UserPassword(user, password)
	return u.String()
}

// withHost returns an AMQP URL for another host and port.
func withHost(t *testing.T, address, host string) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	u.Host = host
	return u.String()
}

// withVhost returns an AMQP URL for another vhost.
func withVhost(t *testing.T, address, vhost string) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	u.Path, u.RawPath = "/"+vhost, "/"+url.PathEscape(vhost)
	return u.String()
}

// eventually waits until the condition says "": anything else is what is still wrong.
func eventually(t *testing.T, what string, condition func() string) {
	t.Helper()
	eventuallyEvery(t, 20*time.Millisecond, what, condition)
}

// eventuallyEvery is eventually for conditions that cost something to look at: it looks once in every interval.
func eventuallyEvery(t *testing.T, interval time.Duration, what string, condition func() string) {
	t.Helper()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		wrong := condition()
		if wrong == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			require.FailNow(t, what+": did not come about", wrong)
		}
	}
}

// logged waits until the proxy's log has all these words in one line.
func logged(t *testing.T, p *rig.Proxy, words ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("a line with %q in the log", words), func() string {
		for line := range strings.Lines(p.Logs()) {
			if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
				return ""
			}
		}
		return "there is none"
	})
}

// body returns n octets that repeat nowhere near a frame's size, so that a lost or doubled piece shows.
func body(n int) []byte {
	return bytes.Repeat([]byte("0123456789abcdefghijklmnopqrstuvwxyz-"), n/37+1)[:n]
}
