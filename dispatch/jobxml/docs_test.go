package jobxml_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/dispatch/jobxml"
)

// TestDocsOfNegativeNumbers: the page for those who move shows what is said of the example's counts if they are negative.
func TestDocsOfNegativeNumbers(t *testing.T) {
	page, err := os.ReadFile("../../docs/dispatch-migrating.md")
	require.NoError(t, err)
	example, err := os.ReadFile("testdata/job-example.xml")
	require.NoError(t, err)
	for old, negative := range map[string]string{
		`count="3"`: `count="-1"`, `<request-count>2</request-count>`: `<request-count>-1</request-count>`,
	} {
		require.Contains(t, string(example), old)
		_, err := jobxml.Read([]byte(strings.Replace(string(example), old, negative, 1)))
		found, ok := errors.AsType[jobxml.Problems](err)
		require.True(t, ok, "%v", err)
		for _, p := range found {
			require.Contains(t, string(page), fmt.Sprintf("job.xml:%d: %s: %s\n", p.Line, p.Path, p.Text))
		}
	}
}
