package integration

import (
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// TestPseudoQueueDeclare: declare-ok has the pseudo-queue's own name and the sums, also before there is any shard.
func TestPseudoQueueDeclare(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	ch := confirming(t, p.URL)
	requireDeclared := func(messages, consumers int) {
		t.Helper()
		for _, durable := range []bool{true, false} {
			q, err := ch.QueueDeclare(images, durable, false, false, false, nil)
			require.NoError(t, err)
			require.Equal(t, amqp.Queue{Name: images, Messages: messages, Consumers: consumers}, q)
		}
		q, err := ch.QueueDeclarePassive(images, true, false, false, false, nil)
		require.NoError(t, err)
		require.Equal(t, amqp.Queue{Name: images, Messages: messages, Consumers: consumers}, q, "declared passively")
	}
	requireDeclared(0, 0)
	declareSharded(t, ch, images)
	requireDeclared(0, 0)
	publishKeys(t, ch, images, keys("key", 30))
	requireDeclared(30, 0)
	c := consume(t, p.URL, images, 0)
	e.probe(images, 4).waitConsumers(1, 1, 1, 1)
	waitBodies(t, keys("key", 30), c)
	requireDeclared(0, 4)
	require.False(t, e.exists(images), "a queue named like the exchange was made in the broker")
}

// TestPseudoQueueBind: binding to the sharded exchange itself is how it is anyway; to another one is refused.
func TestPseudoQueueBind(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	conn := dial(t, p.URL)
	ch := channel(t, conn)
	declareSharded(t, ch, images)
	require.NoError(t, ch.QueueBind(images, "any", images, false, nil))
	require.NoError(t, ch.QueueBind(images, "any", images, true, nil))
	require.NoError(t, ch.QueueUnbind(images, "any", images, nil))
	require.NoError(t, ch.ExchangeDeclarePassive(images, "direct", true, false, false, false, nil))

	bind := channel(t, conn)
	require406(t, bind, bind.QueueBind(images, "key", "amq.topic", false, nil), images, "amq.topic")
	unbind := channel(t, conn)
	require406(t, unbind, unbind.QueueUnbind(images, "key", "amq.topic", nil), images)
	publishKeys(t, confirming(t, p.URL), images, keys("key", 40))
	require.NotContains(t, e.probe(images, 4).load().messages, 0, "still bound")
}

// require406 checks that the call failed with a channel error whose text has these words in it.
func require406(t *testing.T, ch *amqp.Channel, err error, words ...string) {
	t.Helper()
	var e *amqp.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, amqp.PreconditionFailed, e.Code, "%v", err)
	require.True(t, strings.HasPrefix(e.Reason, "PRECONDITION_FAILED - "), "text: %s", e.Reason)
	for _, word := range words {
		require.Contains(t, e.Reason, word)
	}
	require.True(t, ch.IsClosed())
}

// TestPseudoQueueDelete: the policy owns the shards; the text names the command that removes them.
func TestPseudoQueueDelete(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	conn := dial(t, p.URL)
	declareSharded(t, channel(t, conn), images)
	for _, flags := range [][2]bool{{false, false}, {true, false}, {false, true}} {
		ch := channel(t, conn)
		_, err := ch.QueueDelete(images, flags[0], flags[1], false)
		require406(t, ch, err, images, "shardmq shards prune")
	}
	ch := channel(t, conn)
	end := ch.NotifyClose(make(chan *amqp.Error, 1))
	_, err := ch.QueueDelete(images, false, false, true)
	require.NoError(t, err, "nowait")
	require406(t, ch, closed(t, end), images)
	require.Len(t, e.probe(images, 4).load().messages, 4, "the shards are still there")
}

