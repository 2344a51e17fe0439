package jobxml_test

import (
	"encoding/xml"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/shardmq/shardmq/config"
	"github.com/shardmq/shardmq/dispatch/jobxml"
)

// TestAnyValues: whatever stands in the attributes is either a problem or arrives as it is.
func TestAnyValues(t *testing.T) {
	odd := rapid.OneOf(
		rapid.SampledFrom([]string{"", "a", "true", "null", "~", "0x1f", "1e3", "2026-01-02", "<<", "*a", "&a", "- a", "a: b", "#a", "${HOME}", "$$", "'\"", " a ", "\u0085", "\ufeff", "%2F", "é€"}),
		rapid.StringN(0, 12, 60),
	)
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		attrs := map[string]string{"name": "n", "server": "mq"}
		for _, key := range []string{"name", "queue", "exchange", "urlhost"} {
			if rapid.Bool().Draw(t, "with "+key) {
				attrs[key] = odd.Draw(t, key)
			}
		}
		attrs["url"] = "http://app/" + odd.Draw(t, "url")
		attrs["count"] = fmt.Sprint(rapid.IntRange(-1, 1001).Draw(t, "count"))
		attrs["prefetchCount"] = fmt.Sprint(rapid.IntRange(0, 65536).Draw(t, "prefetch"))
		attrs["timeout"] = fmt.Sprint(rapid.IntRange(0, 4_000_000).Draw(t, "timeout"))
		attrs["retry"] = rapid.SampledFrom([]string{"", "-1", "0", "1"}).Draw(t, "retry")
		var job strings.Builder
		for key, value := range attrs {
			value = strings.Map(inXML, value)
			attrs[key] = value
			job.WriteString(" " + key + "=\"")
			require.NoError(t, xml.EscapeText(&job, []byte(value)))
			job.WriteString("\"")
		}
		i, err := jobxml.Read(file(` name="mail" server="mq"`, job.String()))
		if err != nil {
			return
		}
		taken++
		text, err := i.YAML(jobxml.Options{Passwords: true})
		require.NoError(t, err)
		c, err := config.Parse("shardmq.yaml", text, func(string) (string, bool) { return "", false })
		require.NoError(t, err, "%s", text)
		j := c.Dispatch.Jobs[0]
		require.Equal(t, attrs["name"], j.Name)
		require.Equal(t, attrs["url"], j.Target.URL)
		require.Equal(t, attrs["urlhost"], j.Target.Host)
		if attrs["queue"] != "" {
			require.Equal(t, attrs["queue"], j.Queue)
		}
		if attrs["exchange"] != "" {
			require.Equal(t, attrs["exchange"], j.Declare.Exchange)
		}
		require.Equal(t, i.Executors(), j.Executors)
	})
	require.Positive(t, taken, "some are valid")
}

// inXML leaves out what no XML can have (XML 1.0, section 2.2).
func inXML(r rune) rune {
	if r == '\t' || r == '\n' || r == '\r' || r >= ' ' && r <= 0xd7ff || r >= 0xe000 && r <= 0xfffd || r >= 0x10000 {
		return r
	}
	return -1
}
