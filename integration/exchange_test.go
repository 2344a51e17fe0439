package integration

import (
	"errors"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// TestExchangeDeclare: declaring a sharded exchange again is no error, whatever proxy does it, and inequivalent
// declarations get a 406 that shows the client its own words.
func TestExchangeDeclare(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	shards := map[string]int{images: 4}
	p := e.proxy(shards)
	conn := dial(t, p.URL)
	declareSharded(t, channel(t, conn), images)
	declareSharded(t, channel(t, conn), images)
	declareSharded(t, open(t, e.proxy(shards).URL), images)
	require.NoError(t, channel(t, conn).ExchangeDeclarePassive(images, modulusHash, true, false, false, false, nil))
	require.NoError(t, channel(t, conn).ExchangeDeclare(images, modulusHash, true, false, false, true, nil), "nowait")

	ch := channel(t, conn)
	err := ch.ExchangeDeclare(images, modulusHash, false, false, false, false, nil)
	require406(t, ch, err, "inequivalent arg 'durable' for exchange '"+images+"'")
	ch = channel(t, conn)
	err = ch.ExchangeDeclare(images, "topic", true, false, false, false, nil)
	require406(t, ch, err, "inequivalent arg 'type' for exchange '"+images+"'", "'topic'")
	require.NotContains(t, err.Error(), "direct", "the type that the client never chose")
}

// TestExchangeUnknownType: what no policy names is the broker's business, to the answer.
func TestExchangeUnknownType(t *testing.T) {
	t.Parallel()
	requireTransparent(t, func(t *testing.T, e *env, url string, tr *transcript) {
		for _, kind := range []string{modulusHash, "x-nonsense"} {
			conn := dial(t, url)
			end := conn.NotifyClose(make(chan *amqp.Error, 1))
			err := channel(t, conn).ExchangeDeclare(e.name("other"), kind, true, false, false, false, nil)
			tr.add("%v, connection %v", err, closed(t, end))
		}
	})
}

// TestExchangeOwnAlternate: a client's own alternate exchange is kept.
func TestExchangeOwnAlternate(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images, rest := e.name("images"), e.name("rest")
	p := e.proxy(map[string]int{images: 4})
	ch := confirming(t, p.URL)
	require.NoError(t, ch.ExchangeDeclare(rest, "fanout", true, false, false, false, nil))
	require.NoError(t, declare(ch, rest, true, nil))
	require.NoError(t, ch.QueueBind(rest, "", rest, false, nil))
	for range 2 {
		arguments := amqp.Table{"alternate-exchange": rest, "x-mine": int32(1)}
		require.NoError(t, ch.ExchangeDeclare(images, modulusHash, true, false, false, false, arguments))
	}
	publishKeys(t, ch, images, keys("key", 20))
	publishKeys(t, confirming(t, e.url), images, keys("bypassing", 5))
	require.Len(t, drain(t, ch, rest), 5)
	require.Equal(t, 20, sum(e.probe(images, 4).load().messages))
}

// TestExchangeDeleted: after exchange.delete the name is free, and what the shards hold is found again.
func TestExchangeDeleted(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	conn := dial(t, p.URL)
	ch := channel(t, conn)
	require.NoError(t, ch.Confirm(false))
	declareSharded(t, ch, images)
	publishKeys(t, ch, images, keys("key", 20))
	require.NoError(t, ch.ExchangeDelete(images, false, false))

	end := ch.NotifyClose(make(chan *amqp.Error, 1))
	require.NoError(t, send(t, ch, images))
	require.Equal(t, amqp.NotFound, closed(t, end).Code)
	_, err := channel(t, conn).Consume(images, "", false, false, false, false, nil)
	var missing *amqp.Error
	require.True(t, errors.As(err, &missing) && missing.Code == amqp.NotFound, "consume without the exchange: %v", err)

	declareSharded(t, channel(t, conn), images)
	again := confirming(t, p.URL)
	publishKeys(t, again, images, keys("later", 20))
	require.Equal(t, 40, sum(e.probe(images, 4).load().messages))
	waitBodies(t, append(keys("key", 20), keys("later", 20)...), consume(t, p.URL, images, 0))
}

// TestExchangeOtherTypes: a matching exchange of another type behaves as with the plugin: its shards are bound with the
// policy's routing-key, and publishes are not rewritten.
func TestExchangeOtherTypes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind, routingKey string
		keys             []string
		each             int // messages in every one of the shards
	}{
		{"direct", "1234", []string{"1234", "k0", "a.b"}, 1},
		{"fanout", "1234", []string{"1234", "k0", "a.b"}, 3},
		{"topic", "a.#", []string{"1234", "a.b", "a", "b.a"}, 2},
	} {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			other := e.name("other")
			p := e.proxyWith(e.policy(other, 3, ", routing-key: '"+test.routingKey+"'"))
			ch := confirming(t, p.URL)
			require.NoError(t, ch.ExchangeDeclare(other, test.kind, true, false, false, false, nil))
			publishKeys(t, ch, other, test.keys)
			require.Equal(t, []int{test.each, test.each, test.each}, e.probe(other, 3).load().messages)
			c := consume(t, p.URL, other, 0)
			eventually(t, "all copies", func() string { return missing(3*test.each, len(c.received())) })
			for _, d := range c.received() {
				require.Equal(t, string(d.Body), d.RoutingKey)
				require.Empty(t, d.Headers)
			}
		})
	}
}
