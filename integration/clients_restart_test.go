package integration

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

// restartClients are those whose session can see what it is connected to end and start again ("restart"), and whether the library comes back
// and consumes on by itself. With the others that is the session's.
var restartClients = map[string]bool{
	"amqp091-go": false, "pika": false, "amqplib": false,
	"kombu": true, "celery": true, "rabbitmq-client": true, "bunny": true, "amqp-client": true,
}

// TestClientsAfterRestart: a proxy that ends in order closes connections as a broker that shuts down does, and when another one is there in
// its place, clients come back and get what was published meanwhile.
func TestClientsAfterRestart(t *testing.T) {
	t.Parallel()
	m := &matrix{dir: t.TempDir(), slots: make(chan struct{}, matrixSessions)}
	m.build()
	known := 0
	t.Run("clients", func(t *testing.T) {
		for _, c := range matrixClients {
			if _, can := restartClients[c.name]; !can {
				continue
			}
			known++
			for _, w := range []way{bare, sharded} {
				t.Run(c.name+" "+matrixNames[w], func(t *testing.T) {
					t.Parallel()
					m.restart(t, c, w)
				})
			}
		}
	})
	require.Equal(t, len(restartClients), known)
}

// restart runs one session up to "wait restart", replaces its proxy and requires the session to go on.
func (m *matrix) restart(t *testing.T, c matrixClient, w way) {
	e := newEnv(t)
	exchange := e.name(c.queue())
	// An address of its own: nobody takes the port while no proxy has it.
	config := strings.Replace(e.config(e.broker.Addr, e.policy(exchange, 4, "")), "127.0.0.1:0", "127.0.0.2:0", 1)
	kind := modulusHash
	if w == bare {
		config, kind = strings.Replace(config, "'^"+exchange, "'^another-"+exchange, 1), "fanout"
	}
	first := e.start(rig.ProxyOptions{Upstream: e.url, Config: config})
	args := []string{withVhost(t, first.URL, e.vhost), exchange, exchange, kind, "restart"}
	said := m.run(t, c.command(t, m), args, func(wait string) {
		require.Equal(t, "restart", wait)
		require.Equal(t, w == sharded, e.exists(e.shard(exchange, 0)))
		code, err := first.Stop()
		require.NoError(t, err)
		require.Zero(t, code, "the proxy's exit code; its log:\n%s", first.Logs())
		publish(t, confirming(t, e.url), exchange, "meanwhile", c.meanwhile())
		e.start(rig.ProxyOptions{Upstream: e.url, Config: strings.Replace(config, "127.0.0.2:0", first.Addr, 1)})
	})
	_, details, ok := strings.Cut(said, "ok restart: ")
	require.True(t, ok, said)
	require.Contains(t, details, "CONNECTION_FORCED - shardmq is shutting down")
	if c.name != "bunny" { // it does not say the code
		require.Contains(t, details, "after 320 ")
	}
	queues := []string{exchange}
	if w == sharded {
		queues = e.shards(exchange, 4)
	}
	for _, queue := range queues {
		eventually(t, "the consumer's leaving", func() string { return e.left(queue) })
	}
}

// left says what is wrong with a queue that nobody consumes any more: with the consumer its unacknowledged messages would have come back.
func (e *env) left(queue string) string {
	q, err := open(e.t, e.url).QueueDeclarePassive(queue, true, false, false, false, nil)
	require.NoError(e.t, err)
	if q.Consumers > 0 {
		return "it is there"
	}
	require.Zero(e.t, q.Messages, queue)
	return ""
}

// meanwhile is a message as the client expects it.
func (c matrixClient) meanwhile() amqp.Publishing {
	m := amqp.Publishing{ContentType: "text/plain", ContentEncoding: "utf-8", Body: []byte("meanwhile")}
	if c.name == "celery" {
		m.ContentType, m.Body = "application/json", []byte(`[["meanwhile"], {}, {}]`)
		m.Headers = amqp.Table{"lang": "py", "task": "session.work", "id": "9f5c1c3e-0d3f-4a57-a0cd-2b1b3f0a4f11"}
		m.CorrelationId = m.Headers["id"].(string)
	}
	return m
}
