package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/proxy"
	"github.com/shardmq/shardmq/shards"
)

// result is what one run of the command line did.
type result struct {
	code           int
	stdout, stderr string
	options        *proxy.Options // nil if the proxy was not started
}

// shardmq runs a command line; the proxy it would start returns runErr.
func shardmq(runErr error, args ...string) result {
	var stdout, stderr bytes.Buffer
	var r result
	a := &app{stdout: &stdout, stderr: &stderr, run: func(_ context.Context, o proxy.Options) error {
		r.options = &o
		if runErr == nil && o.Ready != nil {
			o.Ready([]net.Addr{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711}})
		}
		return runErr
	}}
	r.code = a.main(context.Background(), args)
	r.stdout, r.stderr = stdout.String(), stderr.String()
	return r
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "shardmq.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// comparedPart leaves out of the options what cannot be compared.
func comparedPart(o *proxy.Options) proxy.Options {
	c := *o
	c.Policies, c.Log, c.Ready, c.Updates, c.UpstreamTLS = nil, nil, nil, nil, nil
	return c
}

func TestFlagsToOptions(t *testing.T) {
	base := proxy.Options{
		Listeners: []proxy.Listener{{Address: ":5673"}}, Nodes: []proxy.Node{{Address: "localhost:5672"}},
		ControlUsername: "guest", ControlPassword: "guest",
		DialTimeout: 5 * time.Second, HandshakeTimeout: 10 * time.Second, DrainTimeout: 10 * time.Second,
		Prefer: proxy.LeastConnections, Version: version(), Flags: true,
	}
	with := func(change func(o *proxy.Options)) proxy.Options {
		o := base
		change(&o)
		return o
	}
	for _, c := range []struct {
		args string
		want proxy.Options
	}{
		{"proxy", base},
		{"proxy --listen :1 --listen [::1]:2", with(func(o *proxy.Options) { o.Listeners = []proxy.Listener{{Address: ":1"}, {Address: "[::1]:2"}} })},
		{"proxy --admin 127.0.0.1:15673", with(func(o *proxy.Options) { o.Admin = "127.0.0.1:15673" })},
		{"proxy --listen 127.0.0.1:0 --listen 127.0.0.1:0", with(func(o *proxy.Options) {
			o.Listeners = []proxy.Listener{{Address: "127.0.0.1:0"}, {Address: "127.0.0.1:0"}}
		})},
		{"proxy --upstream amqp://u%40x:p%3aw@h", with(func(o *proxy.Options) {
			o.Nodes, o.ControlUsername, o.ControlPassword = []proxy.Node{{Address: "h:5672"}}, "u@x", "p:w"
		})},
		{"proxy --upstream amqps://h", with(func(o *proxy.Options) { o.Nodes = []proxy.Node{{Address: "h:5671", TLS: true}} })},
		{"proxy --upstream amqp://[::1]:5 --node-name rabbit@a", with(func(o *proxy.Options) {
			o.Nodes = []proxy.Node{{Name: "rabbit@a", Address: "[::1]:5"}}
		})},
		{"proxy --upstream amqp://a:1 --node-name x@a --upstream amqp://b:2 --node-name x@b", with(func(o *proxy.Options) {
			o.Nodes = []proxy.Node{{Name: "x@a", Address: "a:1"}, {Name: "x@b", Address: "b:2"}}
		})},
	} {
		r := shardmq(nil, strings.Fields(c.args)...)
		require.Zero(t, r.code, "%s: %s", c.args, r.stderr)
		require.Equal(t, c.want, comparedPart(r.options), c.args)
		require.NotNil(t, r.options.Log)
		require.NotNil(t, r.options.Policies)
	}
}