// TestPseudoQueueGet: message_count is the sum, one empty shard is not an empty queue, and acks reach the right one.
func TestPseudoQueueGet(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	ch := confirming(t, p.URL)
	declareSharded(t, ch, images)
	_, ok, err := ch.Get(images, false)
	require.NoError(t, err)
	require.False(t, ok, "empty before the first message")
	shards := e.probe(images, 4)
	publishKeys(t, ch, images, keys("key", 24))
	var got []amqp.Delivery
	for i := range 24 {
		d, ok, err := ch.Get(images, false)
		require.NoError(t, err)
		require.True(t, ok, "get number %d", i+1)
		require.Equal(t, uint64(i+1), d.DeliveryTag)
		require.Equal(t, uint32(23-i), d.MessageCount)
		require.Equal(t, string(d.Body), d.RoutingKey)
		got = append(got, d)
	}
	require.NoError(t, got[9].Ack(true))
	require.NoError(t, got[10].Nack(false, true))
	require.NoError(t, got[11].Reject(false))
	require.NoError(t, ch.Close())
	shards.waitMessages(13)
	n, err := open(t, p.URL).QueuePurge(images, false)
	require.NoError(t, err)
	require.Equal(t, 13, n)
}

// TestPseudoQueueExclusive: an exclusive consumer has all shards for itself, or is refused.
func TestPseudoQueueExclusive(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]string{"balanced": "", "ordered": ", max-consumers-per-shard: 1"} {
		t.Run(name, func(t *testing.T) { t.Parallel(); pseudoQueueExclusive(t, more) })
	}
}

func pseudoQueueExclusive(t *testing.T, more string) {
	e := newEnv(t)
	images := e.name("images")
	p := e.proxyWith(e.policy(images, 4, more))
	ch := open(t, p.URL)
	declareSharded(t, ch, images)
	requireRefused := func(exclusive bool) {
		t.Helper()
		_, err := open(t, p.URL).Consume(images, "", false, exclusive, false, false, nil)
		var refused *amqp.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, amqp.AccessRefused, refused.Code)
		require.Contains(t, refused.Reason, fmt.Sprintf("queue '%s' in vhost '%s' in exclusive use", images, e.vhost))
	}
	shards := e.probe(images, 4)
	c := consume(t, p.URL, images, 0)
	requireRefused(true)
	c.leave(t)
	shards.waitConsumers(0, 0, 0, 0)
	_, err := ch.Consume(images, "mine", false, true, false, false, nil)
	require.NoError(t, err)
	shards.waitConsumers(1, 1, 1, 1)
	requireRefused(false)
	requireRefused(true)
	require.NoError(t, ch.Cancel("mine", false))
	shards.waitConsumers(0, 0, 0, 0)
	consume(t, p.URL, images, 0)
	shards.waitConsumers(1, 1, 1, 1)
}

// TestPseudoQueueAcks: one consumer's acknowledgements reach all its shards, multiple ones too.
func TestPseudoQueueAcks(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	publisher := confirming(t, p.URL)
	declareSharded(t, publisher, images)
	publishKeys(t, publisher, images, keys("key", 60))
	ch := open(t, p.URL)
	deliveries, err := ch.Consume(images, "mine", false, false, false, false, nil)
	require.NoError(t, err)
	last := uint64(0)
	for range 60 {
		d := wait(t, "a delivery", deliveries)
		require.Equal(t, "mine", d.ConsumerTag)
		require.Equal(t, last+1, d.DeliveryTag, "delivery tags are the channel's")
		last = d.DeliveryTag
	}
	require.NoError(t, ch.Ack(40, true))
	require.NoError(t, ch.Nack(60, true, true))
	redelivered := map[string]bool{}
	for range 20 {
		d := wait(t, "a redelivery", deliveries)
		require.True(t, d.Redelivered)
		redelivered[string(d.Body)] = true
	}
	require.Len(t, redelivered, 20)
	require.NoError(t, ch.Ack(0, true), "0 means all")
	require.NoError(t, ch.Cancel("mine", false))
	require.NoError(t, ch.Close())
	shards := e.probe(images, 4)
	shards.waitConsumers(0, 0, 0, 0)
	require.Zero(t, sum(shards.load().messages))
}
