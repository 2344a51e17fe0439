package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/shardmq/shardmq"

// rule says what the packages in a folder may not import, and why. An entry
// ends with /... if it stands for everything below it as well.
type rule struct {
	folder string // everything below it is meant too, except what is in except
	except []string
	deny   map[string]string // import path → reason
	// inside lists what of this module may be imported; nil means anything.
	inside []string
}

// The layers, top to bottom: cmd → proxy → router, admin → shards → frames. An
// import that points up would make a pure layer depend on sockets.
var rules = []rule{
	{
		folder: "frames", except: []string{"frames/internal"},
		inside: []string{},
		deny: map[string]string{
			"net/...": "frames decodes bytes that others have read",
			"os/...":  "frames is pure: no files, no environment",
			"time":    "a codec has no clock",
			"*":       "frames uses the standard library only, so that it can be read and reused alone",
		},
	},
	{
		folder: "router",
		inside: []string{"router", "shards", "frames"},
		deny: map[string]string{
			"net/...":                   "decisions are pure: sockets belong to proxy",
			"time":                      "decisions are deterministic: deadlines belong to proxy",
			"go.uber.org/zap/...":       "decisions are values: proxy logs them",
			"github.com/prometheus/...": "decisions are values: proxy counts them",
			"math/rand/...":             "decisions are deterministic",
		},
	},
	{
		folder: "shards", except: []string{"shards/control", "shards/discovery"},
		inside: []string{"shards", "frames"},
		deny: map[string]string{
			"net/...":             "brokers are reached through the Broker interface only",
			"go.uber.org/zap/...": "shards logs through its own small interface",
			"hash/maphash":        "placement must be the same in every process",
		},
	},
	{folder: "shards/control", inside: []string{"shards", "frames", "config/amqpopen"}},
	{folder: "shards/discovery", inside: []string{"shards"}},
	{
		folder: "config", except: []string{"config/amqpopen", "config/certs", "config/secret"},
		inside: []string{"config", "shards", "dispatch"},
		deny: map[string]string{
			"gopkg.in/yaml.v3": "archived: use go.yaml.in/yaml/v3",
		},
	},
	{folder: "config/amqpopen", inside: []string{}}, // and amqp091-go
	{
		folder: "config/certs", inside: []string{"config/certs"},
		deny: map[string]string{"*": "config/certs uses the standard library only: every layer may use it"},
	},
	{
		folder: "config/secret", inside: []string{},
		deny: map[string]string{"*": "config/secret uses the standard library only: every layer may use it"},
	},
	{folder: "dispatch", inside: []string{"dispatch", "config/amqpopen", "config/certs", "config/secret"}},
	{folder: "admin", inside: []string{"admin", "dispatch", "config/amqpopen", "config/secret", "shards", "frames"}},
	{
		folder: "proxy",
		inside: []string{"proxy", "admin", "router", "config/certs", "config/secret", "shards", "frames"},
		deny: map[string]string{
			"github.com/alecthomas/kong/...": "the command line belongs to cmd",
			"github.com/rabbitmq/...":        "clients' data takes no detour over a client library; control connections are in shards/control",
		},
	},
	{folder: "cmd", inside: []string{"config", "proxy", "admin", "dispatch", "shards", "frames"}},
}

// TestImportDirection reads the imports of every file that is not a test.
func TestImportDirection(t *testing.T) {
	root := filepath.Join("..", "..")
	checked := map[string]int{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "node_modules" || name == "testdata" || file != root && strings.HasPrefix(name, ".") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, file)
		require.NoError(t, err)
		rel = filepath.ToSlash(rel)
		for _, r := range rules {
			if r.covers(path.Dir(rel)) {
				checked[r.folder]++
				checkFile(t, r, file, rel)
			}
		}
		return nil
	})
	require.NoError(t, err)
	for _, r := range rules {
		require.Positive(t, checked[r.folder], "no file in %s: has it been renamed?", r.folder)
	}
}

func checkFile(t *testing.T, r rule, file, rel string) {
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	parsed, err := parser.ParseFile(token.NewFileSet(), rel, source, parser.ImportsOnly)
	require.NoError(t, err)
	for _, spec := range parsed.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		if reason := r.refuses(name); reason != "" {
			t.Errorf("%s imports %s: %s", rel, name, reason)
		}
	}
}

func (r rule) covers(dir string) bool {
	for _, e := range r.except {
		if below(dir, e) {
			return false
		}
	}
	return below(dir, r.folder)
}

// refuses returns why a package may not be imported, or "".
func (r rule) refuses(name string) string {
	if own, ok := strings.CutPrefix(name, module+"/"); ok {
		for _, allowed := range r.inside {
			if below(own, allowed) {
				return ""
			}
		}
		return "imports point down only; of this module " + r.folder + " may use " + strings.Join(append(r.inside, "nothing else"), ", ")
	}
	for denied, reason := range r.deny {
		parent, tree := strings.CutSuffix(denied, "/...")
		if name == parent || tree && below(name, parent) {
			return reason
		}
	}
	// The standard library has no dot in the first element of its paths.
	first, _, _ := strings.Cut(name, "/")
	if reason, ok := r.deny["*"]; ok && strings.Contains(first, ".") {
		return reason
	}
	return ""
}

// below reports whether dir is parent or in it.
func below(dir, parent string) bool { return dir == parent || strings.HasPrefix(dir, parent+"/") }

func TestImportRules(t *testing.T) {
	for _, c := range []struct {
		folder, imports string
		refused         bool
	}{
		{"frames", "encoding/binary", false},
		{"frames", "net/netip", true},
		{"frames", "go.uber.org/zap", true},
		{"frames", module + "/shards", true},
		{"router", module + "/frames", false},
		{"router", module + "/proxy", true},
		{"router", "time", true},
		{"shards", module + "/frames", false},
		{"shards", module + "/router", true},
		{"config", module + "/shards", false},
		{"config", module + "/proxy", true},
		{"cmd", module + "/proxy", false},
		{"cmd", module + "/router", true},
	} {
		for _, r := range rules {
			if r.folder == c.folder {
				require.Equal(t, c.refused, r.refuses(c.imports) != "", "%s imports %s", c.folder, c.imports)
			}
		}
	}
}