func TestShardFlags(t *testing.T) {
	r := shardmq(nil, "proxy", "--upstream", "amqp://u:p@h:1/%2fprod", "--shard", "images=4", "--shard", "a=b.c,d;e=1", "--hash", "phash2")
	require.Zero(t, r.code, r.stderr)
	for name, n := range map[string]int{"images": 4, "a=b.c,d;e": 1} {
		p := r.options.Policies.Match("/prod", name)
		require.NotNil(t, p, name)
		require.Equal(t, shards.Definition{ShardsPerNode: n, Hash: shards.HashPhash2}, p.Definition)
		literal, ok := p.Literal()
		require.True(t, ok)
		require.Equal(t, name, literal)
		require.Nil(t, r.options.Policies.Match("/", name), "another vhost")
	}
	require.Nil(t, r.options.Policies.Match("/prod", "a=bxc,d;e"), "the name is no pattern")
	for _, url := range []string{"amqp://h", "amqp://h/", "amqp://h/%2F"} {
		r := shardmq(nil, "proxy", "--upstream", url, "--shard", "images=4")
		require.NotNil(t, r.options.Policies.Match("/", "images"), url)
	}
}

const fileText = `
listeners: [{address: "127.0.0.1:0"}]
upstream:
  nodes: [{name: rabbit@a, address: "a:5672"}, {name: rabbit@b, address: "b:5672"}]
  control: {username: u, password: hunter2}
  dial-timeout: 1s
proxy: {handshake-timeout: 2s, drain-timeout: 3s, max-connections: 500}
policies: [{name: images, vhost: v, pattern: "^images", definition: {shards-per-node: 4}}]
log: {level: warn, format: json}
`

func TestFileToOptions(t *testing.T) {
	r := shardmq(nil, "proxy", "--config", write(t, fileText))
	require.Zero(t, r.code, r.stderr)
	require.Equal(t, proxy.Options{
		Listeners: []proxy.Listener{{Address: "127.0.0.1:0"}}, Nodes: []proxy.Node{{Name: "rabbit@a", Address: "a:5672"}, {Name: "rabbit@b", Address: "b:5672"}},
		ControlUsername: "u", ControlPassword: "hunter2",
		DialTimeout: time.Second, HandshakeTimeout: 2 * time.Second, DrainTimeout: 3 * time.Second, MaxConnections: 500,
		Prefer: proxy.LeastConnections, Version: version(),
	}, comparedPart(r.options))
	require.NotNil(t, r.options.Policies.Match("v", "images.jpg"))
	require.Empty(t, r.stderr, "level warn")

	r = shardmq(nil, "proxy", "-c", write(t, fileText), "--log-level", "debug")
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stderr, `"msg":"flag overrides configuration file","flag":"--log-level","file":"warn","used":"debug"`)
	require.NotContains(t, r.stderr, "hunter2")
}

func TestListeningIsLogged(t *testing.T) {
	r := shardmq(nil, "proxy", "--log-format", "json", "--shard", "a=1")
	var found bool
	for line := range strings.Lines(r.stderr) {
		var entry struct{ Level, Time, Msg, Address string }
		require.NoError(t, json.Unmarshal([]byte(line), &entry), line)
		_, err := time.Parse(time.RFC3339Nano, entry.Time)
		require.NoError(t, err)
		found = found || entry.Msg == "listening" && entry.Address == "127.0.0.1:4711" && entry.Level == "info"
	}
	require.True(t, found, r.stderr)
	require.Contains(t, shardmq(nil, "proxy").stderr, `info listening {"address": "127.0.0.1:4711"}`)
	require.Contains(t, shardmq(nil, "proxy").stderr, "warn no policies")
}

