package integration

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/admin/inventory"
	"github.com/shardmq/shardmq/integration/rig"
	"github.com/shardmq/shardmq/shards/coordination"
)

// TestResizeQuorum: an exchange of quorum shards goes from 4 to 2 under load. RabbitMQ deletes such queues on no
// condition, so the surplus ones stay: bound no more, consumed, and left alone by the proxies, which say so once. An
// operator who asks for it gets rid of them while they are consumed; then the proxies forget them.
func TestResizeQuorum(t *testing.T) {
	onVersions(t, testResizeQuorum, "", "4.3")
}

func testResizeQuorum(t *testing.T, version string) {
	e := newNodeEnv(t, rig.NodeOptions{Version: version})
	f := e.fleet(fleetOptions{proxies: 2, exchange: "audit", fixed: 4, more: ", queue-arguments: {x-queue-type: quorum}"})
	all := f.shards(4, 0)
	surplus := all[2:]
	decided := newSpy(t, e.url, "audit")
	w := f.watch(e.url, all)
	var bodies []string
	for i := range 60 {
		bodies = append(bodies, fmt.Sprintf("key-%d/%d/0", i, i))
	}
	publishBodies(t, confirming(t, f.url(0)), "audit", bodies)
	for _, queue := range all {
		require.NotZero(t, ready(t, e.url, queue), "%s has messages when the exchange is resized", queue)
	}

	resizeFleet(t, f, f.definition(2, 0))
	decided.await("surplus shards to which nothing is published", func(x *coordination.Entry) string {
		if slices.Equal(queuesIn(x, coordination.Unbound), surplus) {
			return ""
		}
		return fmt.Sprintf("%+v", x.Layout)
	})
	held := make(chan amqp.Delivery, 1)
	a, b := consumeBut(t, f.url(0), "audit", held), consumeBut(t, f.url(1), "audit", held)
	waitBodies(t, bodies, a, b)
	w.settle(2)
	w.wanted.Store(true)
	moves := f.moves()

	stay := func() string {
		if n := inLogs(f, "surplus shard stays"); n != len(surplus) {
			return fmt.Sprintf("%d lines", n)
		}
		return ""
	}
	for tries := 0; tries < 90 && stay() != ""; tries++ { // they are left alone for a minute at least
		w.goOn(time.Second)
	}
	eventually(t, "what is said of the surplus shards", stay)
	require.Zero(t, w.longestAlone(), "all shards are consumed all the time")
	phases, states := decided.been()
	t.Logf("%d decisions; what the surplus shards were: %q", states, phases)
	require.NotContains(t, strings.Join(phases, "\n"), string(coordination.Closing), "they were not taken from their consumers")
	require.Equal(t, moves, f.moves())
	require.Zero(t, inLogs(f, "control connection lost"), "RabbitMQ closes it where such a queue is to be deleted on a condition")
	direct := confirming(t, e.url)
	publish(t, direct, "", surplus[1], amqp.Publishing{Body: []byte("late")})
	waitBodies(t, append(bodies, "late"), a, b)

	// A delivery that is not acknowledged yet keeps its shard, and is not lost.
	w.wanted.Store(false)
	publish(t, direct, "", surplus[0], amqp.Publishing{Body: []byte(heldBody)})
	testPruneQuorum(t, f, surplus, decided, wait(t, "the delivery to hold", held))
	again := []string{"key-1/100/0", "key-2/101/0", "key-3/102/0"}
	publishBodies(t, confirming(t, f.url(1)), "audit", again)
	waitBodies(t, slices.Concat(bodies, []string{"late", heldBody}, again), a, b)
	require.Equal(t, len(surplus), inLogs(f, "surplus shard stays"))
	require.Equal(t, len(surplus), inLogs(f, `"surplus shard removed"`))
	require.Zero(t, inLogs(f, "control connection lost"))
}

