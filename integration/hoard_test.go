package integration

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// TestHoard: a consumer that fills its prefetch before it acknowledges gets everything, as from one queue, though all of it is in one shard of many.
func TestHoard(t *testing.T) {
	const messages, prefetch = 100, 10
	e := newEnv(t)
	plain, images, ordered := e.name("plain"), e.name("images"), e.name("ordered")
	p := e.proxyWith(e.policy(images, 8, "") + e.policy(ordered, 8, ", max-consumers-per-shard: 1"))
	for _, test := range []struct {
		name, url, exchange, queue string
	}{
		{"one queue", e.url, "", plain},
		{"shards", p.URL, images, images},
		{"shards in order", p.URL, ordered, ordered},
	} {
		t.Run(test.name, func(t *testing.T) {
			ch := confirming(t, test.url)
			key := "the-only-key"
			if test.exchange == "" {
				key = test.queue
				_, err := ch.QueueDeclare(test.queue, true, false, false, false, nil)
				require.NoError(t, err)
			} else {
				declareSharded(t, ch, test.exchange)
			}
			for i := range messages {
				c, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), test.exchange, key, false, false, amqp.Publishing{Body: []byte{byte(i)}})
				require.NoError(t, err)
				acked, err := c.WaitContext(t.Context())
				require.NoError(t, err)
				require.True(t, acked)
			}
			hoard(t, open(t, test.url), test.queue, messages, prefetch)
		})
	}
}

// hoard consumes messages whose first octets count up, and acknowledges once it holds as many as its prefetch allows.
func hoard(t *testing.T, ch *amqp.Channel, queue string, messages, prefetch int) {
	t.Helper()
	require.NoError(t, ch.Qos(prefetch, 0, false))
	deliveries, err := ch.ConsumeWithContext(t.Context(), queue, "", false, false, false, false, nil)
	require.NoError(t, err)
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for i := range messages {
		select {
		case d := <-deliveries:
			require.Equal(t, []byte{byte(i)}, d.Body)
			if (i+1)%prefetch == 0 {
				require.NoError(t, d.Ack(true))
			}
		case <-deadline.C:
			require.FailNow(t, "nothing more comes", "%d of %d messages, %d not acknowledged", i, messages, i%prefetch)
		}
	}
}
