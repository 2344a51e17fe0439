package integration

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// goChannelErrors: every call fails on a channel of its own, and the broker's code and text come through.
func goChannelErrors(t *testing.T, e *env, url string, tr *transcript) {
	conn := dial(t, url)
	queue, exchange, missing := e.name("exists"), e.name("exists-too"), e.name("missing")
	setup := channel(t, conn)
	_, err := setup.QueueDeclare(queue, true, false, false, false, nil)
	require.NoError(t, err)
	require.NoError(t, setup.ExchangeDeclare(exchange, "topic", true, false, false, false, nil))
	for _, c := range []struct {
		name string
		call func(*amqp.Channel) error
	}{
		{"declare with other durability", func(ch *amqp.Channel) error { return declare(ch, queue, false, nil) }},
		{"declare with other arguments", func(ch *amqp.Channel) error {
			return declare(ch, queue, true, amqp.Table{"x-message-ttl": 5})
		}},
		{"declare with wrong arguments", func(ch *amqp.Channel) error {
			return declare(ch, missing, true, amqp.Table{"x-message-ttl": "text"})
		}},
		{"declare a reserved name", func(ch *amqp.Channel) error { return declare(ch, "amq.mine", true, nil) }},
		{"declare passively", func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclarePassive(missing, true, false, false, false, nil)
			return err
		}},
		{"exchange of another type", func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare(exchange, "direct", true, false, false, false, nil)
		}},
		{"exchange declared passively", func(ch *amqp.Channel) error {
			return ch.ExchangeDeclarePassive(missing, "direct", true, false, false, false, nil)
		}},
		{"exchange with a reserved name", func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare("amq.mine", "direct", true, false, false, false, nil)
		}},
		{"delete the default exchange", func(ch *amqp.Channel) error { return ch.ExchangeDelete("", false, false) }},
		{"bind to a missing exchange", func(ch *amqp.Channel) error { return ch.QueueBind(queue, "k", missing, false, nil) }},
		{"bind a missing queue", func(ch *amqp.Channel) error { return ch.QueueBind(missing, "k", exchange, false, nil) }},
		{"bind exchanges", func(ch *amqp.Channel) error { return ch.ExchangeBind(missing, "k", exchange, false, nil) }},
		{"consume", func(ch *amqp.Channel) error {
			_, err := ch.Consume(missing, "", false, false, false, false, nil)
			return err
		}},
		{"get", func(ch *amqp.Channel) error { _, _, err := ch.Get(missing, true); return err }},
		{"get without a last queue", func(ch *amqp.Channel) error { _, _, err := ch.Get("", true); return err }},
		{"purge", func(ch *amqp.Channel) error { _, err := ch.QueuePurge(missing, false); return err }},
		{"delete in use", func(ch *amqp.Channel) error { return ch.ExchangeDelete(exchange, true, false) }},
		{"publish", func(ch *amqp.Channel) error {
			return endOf(t, ch, func() error { return send(t, ch, missing) })
		}},
		{"ack of nothing", func(ch *amqp.Channel) error {
			return endOf(t, ch, func() error { return ch.Ack(77, false) })
		}},
		{"transaction after confirms", func(ch *amqp.Channel) error {
			require.NoError(t, ch.Confirm(false))
			return ch.Tx()
		}},
	} {
		ch := channel(t, conn)
		end := ch.NotifyClose(make(chan *amqp.Error, 1))
		err := c.call(ch)
		tr.add("%s: %v", c.name, err)
		if err != nil {
			tr.add("%s: channel: %v", c.name, wait(t, "the channel's end after "+c.name, end))
		}
	}
	tr.add("the connection is open: %v", !conn.IsClosed())
}

func declare(ch *amqp.Channel, queue string, durable bool, arguments amqp.Table) error {
	_, err := ch.QueueDeclare(queue, durable, false, false, false, arguments)
	return err
}

func send(t *testing.T, ch *amqp.Channel, exchange string) error {
	return ch.PublishWithContext(t.Context(), exchange, "k", false, false, text("lost"))
}

// endOf sends something that is not answered and waits for the channel to be closed because of it.
func endOf(t *testing.T, ch *amqp.Channel, send func() error) error {
	t.Helper()
	end := ch.NotifyClose(make(chan *amqp.Error, 1))
	require.NoError(t, send())
	return closed(t, end)
}

// goExchanges: exchange to exchange bindings, alternate exchanges, header matching.
func goExchanges(t *testing.T, e *env, url string, tr *transcript) {
	ch := confirming(t, url)
	source, target, lost := e.name("source"), e.name("target"), e.name("lost")
	require.NoError(t, ch.ExchangeDeclare(lost, "fanout", false, false, false, false, nil))
	require.NoError(t, ch.ExchangeDeclare(source, "topic", false, false, false, false, amqp.Table{"alternate-exchange": lost}))
	require.NoError(t, ch.ExchangeDeclare(target, "headers", false, false, false, false, nil))
	require.NoError(t, ch.ExchangeBind(target, "go.*", source, false, nil))
	for _, queue := range []string{e.name("matched"), e.name("caught")} {
		require.NoError(t, declare(ch, queue, false, nil))
	}
	require.NoError(t, ch.QueueBind("matched"+e.suffix, "", target, false, amqp.Table{"x-match": "all", "n": int32(1)}))
	require.NoError(t, ch.QueueBind("caught"+e.suffix, "", lost, false, nil))
	for _, key := range []string{"go.there", "stay", "go.there.too"} {
		for n := range 3 {
			m := amqp.Publishing{Headers: amqp.Table{"n": int32(n), "CC": []any{"copy.to"}, "BCC": []any{"go.hidden"}}, Body: []byte(key)}
			require.NoError(t, ch.PublishWithContext(t.Context(), source, key, false, false, m))
		}
	}
	publish(t, ch, source, "stay", text("last"))
	for _, queue := range []string{"matched" + e.suffix, "caught" + e.suffix} {
		for _, d := range drain(t, ch, queue) {
			tr.delivery(d)
		}
	}
	tr.add("unbind %v", ch.ExchangeUnbind(target, "go.*", source, false, nil))
	tr.add("delete %v", ch.ExchangeDelete(source, true, false))
}