// testPruneQuorum removes surplus shards that are consumed, of the first of which a delivery is held, with the command.
func testPruneQuorum(t *testing.T, f *fleet, surplus []string, decided *spy, held amqp.Delivery) {
	file := configFile(t, f.config(0, f.definition(2, 0)))
	_, listed := listShards(t, "--config", file)
	require.Len(t, listed, 4)
	for _, queue := range surplus {
		require.Equal(t, inventory.Draining, listed[queue].Status)
	}
	out, code := shardmq(t, "shards", "prune", "--config", file)
	require.Zero(t, code)
	for _, queue := range surplus {
		require.Regexp(t, `(?m)^keep +`+queue+` .*a replicated queue, .* --force deletes it all the same$`, out)
	}
	_, code = shardmq(t, "shards", "prune", "--config", file, "--yes")
	require.Equal(t, 1, code, "they had to stay")
	out, code = shardmq(t, "shards", "prune", "--config", file, "--force")
	require.Zero(t, code)
	require.Contains(t, out, "nothing has been deleted: run again with --yes to delete 2 shards")

	pruned := make(chan string, 1)
	go func() {
		out, code := shardmq(t, "shards", "prune", "--config", file, "--force", "--yes")
		pruned <- fmt.Sprintf("exit code %d\n%s", code, out)
	}()
	decided.await("the end of all consumers of the shard", func(x *coordination.Entry) string {
		if slices.Contains(queuesIn(x, coordination.Closing), surplus[0]) {
			return ""
		}
		return fmt.Sprintf("%+v", x.Old)
	})
	require.True(t, f.e.exists(surplus[0]), "a message of it is not acknowledged")
	require.NoError(t, held.Ack(false))
	out = <-pruned
	require.Contains(t, out, "exit code 0\n")
	for _, queue := range surplus {
		require.Regexp(t, `(?m)^deleted +`+queue+` `, out)
		require.False(t, f.e.exists(queue))
	}
	decided.await("the end of the surplus shards in the plan", func(x *coordination.Entry) string {
		if len(x.Old) == 0 && len(x.Set) == 2 {
			return ""
		}
		return fmt.Sprintf("%+v", x.Layout)
	})
	_, listed = listShards(t, "--config", file)
	require.Len(t, listed, 2)
	out, code = shardmq(t, "shards", "prune", "--config", file, "--force", "--yes")
	require.Zero(t, code)
	require.Equal(t, "no surplus shards\n", out)
}

// heldBody is what messages have in them that consumeBut leaves to the test to acknowledge.
const heldBody = "held"

// consumeBut is consume without a bound on deliveries, and with some that go to a channel instead of being acknowledged.
func consumeBut(t *testing.T, url, queue string, held chan<- amqp.Delivery) *consumer {
	t.Helper()
	conn := dial(t, url)
	c := &consumer{conn: conn, ch: channel(t, conn), tag: "test-consumer", done: make(chan struct{})}
	deliveries, err := c.ch.Consume(queue, c.tag, false, false, false, false, nil)
	require.NoError(t, err, "consume from %q", queue)
	acknowledged := make(chan amqp.Delivery)
	go c.collect(acknowledged)
	go func() {
		defer close(acknowledged)
		for d := range deliveries {
			if string(d.Body) != heldBody {
				acknowledged <- d
				continue
			}
			c.mu.Lock()
			c.got = append(c.got, d)
			c.mu.Unlock()
			held <- d
		}
	}()
	return c
}

// resizeFleet has all proxies reload.
func resizeFleet(t *testing.T, f *fleet, definition string) {
	t.Helper()
	for i, p := range f.proxies {
		require.NoError(t, p.Configure(f.config(i, definition)))
		require.NoError(t, p.Signal(syscall.SIGHUP))
	}
}

// queuesIn returns the queues of former sets that are in a phase, sorted.
func queuesIn(x *coordination.Entry, phase coordination.Phase) (queues []string) {
	for _, old := range x.Old {
		if old.Phase == phase {
			queues = append(queues, old.Queue)
		}
	}
	slices.Sort(queues)
	return queues
}

// ready is how many messages wait in a queue.
func ready(t *testing.T, url, queue string) int {
	t.Helper()
	ch := open(t, url)
	defer ch.Close()
	q, err := ch.QueueDeclarePassive(queue, false, false, false, false, nil)
	require.NoError(t, err)
	return q.Messages
}

// inLogs counts the lines with these words in the proxies' logs.
func inLogs(f *fleet, words string) (lines int) {
	for _, p := range f.proxies {
		lines += strings.Count(p.Logs(), words)
	}
	return lines
}
