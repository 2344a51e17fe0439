package rig

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// helperEnv turns the test binary into a program that starts a node and waits to be killed.
const helperEnv = "SHARDMQ_RIG_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		startAndHang()
		return
	}
	code := m.Run()
	if err := Cleanup(); err != nil {
		fmt.Fprintln(os.Stderr, "cleanup:", err)
		code = 1
	}
	os.Exit(code)
}

// startAndHang starts a node, tells where everything is, and waits for its end.
func startAndHang() {
	n, err := StartNode(context.Background(), NodeOptions{})
	if err != nil {
		fmt.Fprintln(os.Stdout, "error", err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, "ready", space.dir, n.dir, n.PID(), space.epmd.PID())
	select {}
}

// startTestNode starts a node that is stopped at the end of the test.
func startTestNode(t *testing.T, o NodeOptions) *Node {
	t.Helper()
	begin := time.Now()
	n, err := StartNode(t.Context(), o)
	require.NoError(t, err)
	t.Logf("%s ready after %.2f s", n.Name, time.Since(begin).Seconds())
	t.Cleanup(func() { require.NoError(t, n.Stop()) })
	return n
}

func dial(t *testing.T, url string) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // the node may be gone by then
	ch, err := conn.Channel()
	require.NoError(t, err)
	return ch
}

func publishDurable(t *testing.T, url, queue string) {
	t.Helper()
	ch := dial(t, url)
	require.NoError(t, ch.Confirm(false))
	_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
	require.NoError(t, err)
	confirm, err := ch.PublishWithDeferredConfirm("", queue, false, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("kept")})
	require.NoError(t, err)
	acked, err := confirm.WaitContext(t.Context())
	require.NoError(t, err)
	require.True(t, acked)
}

func requireOneMessage(t *testing.T, url, queue string) {
	t.Helper()
	q, err := dial(t, url).QueueDeclarePassive(queue, true, false, false, false, nil)
	require.NoError(t, err)
	require.Equal(t, 1, q.Messages)
}

func TestNodeKeepsItsStateOverRestarts(t *testing.T) {
	n := startTestNode(t, NodeOptions{})
	publishDurable(t, n.URL, "kept")
	addr, first := n.Addr, n.PID()

	require.NoError(t, n.Restart(t.Context()), "in order")
	require.Equal(t, addr, n.Addr)
	require.NotEqual(t, first, n.PID())
	requireOneMessage(t, n.URL, "kept")

	require.NoError(t, n.Kill())
	require.Zero(t, n.PID())
	_, err := net.Dial("tcp", n.Addr)
	require.Error(t, err, "nobody listens after a kill")
	require.NoError(t, n.Restart(t.Context()), "after SIGKILL")
	requireOneMessage(t, n.URL, "kept")

	out, err := n.Ctl(t.Context(), "list_queues", "--no-table-headers", "name", "messages")
	require.NoError(t, err)
	require.Equal(t, "kept\t1\n", out)
	_, err = n.Ctl(t.Context(), "no_such_command")
	require.ErrorContains(t, err, "no_such_command")
}

func TestPauseAndResume(t *testing.T) {
	n := startTestNode(t, NodeOptions{Name: "sleeper"})
	require.Equal(t, "sleeper@localhost", n.Name)
	require.NoError(t, n.Pause())
	require.Eventually(t, func() bool { return processState(t, n.PID()) == "T" }, time.Minute, 5*time.Millisecond)
	require.NoError(t, n.Resume())
	publishDurable(t, n.URL, "awake")
}

func processState(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[:1]
}

func TestClusterOfTwo(t *testing.T) {
	a := startTestNode(t, NodeOptions{})
	b := startTestNode(t, NodeOptions{})
	require.NoError(t, b.Join(t.Context(), a))
	publishDurable(t, a.URL, "shared")
	requireOneMessage(t, b.URL, "shared")

	require.NoError(t, b.Restart(t.Context()))
	requireOneMessage(t, b.URL, "shared")
}

func TestPluginsAndConfig(t *testing.T) {
	n := startTestNode(t, NodeOptions{Plugins: []string{"rabbitmq_sharding"}, Config: "channel_max = 77"})
	ch := dial(t, n.URL)
	require.NoError(t, ch.ExchangeDeclare("x", "x-modulus-hash", true, false, false, false, nil))
	out, err := n.Ctl(t.Context(), "environment")
	require.NoError(t, err)
	require.Contains(t, out, "{channel_max,77}")
}

