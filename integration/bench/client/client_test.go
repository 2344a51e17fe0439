package client_test

import (
	"context"
	"os"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/integration/bench/client"
	"github.com/shardmq/shardmq/integration/rig"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := rig.Cleanup(); err != nil {
		code = 1
	}
	os.Exit(code)
}

// What the client encodes is AMQP to a real broker too, and what it reads is exactly what was sent.
func TestAgainstRabbitMQ(t *testing.T) {
	broker, err := rig.StartNode(t.Context(), rig.NodeOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, broker.Stop()) }()
	conn, err := amqp.Dial(broker.URL)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }() // before the broker stops
	ch, err := conn.Channel()
	require.NoError(t, err)
	_, err = ch.QueueDeclare("q", false, false, false, false, nil)
	require.NoError(t, err)

	const n, size = 5_003, 1024
	c, err := client.Dial(t.Context(), broker.Addr)
	require.NoError(t, err)
	require.NoError(t, c.Call(&frames.ConfirmSelect{}, &frames.ConfirmSelectOk{}))
	require.NoError(t, c.Confirmed(client.NewBatch("", []string{"q", "q", "nowhere"}, make([]byte, size)), n))
	q, err := ch.QueueDeclarePassive("q", false, false, false, false, nil)
	require.NoError(t, err)
	require.Equal(t, n-n/3, q.Messages)

	_, err = c.Consume("q", q.Messages, size)
	require.NoError(t, err)
	require.NoError(t, c.Close())

	c, err = client.Dial(t.Context(), broker.Addr)
	require.NoError(t, err)
	_, err = c.Consume("missing", 1, size)
	require.ErrorContains(t, err, "404")
	require.NoError(t, c.Close())

	c, err = client.Dial(t.Context(), broker.Addr)
	require.NoError(t, err)
	defer func() { _ = c.Close() }() // the broker has closed the channel
	require.NoError(t, c.Call(&frames.ConfirmSelect{}, &frames.ConfirmSelectOk{}))
	require.ErrorContains(t, c.Confirmed(client.NewBatch("missing", []string{"k"}, nil), n), "404")
}

func TestCancelledContextEndsACall(t *testing.T) {
	broker, err := rig.StartNode(t.Context(), rig.NodeOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, broker.Stop()) }()
	ctx, cancel := context.WithCancel(t.Context())
	c, err := client.Dial(ctx, broker.Addr)
	require.NoError(t, err)
	defer func() { _ = c.Close() }() // closed by the context
	require.NoError(t, c.Call(&frames.QueueDeclare{Queue: "empty"}, &frames.QueueDeclareOk{}))
	ended := make(chan error, 1)
	go func() {
		_, err := c.Consume("empty", 1, 0)
		ended <- err
	}()
	cancel()
	require.Error(t, <-ended)
}

// Messages on several channels, each with a write and headers of its own, and a connection that is closed in order.
func TestMessagesOneByOne(t *testing.T) {
	broker, err := rig.StartNode(t.Context(), rig.NodeOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, broker.Stop()) }()
	conn, err := amqp.Dial(broker.URL)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }() // before the broker stops
	ch, err := conn.Channel()
	require.NoError(t, err)
	_, err = ch.QueueDeclare("q", false, false, false, false, nil)
	require.NoError(t, err)

	c, err := client.DialWith(t.Context(), broker.Addr, client.Options{Channels: 3, Heartbeat: time.Minute})
	require.NoError(t, err)
	batch := client.NewBatchOf([]client.Message{
		{RoutingKey: "q", Body: []byte("a")},
		{RoutingKey: "q", Channel: 2, Body: []byte("b"), Headers: frames.AppendString(nil, "k", "v")},
		{RoutingKey: "q", Channel: 3, Body: []byte("c")},
	})
	copy(batch.Body(2), "d")
	require.NoError(t, c.PublishEach(batch, 5))
	require.NoError(t, c.Shut()) // the broker has read everything before
	got := map[string]int{}
	deliveries, err := ch.Consume("q", "", true, false, false, false, nil)
	require.NoError(t, err)
	for range 5 {
		d := <-deliveries
		got[string(d.Body)]++
		if string(d.Body) == "b" {
			require.Equal(t, amqp.Table{"k": "v"}, d.Headers)
		}
	}
	require.Equal(t, map[string]int{"a": 2, "b": 2, "d": 1}, got)
}
