package dispatch

import (
	"bytes"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/dispatch/target"
)

func TestShorten(t *testing.T) {
	m := amqp.Publishing{MessageId: "m", Headers: amqp.Table{
		"long": strings.Repeat("x", 500), "longer": bytes.Repeat([]byte("y"), 600), "table": amqp.Table{"a": []any{strings.Repeat("z", 100)}},
		"short": "s", headerReason: strings.Repeat("r", 400), headerAttempt: int64(3)}}
	shorten(m, 1<<20)
	require.Len(t, m.Headers, 6, "there is room")
	shorten(m, 800)
	require.NotContains(t, m.Headers, "longer")
	require.NotContains(t, m.Headers, "long")
	require.Contains(t, m.Headers, "table")
	require.Equal(t, "longer, long", m.Headers[headerCut])
	require.LessOrEqual(t, propertiesSize(m), 800)
	shorten(m, 1)
	require.Len(t, m.Headers, 3, "what the dispatcher says of it stays")
}

func TestShortenBoundsWhatItTells(t *testing.T) {
	m := amqp.Publishing{Headers: amqp.Table{}}
	for i := range 900 {
		m.Headers[strings.Repeat("n", 100)+string(rune('a'+i%26))+strings.Repeat("i", i/26)] = "v"
	}
	shorten(m, 2000)
	require.LessOrEqual(t, propertiesSize(m), 2000)
	require.LessOrEqual(t, len(m.Headers[headerCut].(string)), maxLeftOut+2)
}

// TestRepublished: nothing that a message claims of itself has the broker drop it on its way, or the count of attempts
// overflow; the key of an order is that of the first publish.
func TestRepublished(t *testing.T) {
	d := amqp.Delivery{RoutingKey: "user.1", Headers: amqp.Table{
		"x-death": []any{amqp.Table{"queue": "mail.due", "reason": "expired"}}, "CC": []any{"a"}, headerAttempt: int64(1<<63 - 1)}}
	it := newItem(nil, d, Order{}, true)
	require.Equal(t, maxAttempts, it.attempts)
	m := it.again(1, d.Timestamp)
	require.NotContains(t, m.Headers, "x-death")
	require.NotContains(t, m.Headers, "CC")

	first := newItem(nil, amqp.Delivery{RoutingKey: "user.1"}, Order{RoutingKey: true}, false)
	require.Equal(t, "user.1", first.key)
	letter := first.dead(&Job{Name: "mail"}, 3, target.Outcome{}, d.Timestamp)
	replayed := revive(amqp.Delivery{RoutingKey: "mail.dead", Headers: letter.Headers})
	again := newItem(nil, amqp.Delivery{RoutingKey: "mail", Headers: replayed.Headers}, Order{RoutingKey: true}, false)
	require.Equal(t, "user.1", again.key)
	require.Zero(t, again.attempts)
}

// TestAttemptsBegin: what is in the job's own queue begins with its first attempt, whatever it claims, and comes from where it was published to
// last unless that was the dispatcher. Nothing of a dead letter stays with a job that is tried again.
func TestAttemptsBegin(t *testing.T) {
	job := &Job{Name: "mail", Queue: "mail"}
	forged := amqp.Table{headerAttempt: int64(7), headerExchange: "secret", headerRoutingKey: "k", headerUserID: "root", headerReason: "r"}
	for attempt, counted := range map[any]int{int64(7): 7, int32(7): 7, int64(-7): 0, "7": 0, 7.5: 0, true: 0, nil: 0, int64(1 << 62): maxAttempts} {
		forged[headerAttempt] = attempt
		require.Equal(t, counted, newItem(nil, amqp.Delivery{Headers: forged}, Order{}, true).attempts, "%T %[1]v", attempt)

		it := newItem(nil, amqp.Delivery{Exchange: "mail_router", RoutingKey: "key", Headers: forged}, Order{}, false)
		require.Zero(t, it.attempts)
		m := it.message(job)
		require.Equal(t, []any{1, "mail_router", "key"}, []any{m.Attempt, m.Exchange, m.RoutingKey})
		p := it.again(1, time.Now())
		require.Equal(t, []any{"mail_router", "key", int64(1), nil, nil}, []any{p.Headers[headerExchange], p.Headers[headerRoutingKey], p.Headers[headerAttempt], p.Headers[headerUserID], p.Headers[headerReason]})
	}
}