func TestOwnStateFolderIsKept(t *testing.T) {
	dir := t.TempDir()
	n := startTestNode(t, NodeOptions{Name: "keeper", Dir: dir})
	publishDurable(t, n.URL, "kept")
	require.NoError(t, n.Stop())
	n = startTestNode(t, NodeOptions{Name: "keeper", Dir: dir})
	requireOneMessage(t, n.URL, "kept")
}

func TestStopLeavesNothing(t *testing.T) {
	n, err := StartNode(t.Context(), NodeOptions{})
	require.NoError(t, err)
	mark := "RABBITMQ_MNESIA_BASE=" + filepath.Join(n.dir, "mnesia")
	require.NotEmpty(t, processesWith(mark), "the way to find them works")
	epmd := space.epmd
	require.NoError(t, n.Stop())
	require.Empty(t, processesWith(mark))
	require.True(t, epmd.Ended(), "it was the only node")
	require.NoDirExists(t, n.dir)
	_, err = net.Dial("tcp", n.Addr)
	require.Error(t, err)

	require.NoError(t, n.Stop(), "again")
	for name, err := range map[string]error{
		"kill": n.Kill(), "restart": n.Restart(t.Context()), "shutdown": n.Shutdown(),
	} {
		require.ErrorIs(t, err, ErrStopped, name)
	}
	_, err = n.Ctl(t.Context(), "status")
	require.ErrorIs(t, err, ErrStopped)
}

// A test process that is killed takes its nodes with it, and the next one removes its files.
func TestNothingOutlivesAKilledProcess(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	var workspace, dir string
	var node, epmd int
	_, err = fmt.Sscanf(line, "ready %s %s %d %d", &workspace, &dir, &node, &epmd)
	require.NoError(t, err, line)

	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed: an error by design
	mark := "RABBITMQ_MNESIA_BASE=" + filepath.Join(dir, "mnesia")
	require.Eventually(t, func() bool { return len(processesWith(mark)) == 0 }, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool { return gone(epmd) }, time.Minute, 10*time.Millisecond)

	require.DirExists(t, workspace)
	sweep(os.TempDir())
	require.NoDirExists(t, workspace)
	require.DirExists(t, ownWorkspace(t), "that of a living process stays")
}

// gone says that a process has ended; a zombie that its new parent has not yet waited for has.
func gone(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func ownWorkspace(t *testing.T) string {
	t.Helper()
	dir, err := space.folder("probe")
	require.NoError(t, err)
	return filepath.Dir(dir)
}

func TestStartErrors(t *testing.T) {
	t.Run("bad configuration", func(t *testing.T) {
		_, err := StartNode(t.Context(), NodeOptions{Config: "no.such.key = 1"})
		require.ErrorIs(t, err, errEnded)
		require.ErrorContains(t, err, "no.such.key", "the log's end is part of the error")
	})
	t.Run("not installed", func(t *testing.T) {
		t.Setenv("SHARDMQ_RABBITMQ_HOME", t.TempDir())
		_, err := StartNode(t.Context(), NodeOptions{})
		var missing *NotInstalledError
		require.ErrorAs(t, err, &missing)
		require.ErrorContains(t, err, "install-deps.sh")
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := StartNode(ctx, NodeOptions{})
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestBrokerOfTheUsersOwn(t *testing.T) {
	t.Setenv("AMQP_URL", "amqp://u:p@broker.example/v")
	n, err := Broker(t.Context())
	require.NoError(t, err)
	require.True(t, n.External())
	require.Equal(t, "broker.example:5672", n.Addr)
	require.Equal(t, "amqp://u:p@broker.example/v", n.URL)
	_, err = n.Ctl(t.Context(), "status")
	require.ErrorIs(t, err, ErrExternal)
	require.ErrorIs(t, n.Kill(), ErrExternal)
	require.ErrorIs(t, n.Pause(), ErrExternal)
	require.ErrorIs(t, n.Restart(t.Context()), ErrExternal)
	require.NoError(t, n.Stop())

	t.Setenv("AMQP_URL", "http://nonsense")
	_, err = Broker(t.Context())
	require.ErrorContains(t, err, "AMQP_URL")
}
