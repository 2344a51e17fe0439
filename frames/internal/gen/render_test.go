package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames/spec"
)

func TestCommittedCodeIsUpToDate(t *testing.T) {
	d, err := spec.Parse(spec.Text)
	require.NoError(t, err)
	files, err := render(d)
	require.NoError(t, err)

	committed, err := filepath.Glob("../../*_gen.go")
	require.NoError(t, err)
	require.Len(t, committed, len(files), "a generated file is missing or left over")
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("../..", name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s is stale: run go generate ./frames", name)
	}
}

func TestBitsShareOctets(t *testing.T) {
	bit := spec.Field{Name: "b", Type: "bit"}
	short := spec.Field{Name: "s", Type: "short"}
	nine := []spec.Field{bit, bit, bit, bit, bit, bit, bit, bit, bit}
	require.Equal(t, [][]spec.Field{nine[:8], {bit}}, groups(nine))
	require.Equal(t, [][]spec.Field{{bit}, {short}, {bit, bit}, {short}}, groups([]spec.Field{bit, short, bit, bit, short}))
}

func TestNames(t *testing.T) {
	for in, want := range map[string]string{"no-wait": "NoWait", "message-id": "MessageID", "id": "ID", "reserved-1": "Reserved1"} {
		require.Equal(t, want, camel(in))
	}
}
