package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/admin/inventory"
	"github.com/shardmq/shardmq/integration/rig"
	"github.com/shardmq/shardmq/shards/coordination"
)

// TestShardsListNodes: shards of a fixed total say which node they are on: classic ones where they were placed, and
// quorum ones where their leader is, if RabbitMQ's management API can be asked. One that answers nothing of use costs no
// more than that.
func TestShardsListNodes(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		port, err := rig.FreePort()
		require.NoError(t, err)
		e := newNodeEnv(t, rig.NodeOptions{Version: version, Plugins: []string{"rabbitmq_management"},
			Config: fmt.Sprintf("management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = %d\n", port)})
		policies := "  - {name: fixed, pattern: '^fixed$', definition: {shards: 2}}\n" +
			"  - {name: audit, pattern: '^audit$', definition: {shards: 2, queue-arguments: {x-queue-type: quorum}}}\n"
		p := e.proxyWith(policies)
		client := open(t, p.URL)
		declareSharded(t, client, "fixed")
		declareSharded(t, client, "audit")

		// Without the API.
		l, errOut := list(t, e.config(e.broker.Addr, policies))
		require.Empty(t, errOut)
		requireNodes(t, l, map[string]string{"sharding: fixed - 0": e.broker.Name, "sharding: fixed - 1": e.broker.Name,
			"sharding: audit - 0": "", "sharding: audit - 1": ""})

		with := func(url string) string {
			return fmt.Sprintf("upstream:\n  nodes: [{name: %q, address: %q}]\n  discovery: {management: {url: %q}}\npolicies:\n%s",
				e.broker.Name, e.broker.Addr, url, policies)
		}
		everywhere := map[string]string{"sharding: fixed - 0": e.broker.Name, "sharding: fixed - 1": e.broker.Name,
			"sharding: audit - 0": e.broker.Name, "sharding: audit - 1": e.broker.Name}
		l, errOut = list(t, with(fmt.Sprintf("http://127.0.0.1:%d", port)))
		require.Empty(t, errOut)
		requireNodes(t, l, everywhere)
		for _, x := range l.Exchanges {
			for _, s := range x.Shards {
				require.Equal(t, map[string]string{"fixed": "classic", "audit": "quorum"}[x.Name], s.Type)
			}
		}

		for name, answer := range map[string]http.HandlerFunc{
			"401 Unauthorized": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
			"404 Not Found":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
			"invalid character": func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte("<html>a page of somebody else's</html>"))
			},
			"EOF": func(w http.ResponseWriter, _ *http.Request) {
				panic(http.ErrAbortHandler) // the connection ends
			},
		} {
			api := httptest.NewServer(answer)
			l, errOut = list(t, with(api.URL))
			api.Close()
			require.Contains(t, errOut, "shardmq: warning: vhost /: look for nodes: ", name)
			require.Contains(t, errOut, "shardmq: warning: vhost /: management API: ", name)
			require.Contains(t, errOut, name)
			require.Len(t, l.Warnings, 2)
			requireNodes(t, l, map[string]string{"sharding: fixed - 0": e.broker.Name, "sharding: audit - 0": ""})
			require.Equal(t, 1, l.Proxies, "what proxies say is heard all the same")
		}
	}, "", "4.3")
}

// list runs "shardmq shards list" on all that a file names, and returns the only vhost and what is said besides.
func list(t *testing.T, config string) (inventory.Listing, string) {
	t.Helper()
	binary, err := rig.BuildProxy(t.Context())
	require.NoError(t, err)
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary, "shards", "list", "--output", "json", "--interval", "0s", "--config", configFile(t, config))
	cmd.Stdout, cmd.Stderr = &out, &errOut
	require.NoError(t, cmd.Run(), errOut.String())
	var all struct{ Vhosts []inventory.Listing }
	require.NoError(t, json.Unmarshal(out.Bytes(), &all), out.String())
	require.Len(t, all.Vhosts, 1)
	return all.Vhosts[0], errOut.String()
}

// requireNodes checks where shards are said to be.
func requireNodes(t *testing.T, l inventory.Listing, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for _, x := range l.Exchanges {
		for _, s := range x.Shards {
			require.Empty(t, s.Problem)
			if _, asked := want[s.Queue]; asked {
				got[s.Queue] = s.Node
			}
		}
	}
	require.Equal(t, want, got)
}

