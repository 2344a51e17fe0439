package rig

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProxyLogFindsListeners(t *testing.T) {
	l := &proxyLog{want: 2, ready: make(chan struct{})}
	for _, piece := range []string{
		"{\"msg\":\"starting\"}\nnot json\n{\"level\":\"info\",\"msg\":\"liste",
		"ning\",\"address\":\"127.0.0.1:1\"}\n",
		"{\"msg\":\"listening\",\"address\":\"127.0.0.1:2\"}\n{\"msg\":\"listening\",\"address\":\"127.0.0.1:3\"}\n",
	} {
		require.NotEqual(t, 2, len(l.listeners()))
		_, err := l.Write([]byte(piece))
		require.NoError(t, err)
	}
	<-l.ready
	require.Equal(t, []string{"127.0.0.1:1", "127.0.0.1:2"}, l.listeners())
	require.Contains(t, l.String(), "not json")
}

func TestProxyStartsAndStops(t *testing.T) {
	broker := startTestNode(t, NodeOptions{})
	p, err := StartProxy(t.Context(), ProxyOptions{Upstream: broker.URL + "/%2f", Shards: map[string]int{"images": 4}})
	require.NoError(t, err)
	require.Equal(t, "amqp://guest:guest@"+p.Addr+"/%2f", p.URL)
	publishDurable(t, p.URL, "through")
	requireOneMessage(t, broker.URL, "through")
	require.NotZero(t, p.PID())
	code, err := p.Stop()
	require.NoError(t, err, p.Logs())
	require.Zero(t, code, p.Logs())
	require.NoDirExists(t, p.dir)

	p, err = StartProxy(t.Context(), ProxyOptions{Config: "listeners: [{address: \"127.0.0.1:0\"}, {address: \"127.0.0.1:0\"}]\n" +
		"upstream: {nodes: [{address: \"" + broker.Addr + "\"}], control: {username: guest, password: guest}}\n", Listeners: 2})
	require.NoError(t, err)
	require.Len(t, p.Addrs, 2)
	publishDurable(t, "amqp://guest:guest@"+p.Addrs[1], "second")
	require.NoError(t, p.Signal(syscall.SIGSTOP))
	require.NoError(t, p.Kill())
	code, err = p.Wait()
	require.NoError(t, err)
	require.Equal(t, -1, code)
	require.ErrorIs(t, p.Signal(syscall.SIGTERM), os.ErrProcessDone)
}

func TestProxyStartErrors(t *testing.T) {
	_, err := StartProxy(t.Context(), ProxyOptions{Config: "no-such-key: 1\n"})
	require.ErrorIs(t, err, errEnded)
	require.ErrorContains(t, err, "no-such-key", "its log is part of the error")

	t.Setenv("SHARDMQ_BINARY", "/nonexistent/shardmq")
	_, err = StartProxy(t.Context(), ProxyOptions{})
	require.ErrorContains(t, err, "SHARDMQ_BINARY")
}
