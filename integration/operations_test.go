package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/admin/inventory"
	"github.com/shardmq/shardmq/integration/rig"
	"github.com/shardmq/shardmq/shards"
)

// shardmq runs the binary and returns what it prints and its exit code.
func shardmq(t *testing.T, args ...string) (stdout string, code int) {
	t.Helper()
	binary, err := rig.BuildProxy(t.Context())
	require.NoError(t, err)
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Logf("%v: exit code %d\n%s", args, exit.ExitCode(), errOut.String())
		return out.String(), exit.ExitCode()
	}
	require.NoError(t, err, errOut.String())
	return out.String(), 0
}

// configFile writes a file for commands.
func configFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "shardmq.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// listShards runs "shardmq shards list" and returns the shards of the only exchange.
func listShards(t *testing.T, args ...string) (inventory.Listing, map[string]inventory.Shard) {
	t.Helper()
	text, code := shardmq(t, append([]string{"shards", "list", "--output", "json", "--interval", "0s"}, args...)...)
	require.Zero(t, code)
	var out struct{ Vhosts []inventory.Listing }
	require.NoError(t, json.Unmarshal([]byte(text), &out), text)
	require.Len(t, out.Vhosts, 1)
	require.Len(t, out.Vhosts[0].Exchanges, 1)
	all := map[string]inventory.Shard{}
	for _, s := range out.Vhosts[0].Exchanges[0].Shards {
		all[s.Queue] = s
	}
	return out.Vhosts[0], all
}

// TestShardsCommands: what nobody knows of is found and removed, what is in use or has messages stays; with a proxy
// that runs, and without.
func TestShardsCommands(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	name := e.name("images")
	text := e.config(e.broker.Addr, e.policy(name, 2, ""))
	file := configFile(t, text)
	ch := open(t, e.url)
	p := e.start(rig.ProxyOptions{Upstream: e.url, Config: text})
	client := open(t, p.URL)
	require.NoError(t, client.ExchangeDeclare(name, "x-modulus-hash", true, false, false, false, nil))
	_, err := client.Consume(name, "", false, false, false, false, nil)
	require.NoError(t, err)
	for _, i := range []int{5, 6, 9} { // beyond a gap: those before it the proxy finds by itself
		_, err := ch.QueueDeclare(e.shard(name, i), true, false, false, false, nil)
		require.NoError(t, err)
		require.NoError(t, ch.QueueBind(e.shard(name, i), "", name, false, nil))
	}
	require.NoError(t, ch.PublishWithContext(t.Context(), "", e.shard(name, 6), true, false, amqp.Publishing{Body: []byte("left")}))

	var l inventory.Listing
	var all map[string]inventory.Shard
	eventually(t, "the proxy leads, and both its shards are consumed", func() string {
		l, all = listShards(t, "--config", file)
		for i := range 2 {
			if s := all[e.shard(name, i)]; s.Consumers == nil || *s.Consumers != 1 {
				return fmt.Sprintf("%+v", s)
			}
		}
		if l.Leader == "" {
			return "nobody leads"
		}
		return ""
	})
	require.Equal(t, 1, l.Proxies)
	require.Len(t, all, 5)
	for i, want := range map[int]inventory.Status{0: inventory.Active, 1: inventory.Active, 5: inventory.Surplus, 6: inventory.Surplus, 9: inventory.Surplus} {
		require.Equal(t, want, all[e.shard(name, i)].Status, i)
	}

	out, code := shardmq(t, "shards", "prune", "--config", file)
	require.Zero(t, code)
	require.Contains(t, out, "nothing has been deleted: run again with --yes to delete 2 shards")
	require.True(t, e.exists(e.shard(name, 5)))
	out, code = shardmq(t, "shards", "prune", "--config", file, "--yes")
	require.Equal(t, 1, code, "one had to stay")
	require.Contains(t, out, "1 message ready")
	for i, want := range map[int]bool{0: true, 1: true, 5: false, 6: true, 9: false} {
		require.Equal(t, want, e.exists(e.shard(name, i)), i)
	}

	// A policy that is gone: all is surplus, but a running proxy still wants it.
	other := configFile(t, e.config(e.broker.Addr, e.policy("other", 1, "")))
	out, code = shardmq(t, "shards", "prune", "--config", other, "--vhost", e.vhost, "--yes", name)
	require.Equal(t, 1, code)
	require.Contains(t, out, "1 message ready")
	require.NotContains(t, out, "deleted")

	_, err = p.Stop()
	require.NoError(t, err)
	out, code = shardmq(t, "shards", "list", "--config", file)
	require.Zero(t, code)
	require.Contains(t, out, "0 proxies")
	_, err = ch.QueuePurge(e.shard(name, 6), false)
	require.NoError(t, err)
	_, code = shardmq(t, "shards", "prune", "--config", file, "--yes")
	require.Zero(t, code)
	require.False(t, e.exists(e.shard(name, 6)))
	require.True(t, e.exists(e.shard(name, 0)))
}

