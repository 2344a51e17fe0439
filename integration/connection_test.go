package integration

import (
	"os"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/integration/rig"
)

// TestStart: the broker's own version, mechanisms and properties are relayed.
func TestStart(t *testing.T) {
	t.Parallel()
	requireTransparent(t, func(t *testing.T, e *env, url string, tr *transcript) {
		r := rawTCP(t, url)
		r.write(frames.ProtocolHeader[:])
		f, err := r.next()
		require.NoError(t, err)
		tr.add("%s", describe(f))
	})
}

// TestAMQPLAIN: the other way to say name and password.
func TestAMQPLAIN(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.proxy(map[string]int{e.name("images"): 4})
	u, err := amqp.ParseURI(p.URL)
	require.NoError(t, err)
	conn, err := amqp.DialConfig(p.URL, amqp.Config{SASL: []amqp.Authentication{&amqp.AMQPlainAuth{Username: u.Username, Password: u.Password}}})
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, channel(t, conn).Qos(1, 0, false))
}

// TestHeartbeats: they pass from end to end: who sends them stays, and who does not is dropped by the broker.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.proxy(map[string]int{e.name("images"): 4})
	often := func(ok *frames.ConnectionTuneOk) { ok.Heartbeat = 1 }
	heartbeat := frames.AppendFrame(nil, frames.TypeHeartbeat, 0, nil)

	lively := rawTCP(t, p.URL)
	lively.login(p.URL, often)
	for range 8 { // the broker sends two a second, and drops who is silent for longer than two seconds
		f, err := lively.next()
		require.NoError(t, err)
		require.Equal(t, frames.TypeHeartbeat, f.Type())
		lively.write(heartbeat)
	}
	lively.write(method(1, &frames.ChannelOpen{}))
	f, err := lively.next()
	require.NoError(t, err)
	require.Contains(t, []frames.MethodID{frames.ChannelOpenOkID, 0}, f.Method())

	silent := rawTCP(t, p.URL)
	silent.login(p.URL, often)
	for {
		f, err := silent.next()
		if err != nil || f.Method() == frames.ConnectionCloseID {
			break
		}
		require.Equal(t, frames.TypeHeartbeat, f.Type(), "%q", head(f, 200))
	}
}

// TestGoodbye: after close-ok it is the client that ends the TCP connection, as RabbitMQ has it. Clients still write
// acknowledgements then, from other threads, and report a connection that is shut in their face as an error.
func TestGoodbye(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.proxy(map[string]int{e.name("images"): 4})
	for name, url := range map[string]string{"directly": e.url, "through the proxy": p.URL} {
		r := rawOpen(t, url)
		r.write(method(0, &frames.ConnectionClose{ReplyCode: 200, ReplyText: "bye"}))
		r.expect(0, &frames.ConnectionCloseOk{})
		require.NoError(t, r.conn.SetReadDeadline(time.Now().Add(500*time.Millisecond)))
		_, err := r.conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "%s: still open", name)
	}
}

// TestClientProperties: an operator sees in the broker who is behind the proxy, and what the client said of itself.
func TestClientProperties(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	p := e.proxy(nil)
	config := amqp.Config{Properties: amqp.NewConnectionProperties()}
	config.Properties.SetClientConnectionName("name of the client's own")
	conn, err := amqp.DialConfig(p.URL, config)
	require.NoError(t, err)
	defer conn.Close()
	listed := e.ctl("list_connections", "vhost", "client_properties")
	require.Contains(t, listed, "name of the client's own")
	require.Contains(t, listed, conn.LocalAddr().String())
	require.Contains(t, listed, "shardmq")
}

// TestAlarm: a memory alarm blocks publishers and tells them; consumers go on, and it ends.
func TestAlarm(t *testing.T) {
	t.Parallel()
	e := newNodeEnv(t, rig.NodeOptions{})
	p := e.proxy(map[string]int{"images": 4})
	conn := dial(t, p.URL)
	ch := channel(t, conn)
	require.NoError(t, ch.Confirm(false))
	declareSharded(t, ch, "images")
	publishKeys(t, ch, "images", keys("key", 40))
	blockings := conn.NotifyBlocked(make(chan amqp.Blocking, 2))
	e.ctl("set_vm_memory_high_watermark", "0.0001")
	awaitAlarm(t, e.broker) // a publish in front of it would block nobody
	confirm, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "images", "k", true, false, text("blocked"))
	require.NoError(t, err)
	b := wait(t, "connection.blocked", blockings)
	require.True(t, b.Active)
	require.Contains(t, b.Reason, "memory")
	c := consume(t, p.URL, "images", 0)
	waitBodies(t, keys("key", 40), c)
	e.ctl("set_vm_memory_high_watermark", "0.8")
	require.False(t, wait(t, "connection.unblocked", blockings).Active)
	acked, err := confirm.WaitContext(t.Context())
	require.NoError(t, err)
	require.True(t, acked)
	waitBodies(t, append(keys("key", 40), "blocked"), c)
}

// TestFedBy: messages that come to the sharded exchange by way of another one, which the policy names, are placed like
// all others; and those whose routing key matches no binding do not come.
func TestFedBy(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images, events := e.name("images"), e.name("events")
	p := e.proxyWith(e.policy(images, 4, ", hash: phash2, fed-by: ["+events+"]"))
	ch := confirming(t, p.URL)
	declareSharded(t, ch, images)
	require.NoError(t, ch.ExchangeDeclare(events, "topic", true, false, false, false, nil))
	want := vectors(t)[4]
	for key := range want {
		if len(key) == 2 { // k0 to k9 are not bound
			continue
		}
		require.NoError(t, ch.ExchangeBind(images, key, events, false, nil))
	}
	for key := range want {
		require.NoError(t, ch.PublishWithContext(t.Context(), events, key, false, false, text(key)))
	}
	publish(t, ch, images, "k0", text("k0"))
	placed := 0
	for index, messages := range e.probe(images, 4).drain() {
		for _, m := range messages {
			require.Equal(t, want[m.RoutingKey], index, "shard of key %q", m.RoutingKey)
			require.True(t, len(m.RoutingKey) > 2 || m.Exchange == images, "%q came through %q", m.RoutingKey, m.Exchange)
			placed++
		}
	}
	require.Equal(t, 91, placed)
}

// TestConsumersOne: with consumers: one, a consumer has one shard and keeps it, as with the plugin.
func TestConsumersOne(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxyWith(e.policy(images, 4, ", consumers: one"))
	declareSharded(t, open(t, p.URL), images)
	shards := e.probe(images, 4)
	consumers := []*consumer{consume(t, p.URL, images, 0)}
	shards.waitConsumers(1, 0, 0, 0)
	for range 5 {
		consumers = append(consumers, consume(t, p.URL, images, 0))
	}
	shards.waitConsumers(2, 2, 1, 1)
	consumers[2].leave(t)
	shards.waitConsumers(2, 2, 0, 1)
	consume(t, p.URL, images, 0)
	shards.waitConsumers(2, 2, 1, 1)
}