func TestExitCodes(t *testing.T) {
	good, bad := write(t, fileText), write(t, "upstream: {}\nlog: {level: 1}\n")
	taken := fmt.Errorf("listen: %w", &proxy.ListenError{Address: "127.0.0.1:5672", Err: syscall.EADDRINUSE})
	for _, c := range []struct {
		args   []string
		runErr error
		code   int
		want   string // in stdout if the code is 0, else in stderr
	}{
		{args: []string{"version"}, want: "shardmq " + version() + " go"},
		{args: []string{"--version"}, want: versionLine() + "\n"},
		{args: []string{"--help"}, want: "Usage: shardmq <command>"},
		{args: []string{"proxy", "--help"}, want: "amqp://guest:guest@localhost:5672)"},
		{args: []string{"config", "check", good}, want: good + ": ok: 1 listener, 2 nodes, 1 policy\n"},
		{args: []string{"proxy"}, runErr: errors.New("lost everything"), code: 1, want: "shardmq: lost everything\n"},
		{args: []string{"proxy"}, runErr: taken, code: 2, want: "shardmq: cannot listen on 127.0.0.1:5672: address already in use; " +
			"stop whatever listens there, or choose another address (--listen or --admin, or listeners[].address or admin.address in the file)\n"},
		{args: nil, code: 2, want: "Usage: shardmq <command>"},
		{args: []string{"prox"}, code: 2, want: `did you mean "proxy"?`},
		{args: []string{"proxy", "--nonsense"}, code: 2, want: "unknown flag --nonsense"},
		{args: []string{"proxy", "--listen"}, code: 2, want: "--listen"},
		{args: []string{"config", "check"}, code: 2, want: `expected "<file> ..."`},
		{args: []string{"proxy", "--config", bad}, code: 2, want: bad + ":2: log.level: is the number 1; give debug, info, warn or error\n"},
		{args: []string{"config", "check", bad, good, "none.yaml"}, code: 2, want: bad + ":1: upstream.nodes: is missing; "},
		{args: []string{"config", "check", bad, good, "none.yaml"}, code: 2, want: "none.yaml: no such file; "},
		{args: []string{"shards", "list", "--interval=-1s"}, code: 2, want: "--interval: is -1s; give a duration from 0 to 30s"},
		{args: []string{"shards", "list", "--output", "xml"}, code: 2, want: "--output"},
		{args: []string{"shards", "list"}, code: 2, want: "there is no policy, so no vhost to look at; give --shard EXCHANGE=N"},
		{args: []string{"shards", "list", "--config", good, "--shard", "images=4"}, code: 2, want: "--shard cannot be used with --config"},
		{args: []string{"shards", "list", "--config", bad}, code: 2, want: bad + ":2: log.level"},
		{args: []string{"shards", "prune", "--upstream", "amqp://u:p@127.0.0.1:1/v1", "--shard", "images=4", "--vhost", "v2", "images"}, code: 2,
			want: "vhost v2: images: without its policy all of its shards are surplus"},
		{args: []string{"shards", "prune", "images"}, code: 2, want: "images: without its policy all of its shards are surplus; give --shard images=N"},
		{args: []string{"shards", "list", "--upstream", "amqp://127.0.0.1:1", "--shard", "images=4"}, code: 1, want: "shardmq: vhost /: no RabbitMQ node has answered"},
		{args: []string{"healthcheck", "--address", "nowhere"}, code: 2, want: "--address: is \"nowhere\"; give host:port"},
		{args: []string{"healthcheck", "--timeout=-1s"}, code: 2, want: "--timeout: is -1s; give"},
	} {
		r := shardmq(c.runErr, c.args...)
		require.Equal(t, c.code, r.code, "%v: %s", c.args, r.stderr)
		if c.code == 0 {
			require.Contains(t, r.stdout, c.want, "%v", c.args)
		} else {
			require.Contains(t, r.stderr, c.want, "%v", c.args)
		}
	}
}

func TestBadFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--listen 5672", `--listen: is "5672"; give host:port`},
		{"--listen :1 --listen :1", "--listen: :1 is given twice; leave one out"},
		{"--listen :1,:2", "--listen: is \":1,:2\"; give host:port"},
		{"--upstream amqps://h --upstream-ca none.pem", "--upstream-ca: none.pem: no such file; check the path"},
		{"--upstream amqp://h --upstream-ca main.go", "--upstream-ca: has no effect without an --upstream that begins with amqps://; give"},
		{"--config x.yaml --upstream-ca x", "--upstream-ca cannot be used with --config; set upstream.tls.ca in"},
		{"--upstream http://h", "--upstream: does not begin with amqp:// or amqps://; give amqp://user:password@host:port/vhost"},
		{"--upstream localhost:5672", "--upstream: does not begin with amqp://"},
		{"--upstream amqp://u:hunter2%zz@h", "--upstream: is not a URL; give amqp://"},
		{"--upstream amqp://u:hunter2@h/a/b", "--upstream: has more than one / after the address; write"},
		{"--upstream amqp://u:hunter2@h?heartbeat=5", "--upstream: has parameters after ? or #; give only"},
		{"--upstream amqp://u@h", "--upstream: has only one of user and password; give both"},
		{"--upstream amqp://u:hunter2@:5672", "--upstream: the address is \":5672\", without a host; give host:port"},
		{"--upstream amqp://h:0", `--upstream: the address has the port "0"; give a number`},
		{"--upstream amqp://h --upstream amqp://h:5672", "--upstream: h:5672 is given twice; list each node once"},
		{"--upstream amqp://h --upstream amqp://g", "--node-name: is missing; with more than one --upstream"},
		{"--upstream amqp://h/a --upstream amqp://g/b", "--upstream: g:5672 has another user, password or vhost than h:5672; "},
		{"--upstream amqp://h --node-name a --node-name b", "--node-name: is given 2 times for 1 nodes; give one for each"},
		{"--upstream amqp://h --upstream amqp://g --node-name a --node-name a", "--node-name: a is given twice; each"},
		{"--node-name=", "--node-name: is empty; give the node's name"},
		{"--shard images", `--shard: is "images"; give EXCHANGE=N with N from 1 to 1000, e.g. --shard images=4`},
		{"--shard images=0", `--shard: is "images=0"; give`},
		{"--shard images=1.5", `--shard: is "images=1.5"; give`},
		{"--shard images=1001", `--shard: is "images=1001"; give`},
		{"--shard =4", `--shard: is "=4"; give`},
		{"--shard images=4 --shard images=4", "--shard: images is given twice; leave one out"},
		{"--shard amq.topic=4", "--shard: names exchange 'amq.topic', which is never sharded"},
		{"--shard images=4 --hash md5", `--hash: is "md5"; give xxhash or phash2`},
		{"--hash phash2", "--hash: has no effect without --shard; add"},
		{"--log-level loud", `--log-level: is "loud"; give one of debug, info, warn, error`},
		{"--log-format xml", `--log-format: is "xml"; give one of console, json`},
		{"--config x.yaml --listen :1", "--listen cannot be used with --config; set listeners in x.yaml, or leave out --config"},
		{"--config x.yaml --upstream amqp://h", "--upstream cannot be used with --config; set upstream in"},
		{"--config x.yaml --node-name a", "--node-name cannot be used with --config; set upstream.nodes[].name in"},
		{"--admin 15673", `--admin: is "15673"; give host:port`},
		{"--config x.yaml --admin :1", "--admin cannot be used with --config; set admin.address in"},
		{"--config x.yaml --shard a=1", "--shard cannot be used with --config; set policies in"},
		{"--config x.yaml --hash phash2", "--hash cannot be used with --config; set policies[].definition.hash in"},
	} {
		r := shardmq(nil, append([]string{"proxy"}, strings.Fields(c.args)...)...)
		require.Equal(t, 2, r.code, c.args)
		require.Contains(t, r.stderr, "shardmq: "+c.want, c.args)
		require.NotContains(t, r.stderr, "hunter2", c.args)
		require.Nil(t, r.options, "the proxy must not start: %s", c.args)
	}
	r := shardmq(nil, "proxy", "--listen", "x", "--shard", "y", "--hash", "z")
	require.Equal(t, 3, strings.Count(r.stderr, "\n"), "every problem in one run: %s", r.stderr)
}
