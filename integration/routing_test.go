package integration

import (
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// TestCatchAll: what reaches the exchange without passing a proxy is not lost: it is consumed like everything else.
func TestCatchAll(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	declareSharded(t, open(t, p.URL), images)
	direct := confirming(t, e.url)
	list := keys("bypassing", 50)
	publishKeys(t, direct, images, list)
	require.Equal(t, 50, sum(e.probe(images, 4).load().messages))
	c := consume(t, p.URL, images, 0)
	waitBodies(t, list, c)
	for _, d := range c.received() {
		require.Equal(t, images, d.Exchange)
		require.Equal(t, string(d.Body), d.RoutingKey)
	}
}

// TestDeadLetter: x-death names exchange and routing key as the client sent them.
func TestDeadLetter(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	e.ctl("set_policy", "-p", e.vhost, "dead", "^sharding: ", `{"dead-letter-exchange":"dead"}`, "--apply-to", "queues")
	p := e.proxy(map[string]int{"images": 4})
	ch := confirming(t, p.URL)
	declareSharded(t, ch, "images")
	require.NoError(t, ch.ExchangeDeclare("dead", "fanout", true, false, false, false, nil))
	dead, err := ch.QueueDeclare("dead", true, false, false, false, nil)
	require.NoError(t, err)
	require.NoError(t, ch.QueueBind(dead.Name, "", "dead", false, nil))

	publish(t, ch, "images", "order.123", amqp.Publishing{Headers: amqp.Table{"mine": "stays"}, Body: []byte("rejected")})
	deliveries, err := ch.Consume("images", "", false, false, false, false, nil)
	require.NoError(t, err)
	require.NoError(t, wait(t, "the delivery", deliveries).Reject(false))
	var d amqp.Delivery
	eventually(t, "dead-lettering", func() string {
		var ok bool
		if d, ok, err = ch.Get(dead.Name, true); err != nil || !ok {
			return fmt.Sprintf("the queue is empty, error %v", err)
		}
		return ""
	})
	require.Equal(t, "order.123", d.RoutingKey)
	require.Equal(t, "stays", d.Headers["mine"])
	require.NotContains(t, d.Headers, "BCC")
	death := d.Headers["x-death"].([]any)[0].(amqp.Table)
	require.Equal(t, "images", death["exchange"])
	require.Equal(t, []any{"order.123"}, death["routing-keys"])
	require.Equal(t, "rejected", death["reason"])
	require.Equal(t, "images", d.Headers["x-first-death-exchange"])
}

// TestRetryLoop: what a waiting queue sends back to the sharded exchange returns to the same shard.
func TestRetryLoop(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	e.ctl("set_policy", "-p", e.vhost, "retry", "^sharding: ", `{"dead-letter-exchange":"retry"}`, "--apply-to", "queues")
	p := e.proxy(map[string]int{"images": 4})
	ch := confirming(t, p.URL)
	declareSharded(t, ch, "images")
	require.NoError(t, ch.ExchangeDeclare("retry", "topic", true, false, false, false, nil))
	_, err := ch.QueueDeclare("wait", true, false, false, false, amqp.Table{"x-message-ttl": 50, "x-dead-letter-exchange": "images"})
	require.NoError(t, err)
	require.NoError(t, ch.QueueBind("wait", "#", "retry", false, nil))
	// Patterns that no routing key matches: a shard key that travels along must not match them either.
	stray, err := ch.QueueDeclare("stray", true, false, false, false, nil)
	require.NoError(t, err)
	for _, pattern := range []string{"*.*.*.*", "*.*.*.*.*.#", "nothing.#"} {
		require.NoError(t, ch.QueueBind(stray.Name, pattern, "retry", false, nil))
	}

	list := append(append(keys("one", 20), keys("one.two", 20)...), keys("one.two.three", 20)...)
	deliveries, err := ch.Consume("images", "", false, false, false, false, nil)
	require.NoError(t, err)
	publishKeys(t, ch, "images", list)
	for done := 0; done < len(list); {
		d := wait(t, fmt.Sprintf("delivery after %d messages are done", done), deliveries)
		deaths, _ := d.Headers["x-death"].([]any)
		if len(deaths) == 0 || deathCount(deaths[0]) < 2 {
			require.NoError(t, d.Reject(false))
			continue
		}
		requireOneShard(t, d, deaths)
		require.NoError(t, d.Ack(false))
		done++
	}
	require.Empty(t, drain(t, ch, stray.Name), "messages that matched a pattern their routing key does not match")
}

func deathCount(death any) int64 {
	n, _ := death.(amqp.Table)["count"].(int64)
	return n
}

// requireOneShard checks that the message died in one shard only, and in the waiting queue.
func requireOneShard(t *testing.T, d amqp.Delivery, deaths []any) {
	t.Helper()
	require.Equal(t, string(d.Body), d.RoutingKey)
	require.Equal(t, "images", d.Exchange)
	var queues []string
	for _, death := range deaths {
		table := death.(amqp.Table)
		queues = append(queues, table["queue"].(string))
		require.Equal(t, []any{d.RoutingKey}, table["routing-keys"])
		require.Equal(t, int64(2), table["count"])
	}
	require.Len(t, queues, 2, "queues in which %q died: %v", d.Body, queues)
	require.Contains(t, queues, "wait")
	for _, queue := range queues {
		require.True(t, queue == "wait" || strings.HasPrefix(queue, "sharding: images - "), "%q died in %q", d.Body, queue)
	}
}

// TestDefaultExchangeSpreads: publishing to the pseudo-queue through the default exchange spreads round-robin.
func TestDefaultExchangeSpreads(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	ch := confirming(t, p.URL)
	declareSharded(t, ch, images)
	for i := range 40 {
		publish(t, ch, "", images, text(fmt.Sprint(i)))
	}
	require.Equal(t, []int{10, 10, 10, 10}, e.probe(images, 4).load().messages)
	c := consume(t, p.URL, images, 0)
	eventually(t, "40 messages", func() string { return missing(40, len(c.received())) })
	for _, d := range c.received() {
		require.Empty(t, d.Exchange)
		require.Equal(t, images, d.RoutingKey)
		require.NotContains(t, d.Headers, "BCC")
	}
}

func missing(want, got int) string {
	if got < want {
		return fmt.Sprintf("%d of %d", got, want)
	}
	return ""
}

// TestDefaultExchangeRealQueue: where a real queue has the pseudo-queue's name, spreading would double each message: it
// is refused, and logged.
func TestDefaultExchangeRealQueue(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	direct := open(t, e.url)
	_, err := direct.QueueDeclare(images, true, false, false, false, nil)
	require.NoError(t, err)
	p := e.proxy(map[string]int{images: 4})
	ch := confirming(t, p.URL)
	declareSharded(t, ch, images)
	publish(t, ch, images, "k", text("by exchange"))
	gone := ch.NotifyClose(make(chan *amqp.Error, 1))
	require.NoError(t, ch.PublishWithContext(t.Context(), "", images, true, false, text("by queue")))
	err = <-gone
	require.ErrorContains(t, err, "there is a queue of that name too")
	require.ErrorContains(t, err, "406")
	require.Empty(t, drain(t, direct, images), "messages in the real queue")
	require.Equal(t, 1, sum(e.probe(images, 4).load().messages))
	logged(t, p, "default exchange", "refused", images)
}
