package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := rig.Cleanup(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var usual = options{exchange: "images", shards: 4, messages: 10_000, keys: 1000, consumers: 2}

func TestWithAPrivateBroker(t *testing.T) {
	t.Setenv("AMQP_URL", "")
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), usual, &screen{out: &out}), out.String())
	t.Log("\n" + out.String())
	require.Equal(t, 4, strings.Count(out.String(), "\nsharding: images - "), "a row for each shard")
	require.Equal(t, 4, strings.Count(out.String(), "\nok  "), "all checks")
	require.Regexp(t, `(?m)^total +10,000 +1,000 +\d+ +10,000$`, out.String())
}

// The demo leaves another's broker as it found it, and does not touch an exchange that is there already.
func TestWithAnothersBroker(t *testing.T) {
	broker, err := rig.StartNode(t.Context(), rig.NodeOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, broker.Stop()) }()
	t.Setenv("AMQP_URL", broker.URL)
	before := inventory(t, broker)
	few := options{exchange: "demo x", shards: 3, messages: 500, keys: 100, consumers: 5}
	for range 2 {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), few, &screen{out: &out}), out.String())
		require.Equal(t, before, inventory(t, broker))
	}

	conn, err := amqp.Dial(broker.URL)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }() // before the broker stops
	ch, err := conn.Channel()
	require.NoError(t, err)
	require.NoError(t, ch.ExchangeDeclare("mine", "topic", true, false, false, false, nil))
	before = inventory(t, broker)
	few.exchange = "mine"
	require.ErrorContains(t, run(t.Context(), few, &screen{out: &bytes.Buffer{}}), "already")
	require.Equal(t, before, inventory(t, broker))
}

func inventory(t *testing.T, broker *rig.Node) string {
	t.Helper()
	var all strings.Builder
	for _, what := range []string{"list_queues", "list_exchanges"} {
		out, err := broker.Ctl(t.Context(), what, "name")
		require.NoError(t, err)
		lines := strings.Split(out, "\n")
		all.WriteString(strings.Join(lines, ";") + "|")
	}
	return all.String()
}

func TestSaysWhatIsMissing(t *testing.T) {
	t.Setenv("AMQP_URL", "")
	t.Setenv("SHARDMQ_RABBITMQ_HOME", t.TempDir())
	err := run(t.Context(), usual, &screen{out: &bytes.Buffer{}})
	require.ErrorContains(t, err, "rabbitmq-server is not installed")
	require.ErrorContains(t, err, "install-deps.sh")
}

func TestEveryMessageIsChecked(t *testing.T) {
	good := amqp.Delivery{MessageId: "message-7", Exchange: "images", RoutingKey: "user.7", ConsumerTag: "consumer-1"}
	d := &demo{options: usual, shares: make([]int, 2), shard: map[string]*shard{"message-7": {}, "message-8": {}}}
	seen := map[string]bool{}
	require.NoError(t, d.check(arrival{0, good}, seen))
	require.Equal(t, 1, d.shard["message-7"].received)
	require.Equal(t, []int{1, 0}, d.shares)
	require.ErrorContains(t, d.check(arrival{0, good}, seen), "twice")
	for fault, change := range map[string]func(*amqp.Delivery){
		"not published":   func(m *amqp.Delivery) { m.MessageId = "message-9" },
		"arrived as":      func(m *amqp.Delivery) { m.RoutingKey = "user.9" },
		"was published":   func(m *amqp.Delivery) { m.Exchange = "" },
		"without headers": func(m *amqp.Delivery) { m.Headers = amqp.Table{"BCC": []any{"k"}} },
		"for consumer":    func(m *amqp.Delivery) { m.ConsumerTag = "else" },
	} {
		m := good
		m.MessageId, m.RoutingKey = "message-8", "user.8"
		change(&m)
		require.ErrorContains(t, d.check(arrival{0, m}, seen), fault)
	}
}

func TestVerdict(t *testing.T) {
	fresh := func() *demo {
		d := &demo{options: options{exchange: "x", shards: 2, messages: 10, keys: 40}, screen: &screen{out: &bytes.Buffer{}}}
		for i := range 2 {
			d.shards = append(d.shards, &shard{queue: fmt.Sprint("q", i), published: 5, received: 5, consumers: 1})
		}
		return d
	}
	require.NoError(t, fresh().verdict())
	for fault, change := range map[string]func(*demo){
		"9 messages of 10":         func(d *demo) { d.shards[0].received = 4 },
		"more than one shard":      func(d *demo) { d.split = map[string]bool{"k": true} },
		`no message went to ["q1"`: func(d *demo) { d.shards[1].published = 0 },
		"no consumer was attached": func(d *demo) { d.shards[1].consumers = 0 },
	} {
		d := fresh()
		change(d)
		require.ErrorContains(t, d.verdict(), fault)
	}
	few := fresh()
	few.keys, few.shards[1].published = 3, 0
	require.NoError(t, few.verdict(), "with few keys a shard may get none")
}

func TestScreen(t *testing.T) {
	var out bytes.Buffer
	begin := time.Now().Add(-2 * time.Second)
	plain := &screen{out: &out}
	plain.bar("published", 10, 2000, begin)
	require.Empty(t, out.String(), "no half-finished lines where there is no terminal")
	plain.bar("published", 2000, 2000, begin)
	require.Regexp(t, `^published  2,000 messages in 2\.\d s, \S+ a second\n$`, out.String())

	out.Reset()
	terminal := &screen{out: &out, terminal: true}
	terminal.bar("published", 500, 2000, begin)
	require.Contains(t, out.String(), "["+strings.Repeat("█", 7)+strings.Repeat("·", 23)+"] 500 of 2,000")
	terminal.bar("published", 2000, 2000, begin)
	require.True(t, strings.HasSuffix(out.String(), "a second\n"))

	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		require.Equal(t, want, grouped(n))
	}
}

func TestInterruptedRunCleansUp(t *testing.T) {
	broker, err := rig.StartNode(t.Context(), rig.NodeOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, broker.Stop()) }()
	t.Setenv("AMQP_URL", broker.URL)
	before := inventory(t, broker)
	ctx, cancel := context.WithCancel(t.Context())
	out := &cancelling{word: "published", cancel: cancel}
	require.ErrorIs(t, run(ctx, usual, &screen{out: out}), context.Canceled)
	require.Equal(t, before, inventory(t, broker))
}

// cancelling is a screen that cancels a run as soon as it prints a word.
type cancelling struct {
	word   string
	cancel context.CancelFunc
}

func (c *cancelling) Write(b []byte) (int, error) {
	if strings.Contains(string(b), c.word) {
		c.cancel()
	}
	return len(b), nil
}
