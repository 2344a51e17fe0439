package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files in testdata anew")

// environment is what ${NAME} finds in testdata.
func environment(name string) (string, bool) {
	v, ok := map[string]string{
		"SHARDMQ_PASSWORD": "p$$w${HOST}: {x}",
		"SHARDS":           "8",
		"FEED":             "feed",
		"HOST":             "a.example",
		"PORT":             "http",
		"EMPTY":            "",
		"WORDS":            "four",
		"YAML":             "{shards-per-node: 4}",
	}[name]
	return v, ok
}

func parseFile(t *testing.T, path string) (*Config, error) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return Parse(filepath.Base(path), data, environment)
}

func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			_, err := parseFile(t, file)
			var problems Problems
			require.ErrorAs(t, err, &problems)
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *rewrite {
				require.NoError(t, os.WriteFile(golden, []byte(err.Error()+"\n"), 0o644))
			}
			want, readErr := os.ReadFile(golden)
			require.NoError(t, readErr)
			require.Equal(t, string(want), err.Error()+"\n")
			for _, p := range problems {
				require.Positive(t, p.Line, "%s", p)
				require.Contains(t, p.Text, "; ", "a remedy follows the semicolon")
				require.NotContains(t, p.String(), "\n")
				require.NotContains(t, p.Text, "secret")
				require.NotContains(t, p.Text, "271828")
			}
		})
	}
}

func TestMinimalFileHasDefaults(t *testing.T) {
	c, err := parseFile(t, "testdata/good/minimal.yaml")
	require.NoError(t, err)
	want := Default()
	want.Upstream.Nodes = []Node{{Address: "localhost:5672"}}
	require.Equal(t, want, c)
	require.Empty(t, c.Admin.Address, "off")
	require.Equal(t, []Listener{{Address: ":5673"}}, c.Listeners)
	require.Equal(t, 5*time.Second, c.Upstream.DialTimeout)
	require.Equal(t, 10*time.Second, c.Proxy.HandshakeTimeout)
	require.Equal(t, 10*time.Second, c.Proxy.DrainTimeout)
}

func TestFullFile(t *testing.T) {
	c, err := parseFile(t, "testdata/good/full.yaml")
	require.NoError(t, err)
	policies := c.Policies
	c.Policies = nil
	require.Equal(t, &Config{
		Listeners: []Listener{{Address: ":5672"}, {Address: "[::1]:15672"}, {Address: "127.0.0.1:0"}},
		Upstream: Upstream{
			Nodes: []Node{{Name: "rabbit@a", Address: "a:5672", Zone: "east"}, {Name: "rabbit@b", Address: "b:5672", Zone: "west"}},
			Discovery: &Discovery{
				SRV:      &SRV{Name: "_amqp._tcp.rabbit.example", NodeName: "bunny@{fqdn}"},
				Interval: 30 * time.Second,
			},
			Zone: "east", Prefer: PreferZone,
			Control:     Control{"shardmq", "p$$w${HOST}: {x}"},
			DialTimeout: 2 * time.Second,
		},
		Proxy: Proxy{3500 * time.Millisecond, time.Minute, 10_000},
		Admin: Admin{"127.0.0.1:15673", "0f1e2d3c4b5a6978-token"},
		Log:   Log{"debug", "json"},
	}, c)
	require.Len(t, policies, 5)
	require.Equal(t, shards.Definition{ShardsPerNode: 4, RoutingKey: "1234"}, policies[0].Definition)
	p := policies[1]
	require.Equal(t, "images", p.Name)
	require.Equal(t, "production", p.Vhost)
	require.Equal(t, `^(images|thumbs)\.`, p.Pattern)
	require.Equal(t, -3, p.Priority)
	require.Equal(t, shards.Definition{
		ShardsPerNode: 8, Hash: shards.HashPhash2, Consumers: shards.One,
		ExchangeType: shards.ModulusHash, FedBy: []string{"uploads", "feed", "costs $5"},
		OnNodeDown: shards.Keep, HashOn: shards.HashOn{Source: shards.OnCorrelationID},
	}, p.Definition)
	require.Equal(t, shards.Definition{
		Shards: 6, Ordered: true, Barrier: true, HashOn: shards.HashOn{Source: shards.OnHeader, Header: "tenant"},
		QueueArguments: map[string]any{
			"x-queue-type": "quorum", "x-max-length": int64(1_000_000), "x-single-active-consumer": true,
			"x-dead-letter-exchange": "feed.dead", "x-dead-letter-routing-key": "1",
		},
	}, policies[2].Definition)
	on := policies[3].Definition.HashOn
	require.Equal(t, shards.OnCapture, on.Source)
	require.Equal(t, `^([^.]*)\.`, on.Re.String())
	require.Equal(t, shards.HashOn{Source: shards.OnMessageID}, policies[4].Definition.HashOn)
}

func TestDiscoveryInsteadOfNodes(t *testing.T) {
	c, err := parseFile(t, "testdata/good/discovery.yaml")
	require.NoError(t, err)
	require.Empty(t, c.Upstream.Nodes)
	require.Equal(t, LeastConnections, c.Upstream.Prefer)
	require.Equal(t, &Discovery{
		Management: &Management{URL: "http://rabbit.example:15672", Username: "monitor", Password: "p$$w${HOST}: {x}", Host: "{host}.rabbit.example", Port: 5673},
		Interval:   DefaultDiscoveryInterval,
	}, c.Upstream.Discovery)
}

func TestAliases(t *testing.T) {
	c, err := parseFile(t, "testdata/good/alias.yaml")
	require.NoError(t, err)
	require.Len(t, c.Policies, 2)
	require.Equal(t, c.Policies[0].Definition, c.Policies[1].Definition)
	require.Equal(t, 4, c.Policies[1].Definition.ShardsPerNode)
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	require.NoError(t, os.WriteFile(large, make([]byte, maxFileSize+1), 0o600))
	for path, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): "none.yaml: no such file; check the path",
		dir:                             "is a directory; name the YAML file in it",
		large:                           "is larger than 1048576 bytes; is it the right file?",
	} {
		_, err := Load(path)
		require.ErrorContains(t, err, want)
	}

	t.Setenv("SHARDMQ_TEST_HOST", "a.example")
	good := filepath.Join(dir, "good.yaml")
	require.NoError(t, os.WriteFile(good, []byte(`upstream: {nodes: [{address: "${SHARDMQ_TEST_HOST}:5672"}]}`), 0o600))
	c, err := Load(good)
	require.NoError(t, err)
	require.Equal(t, []Node{{Address: "a.example:5672"}}, c.Upstream.Nodes)
}

// FuzzParse: no input panics, and every problem names the file.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml"} {
		files, err := filepath.Glob(pattern)
		require.NoError(f, err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(f, err)
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f.yaml", data, environment)
		if err == nil {
			require.NotEmpty(t, c.Listeners)
			require.True(t, c.Dispatch != nil || c.CheckProxy("f.yaml") == nil)
			return
		}
		for line := range strings.Lines(err.Error()) {
			require.NotEmpty(t, line)
		}
		var problems Problems
		require.ErrorAs(t, err, &problems)
		for _, p := range problems {
			require.True(t, strings.HasPrefix(p.String(), "f.yaml:"), "%s", p)
		}
	})
}
