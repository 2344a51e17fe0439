package main

import (
	"bytes"
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/proxy"
)

// unused returns an address of this machine where nothing listens.
func unused(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

// TestTakenPort runs the real proxy on an address where something listens.
func TestTakenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	var stderr bytes.Buffer
	a := &app{stdout: &bytes.Buffer{}, stderr: &stderr, run: proxy.Run}
	code := a.main(t.Context(), []string{"proxy", "--listen", l.Addr().String(), "--upstream", "amqp://" + unused(t)})
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr.String(), "cannot listen on "+l.Addr().String()+": address already in use; stop whatever listens there")
}

// TestRunWithoutBroker: the real proxy starts, is alive but not ready without
// RabbitMQ, and stops in order.
func TestRunWithoutBroker(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	listening := make(chan string, 1)
	a := &app{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}, run: func(ctx context.Context, o proxy.Options) error {
		ready := o.Ready
		o.Ready = func(addrs []net.Addr) {
			ready(addrs)
			listening <- addrs[0].String()
		}
		return proxy.Run(ctx, o)
	}}
	exited := make(chan int, 1)
	go func() {
		exited <- a.main(ctx, []string{"proxy", "--listen", "127.0.0.1:0", "--upstream", "amqp://" + unused(t), "--shard", "images=4"})
	}()
	address := <-listening

	r := shardmq(nil, "healthcheck", "--address", address)
	require.Zero(t, r.code, r.stderr)
	r = shardmq(nil, "healthcheck", "--address", address, "--ready")
	require.Equal(t, exitError, r.code)
	require.Contains(t, r.stderr, "not healthy: "+address+": the proxy answers ")

	cancel()
	require.Equal(t, exitOK, <-exited)
}
