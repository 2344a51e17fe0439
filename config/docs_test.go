package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// documentation returns docs/config.md.
func documentation(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/config.md")
	require.NoError(t, err)
	return string(text)
}

// TestDocumentedKeys: the table lists exactly the keys that the schema has, in
// its order, with their types and defaults.
func TestDocumentedKeys(t *testing.T) {
	var documented []Key
	row := regexp.MustCompile("^\\| `([^`]+)` \\| ([^|]+) \\| ([^|]+) \\| (.+) \\|$")
	_, section, found := strings.Cut(documentation(t), "\n## Keys\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if m := row.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			documented = append(documented, Key{Path: m[1], Type: m[2], Default: strings.TrimPrefix(m[3], "–")})
			require.NotEmpty(t, strings.TrimSpace(m[4]), "meaning of %s", m[1])
		}
	}
	require.Equal(t, Keys(), documented)
}

// TestDocumentedExamples: the examples are valid, or have the problems that
// the text shows.
func TestDocumentedExamples(t *testing.T) {
	text := documentation(t)
	set := func(string) (string, bool) { return "secret", true }
	unset := func(string) (string, bool) { return "", false }

	blocks := regexp.MustCompile("(?s)\n```(yaml|yaml problems)\n(.*?)```\n").FindAllStringSubmatch(text, -1)
	require.Len(t, blocks, 8)
	for _, b := range blocks {
		if b[1] == "yaml" {
			_, err := parseText("shardmq.yaml", []byte(b[2]), set, false) // there are no such certificates
			require.NoError(t, err)
			continue
		}
		_, err := Parse("shardmq.yaml", []byte(b[2]), unset)
		require.Error(t, err)
		require.Contains(t, text, "\n```\n"+err.Error()+"\n```\n")
	}
}

// TestOtherExamples: the examples in the pages about jobs are valid too.
func TestOtherExamples(t *testing.T) {
	pages, err := filepath.Glob("../docs/dispatch*.md")
	require.NoError(t, err)
	require.Len(t, pages, 2)
	set := func(string) (string, bool) { return "a-secret-of-some-length", true }
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		blocks := regexp.MustCompile("(?s)\n```yaml\n(.*?)```\n").FindAllStringSubmatch(string(text), -1)
		require.NotEmpty(t, blocks, page)
		for _, b := range blocks {
			cfg, err := parseText(filepath.Base(page), []byte(b[1]), set, false)
			require.NoError(t, err, b[1])
			require.Empty(t, cfg.Warnings)
		}
	}
}
