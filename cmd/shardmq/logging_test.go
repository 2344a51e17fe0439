package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestStandardLog: what libraries log is in the log, save for what an endpoint has sent.
func TestStandardLog(t *testing.T) {
	core, seen := observer.New(zap.InfoLevel)
	w := standardLog{zap.New(core)}
	for _, line := range []string{"something else\n", "Unsolicited response received on idle HTTP channel starting with \"secret\"; err=<nil>\n"} {
		n, err := w.Write([]byte(line))
		require.NoError(t, err)
		require.Len(t, line, n)
	}
	all := seen.All()
	require.Len(t, all, 2)
	require.Equal(t, "something else", all[0].Message)
	require.NotContains(t, all[1].Message, "secret")
}
