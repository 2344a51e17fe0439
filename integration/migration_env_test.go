package integration

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

// What the migration tests share: a broker with RabbitMQ's own sharding plugin, and clients that write down what they
// sent and got. docs/migrating-from-the-plugin.md describes the same steps.

// newPluginEnv starts a broker whose plugin shards the exchange "images" into n queues, and declares it as the plugin's
// users do.
func newPluginEnv(t *testing.T, version string, n int) *env {
	t.Helper()
	e := newNodeEnv(t, pluginNode(version))
	e.pluginShards(n)
	declareSharded(t, open(t, e.url), "images")
	e.waitBound(n)
	return e
}

func pluginNode(version string) rig.NodeOptions {
	return rig.NodeOptions{Version: version, Plugins: []string{"rabbitmq_sharding"}}
}

// pluginShards sets the plugin's policy.
func (e *env) pluginShards(n int) {
	e.t.Helper()
	e.ctl("set_policy", "--apply-to", "exchanges", "images", "^images$", fmt.Sprintf(`{"shards-per-node": %d}`, n))
}

// adopt starts a proxy that shards "images" as the plugin does: into n queues by the plugin's hash.
func (e *env) adopt(n int) *rig.Proxy {
	e.t.Helper()
	return e.proxyWith(e.policy("images", n, ", hash: phash2"))
}

// plugins enables or disables plugins of the test's broker.
func (e *env) plugins(what string, names ...string) {
	e.t.Helper()
	require.NoError(e.t, e.broker.Plugins(e.t.Context(), what, names...))
}

// currentType matches what a broker says of an exchange that is declared with another type.
var currentType = regexp.MustCompile(`but current is '+([a-z-]+)'`)

// exchangeType asks the broker what "images" is: it refuses to take it for a headers exchange.
func (e *env) exchangeType() string {
	e.t.Helper()
	err := open(e.t, e.url).ExchangeDeclare("images", "headers", true, false, false, false, nil)
	require.Error(e.t, err)
	found := currentType.FindStringSubmatch(err.Error())
	require.NotNil(e.t, found, "%v", err)
	return found[1]
}

// waitBound waits until so many queues are bound to "images". The broker itself looks again and again: a tool that is
// started for each look takes seconds of the processor's time.
func (e *env) waitBound(n int) {
	e.t.Helper()
	const look = `Wait = fun Wait(0, N) -> {still, N}; Wait(Tries, _) ->
		case length(rabbit_binding:list_for_source(rabbit_misc:r(<<"/">>, exchange, <<"images">>))) of
			%d -> reached;
			Other -> timer:sleep(100), Wait(Tries - 1, Other)
		end end, Wait(%d, none).`
	require.Equal(e.t, "reached", strings.TrimSpace(e.ctl("eval", fmt.Sprintf(look, n, patience/(100*time.Millisecond)))))
}

// stream is messages with numbers that rise for each key. Its methods may be used by several goroutines.
type stream struct {
	t    *testing.T
	mu   sync.Mutex
	next map[string]int
	sent []string // bodies "key/number" whose confirm has come

	refused atomic.Int64 // messages
}

func newStream(t *testing.T) *stream { return &stream{t: t, next: map[string]int{}} }

// streamKeys are the keys of a stream: some on each of four shards, and the empty one.
func streamKeys() []string { return append(keys("key", 19), "") }

// send publishes each key's next message n times over and waits for each confirm before the next message: what is
// confirmed is in order, and what is refused is not in the broker.
func (s *stream) send(url string, n int) {
	s.t.Helper()
	ch := confirming(s.t, url)
	for range n {
		for _, key := range streamKeys() {
			require.NoError(s.t, s.sendOne(ch, key))
		}
	}
	require.NoError(s.t, ch.Close())
}

func (s *stream) sendOne(ch *amqp.Channel, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	body := key + "/" + strconv.Itoa(s.next[key])
	confirm, err := ch.PublishWithDeferredConfirmWithContext(s.t.Context(), "images", key, false, false, text(body))
	if err != nil {
		return err
	}
	if acked, err := confirm.WaitContext(s.t.Context()); err != nil || !acked {
		return errors.Join(errors.New("not confirmed"), err)
	}
	s.next[key]++
	s.sent = append(s.sent, body)
	return nil
}

// keepSending publishes in the background until the returned function is called, which says how many messages it
// sent and how many were refused. A refused message is sent again on a new channel, as clients that recover do.
func (s *stream) keepSending(url string) (stop func() (sent, refused int)) {
	conn := dial(s.t, url)
	var ended atomic.Bool
	var sent, refused int
	done := make(chan error, 1)
	go func() { done <- s.sendUntil(conn, &ended, &sent, &refused) }()
	return func() (int, int) {
		s.t.Helper()
		ended.Store(true)
		require.NoError(s.t, wait(s.t, "the publisher's end", done))
		return sent, refused
	}
}

// sendUntil takes its time: the broker's tools, which the tests run meanwhile, want some of the processor too.
func (s *stream) sendUntil(conn *amqp.Connection, ended *atomic.Bool, sent, refused *int) error {
	list := streamKeys()
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ; err == nil && !ended.Load(); <-tick.C {
		if s.sendOne(ch, list[*sent%len(list)]) == nil {
			*sent++
			continue
		}
		*refused++
		s.refused.Add(1)
		if ch, err = conn.Channel(); err == nil {
			err = ch.Confirm(false)
		}
	}
	return err
}

// requireAll waits until the consumers together have got every message that was confirmed, and wants each once.
func (s *stream) requireAll(consumers ...*consumer) {
	s.t.Helper()
	waitBodies(s.t, s.sent, consumers...)
}

// requireOrder wants the numbers of each key to rise at one consumer.
func requireOrder(t *testing.T, deliveries []amqp.Delivery) {
	t.Helper()
	last := map[string]int{}
	for _, d := range deliveries {
		key, number, _ := strings.Cut(string(d.Body), "/")
		n, err := strconv.Atoi(number)
		require.NoError(t, err)
		if before, seen := last[key]; seen {
			require.Greater(t, n, before, "number of a message with key %q after number %d", key, before)
		}
		last[key] = n
	}
}
