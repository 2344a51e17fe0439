package main

import (
	"bufio"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/bench/client"
	"github.com/shardmq/shardmq/integration/bench/sink"
)

// Clients say that they are stuck when they are, and end with their input; all that is stuck ends with the sink.
func TestStuckCrowd(t *testing.T) {
	s, err := sink.ListenNarrow("127.0.0.1:0")
	require.NoError(t, err)
	ask, in := io.Pipe()
	out, answer := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- stuckCrowd(s.Addr(), "20ms", ask, answer) }()
	lines := bufio.NewScanner(out)
	for range 2 {
		_, err = io.WriteString(in, "5\n")
		require.NoError(t, err)
		require.True(t, lines.Scan())
		require.Equal(t, "5", lines.Text())
	}
	require.NoError(t, in.Close())
	require.NoError(t, <-ended)
	require.NoError(t, s.Close())
	require.NoError(t, s.Err())
}

// Clients that somebody reads from do not pass for stuck ones.
func TestStuckClientsAreNotReadFrom(t *testing.T) {
	s, err := sink.Listen("127.0.0.1:0")
	require.NoError(t, err)
	cl, err := client.Dial(t.Context(), s.Addr())
	require.NoError(t, err)
	var c stuckClients
	require.ErrorContains(t, c.publish(cl, batch(plainExchange, large)), "should be stuck")
	require.NoError(t, cl.Close())
	require.NoError(t, s.Close())
}