// TestShardsListGarbage: somebody publishes what no proxy understands to where proxies tell each other what there is.
// Listing says so and goes on; nothing is removed meanwhile.
func TestShardsListGarbage(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	name := e.name("images")
	text := e.config(e.broker.Addr, e.policy(name, 2, ""))
	l, errOut := list(t, text)
	require.Empty(t, errOut, "no proxy has ever run")
	require.Empty(t, l.Warnings)

	p := e.start(rig.ProxyOptions{Upstream: e.url, Config: text})
	declareSharded(t, open(t, p.URL), name)
	ch := open(t, e.url)
	_, err := ch.QueueDeclare(e.shard(name, 7), true, false, false, false, nil)
	require.NoError(t, err)
	eventually(t, "a leader", func() string {
		if l, _ = list(t, text); l.Leader == "" {
			return "nobody leads"
		}
		return ""
	})
	requireListed := func(proxies int) {
		require.Equal(t, proxies, l.Proxies)
		require.Len(t, l.Exchanges, 1)
		require.Len(t, l.Exchanges[0].Shards, 3)
		require.NotZero(t, l.Term, "what was decided is known")
	}
	garbage := func(exchange, key string) {
		for _, user := range []string{"guest", ""} {
			require.NoError(t, ch.PublishWithContext(t.Context(), exchange, key, false, false, amqp.Publishing{UserId: user, Body: []byte("garbage")}))
		}
	}
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				garbage(coordination.MembersExchange, "")
			case <-stop:
				return
			}
		}
	}()
	l, errOut = list(t, text)
	pruned, code := shardmq(t, "shards", "prune", "--yes", "--config", configFile(t, text))
	close(stop)
	<-stopped
	requireListed(1)
	require.Regexp(t, `warning: vhost `+e.vhost+`: exchange 'shardmq.members': \d+ messages left out that cannot be read: decode coordination message: invalid character 'g'`, errOut)
	require.Regexp(t, `warning: vhost `+e.vhost+`: exchange 'shardmq.members': \d+ messages left out that another user has sent`, errOut)
	require.Len(t, l.Warnings, 2)
	require.Equal(t, 1, code, "the surplus shard had to stay")
	require.Contains(t, pruned, "could not be heard and read altogether")
	require.True(t, e.exists(e.shard(name, 7)))

	_, err = p.Stop()
	require.NoError(t, err)
	garbage("", coordination.StateQueue)
	l, errOut = list(t, text)
	requireListed(0)
	require.Contains(t, errOut, "queue 'shardmq.state': 1 message left out that cannot be read: decode stored state: invalid character 'g'")
	require.Contains(t, errOut, "queue 'shardmq.state': 1 message left out that another user has sent")
	_, code = shardmq(t, "shards", "prune", "--yes", "--config", configFile(t, text))
	require.Equal(t, 1, code)
	require.True(t, e.exists(e.shard(name, 7)))

	// The next leader cleans up.
	p = e.start(rig.ProxyOptions{Upstream: e.url, Config: text})
	eventually(t, "a leader that has stored its state", func() string {
		if l, errOut = list(t, text); l.Leader == "" {
			return "nobody leads"
		}
		return errOut
	})
	_, err = p.Stop()
	require.NoError(t, err)
	l, errOut = list(t, text)
	require.Empty(t, errOut)
	requireListed(0)
	_, code = shardmq(t, "shards", "prune", "--yes", "--config", configFile(t, text))
	require.Zero(t, code)
	require.False(t, e.exists(e.shard(name, 7)))
}

// TestShardsListWithoutExchange: the stored state is read also where the proxies' exchange is gone.
func TestShardsListWithoutExchange(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	name := e.name("images")
	text := e.config(e.broker.Addr, e.policy(name, 2, ""))
	p := e.start(rig.ProxyOptions{Upstream: e.url, Config: text})
	declareSharded(t, open(t, p.URL), name)
	eventually(t, "a leader", func() string {
		if l, _ := list(t, text); l.Leader == "" {
			return "nobody leads"
		}
		return ""
	})
	_, err := p.Stop()
	require.NoError(t, err)
	require.NoError(t, open(t, e.url).ExchangeDelete(coordination.MembersExchange, false, false))
	l, errOut := list(t, text)
	require.Empty(t, errOut)
	require.NotZero(t, l.Term)
}

// TestListenerHeld: a broker that answers no more while proxies are listened to costs no more than what they say.
func TestListenerHeld(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	p := e.proxy(map[string]int{e.name("images"): 2})
	eventually(t, "a leader that has stored its state", func() string {
		if !strings.Contains(p.Logs(), `"msg":"elected"`) {
			return "there is none"
		}
		return ""
	})
	_, err := p.Stop()
	require.NoError(t, err)
	all := hearMembers(t, e.url)
	path := newLink(t, e.broker.Addr)
	listener := inventory.Listener{Addresses: []string{path.addr}, Vhost: e.vhost, Username: "guest", Password: "guest"}
	heard := make(chan *inventory.View, 1)
	go func() {
		v, err := listener.Listen(t.Context(), 3*time.Second)
		if err != nil {
			t.Error(err)
		}
		heard <- v
	}()
	require.Equal(t, coordination.Who(""), wait(t, "the question of somebody who listens", all).Body)
	path.hold(true)
	v := wait(t, "what was heard", heard)
	require.True(t, v.Partial)
	require.Len(t, v.Warnings(), 1)
	require.Contains(t, v.Warnings()[0], "RabbitMQ has not answered within ")
}