// TestReloadPolicies: a file that is replaced is taken over without a signal, also for connections that are there; a
// bad one changes nothing.
func TestReloadPolicies(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	name, second := e.name("images"), e.name("thumbs")
	file := func(policies, more string) string { return e.config(e.broker.Addr, policies) + more }
	p := e.start(rig.ProxyOptions{Upstream: e.url, Config: file("  []\n", "")})
	client := open(t, p.URL) // from before its vhost had any policy
	require.NoError(t, client.ExchangeDeclare(second, "fanout", true, false, false, false, nil))

	require.NoError(t, p.Configure(file(e.policy(name, 2, ""), "")))
	logged(t, p, "configuration reloaded")
	logged(t, p, "policy added", name)
	require.NoError(t, client.ExchangeDeclare(name, shards.ModulusHash, true, false, false, false, nil))
	require.True(t, e.exists(e.shard(name, 1)))

	require.NoError(t, p.Configure(file(e.policy(name, 0, ""), "log: {level: loud}\n")))
	require.NoError(t, p.Signal(syscall.SIGHUP))
	logged(t, p, "configuration not reloaded", "shards-per-node: is 0", "log.level: is")
	require.False(t, e.exists(e.shard(name, 2)))

	require.NoError(t, p.Configure(file(e.policy(name, 4, ""), "proxy: {drain-timeout: 3s}\n")))
	require.NoError(t, p.Signal(syscall.SIGHUP))
	logged(t, p, "policy changed", "definition.shards-per-node: 2 -> 4")
	logged(t, p, "needs a restart", "proxy")
	eventually(t, "four shards", func() string {
		if !e.exists(e.shard(name, 3)) {
			return "there are fewer"
		}
		return ""
	})
	require.NoError(t, client.PublishWithContext(t.Context(), second, "", false, false, amqp.Publishing{}), "the connection has been there all the time")
	require.False(t, client.IsClosed())
}

var adminAddress = regexp.MustCompile(`"serving health checks and metrics","address":"([^"]+)"`)

// fetch asks the admin listener of a proxy.
func fetch(t *testing.T, p *rig.Proxy, path string) (code int, text string) {
	t.Helper()
	m := adminAddress.FindStringSubmatch(p.Logs())
	require.NotNil(t, m, "the admin listener's line in the log")
	resp, err := http.Get("http://" + m[1] + path)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

// TestAdminListener: ready once the proxy leads or is led, and depths of shards without asking for them.
func TestAdminListener(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	name := e.name("images")
	p := e.proxy(map[string]int{name: 2}, "--admin", "127.0.0.1:0")
	eventually(t, "ready", func() string {
		code, text := fetch(t, p, "/readyz")
		if code != 200 {
			return text
		}
		return ""
	})
	client := open(t, p.URL)
	require.NoError(t, client.ExchangeDeclare(name, shards.ModulusHash, true, false, false, false, nil))
	require.NoError(t, client.PublishWithContext(t.Context(), name, "k", true, false, amqp.Publishing{Body: []byte("x")}))
	for _, line := range []string{
		fmt.Sprintf(`shardmq_leader{vhost="%s"} 1`, e.vhost),
		fmt.Sprintf(`shardmq_proxies{vhost="%s"} 1`, e.vhost),
		fmt.Sprintf(`shardmq_shards_live{exchange="%s",vhost="%s"} 2`, name, e.vhost),
		fmt.Sprintf(`shardmq_shard_skew_ratio{exchange="%s",vhost="%s"} 2`, name, e.vhost),
		"shardmq_connections 1",
	} {
		eventually(t, line, func() string {
			if _, text := fetch(t, p, "/metrics"); !strings.Contains(text, "\n"+line+"\n") {
				return text
			}
			return ""
		})
	}
}
