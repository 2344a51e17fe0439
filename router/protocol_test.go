package router_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// TestProtocolDocument: docs/protocol.md has a table with one row per method; the first column is `class.method`.
func TestProtocolDocument(t *testing.T) {
	text, err := os.ReadFile("../docs/protocol.md")
	require.NoError(t, err)
	listed := map[string]int{}
	for _, m := range regexp.MustCompile("(?m)^\\|\\s*`([a-z-]+\\.[a-z-]+)`\\s*\\|").FindAllSubmatch(text, -1) {
		listed[string(m[1])]++
	}
	for _, id := range frames.Methods() {
		require.Equal(t, 1, listed[id.String()], "rows for %s", id)
		delete(listed, id.String())
	}
	require.Empty(t, listed, "rows for methods that do not exist")
}
