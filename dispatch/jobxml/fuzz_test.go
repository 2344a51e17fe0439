package jobxml_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/dispatch/jobxml"
)

// FuzzImport: nothing panics, and what can be read can be written and read again.
func FuzzImport(f *testing.F) {
	example, err := os.ReadFile("testdata/job-example.xml")
	require.NoError(f, err)
	f.Add(example)
	f.Add(file())
	f.Add(file(`name="mail"`, `name="${A}" queue="&#x85;&#xfeff;" encoding="latin1" type="x-random"`, `"h"`, `"::1"`))
	f.Add([]byte("<jobs><!DOCTYPE x></jobs>"))
	f.Fuzz(func(t *testing.T, data []byte) {
		i, err := jobxml.Read(data)
		if err != nil {
			var found jobxml.Problems
			require.ErrorAs(t, err, &found)
			require.NotEmpty(t, found)
			return
		}
		for _, passwords := range []bool{false, true} {
			_, settings := written(t, i, jobxml.Options{From: string(data), Passwords: passwords})
			require.Len(t, settings.Jobs, i.Jobs())
			executors := 0
			for _, j := range settings.Jobs {
				executors += j.Executors
			}
			require.Equal(t, i.Executors(), executors)
		}
	})
}
