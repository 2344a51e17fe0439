package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/bench/sink"
)

// Proxies on PATH take part, started with the arguments that they take. Those here are scripts that check these and
// then relay.
func TestPeersOnPath(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	for name, script := range map[string]string{
		amqproxy: `[ "$1 $2 $3 $5" = "-l 127.0.0.1 -p -b" ] &&
			sleep 1000 | "%s" relay "${7#amqp://}" "127.0.0.1:$4"`,
		amqpprox: `[ "$1 $3 $5 $7 $9" = "--logDirectory --controlSocket --listenPort --destinationDNS --destinationPort" ] &&
			sleep 1000 | "%s" relay "$8:${10}" "127.0.0.1:$6"`,
	} {
		text := fmt.Sprintf("#!/bin/sh\n"+script+"\n", self)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
	}
	s, err := sink.Listen("127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()

	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	for name, start := range map[string]starter{amqproxy: startAMQProxy, amqpprox: startAmqpprox} {
		c, err := start(t.Context(), s.Addr())
		require.NoError(t, err, name)
		require.NoError(t, openAndClose(t.Context(), c.addr, 3), name)
		require.NoError(t, c.stop(), name)
	}
	t.Setenv("PATH", dir)
	require.NoError(t, os.Remove(filepath.Join(dir, amqproxy)))
	_, err = startAMQProxy(t.Context(), s.Addr())
	require.ErrorIs(t, err, exec.ErrNotFound)
}
