package integration

import (
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// TestOddKeys: any octets are a routing key, up to 255 of them, with any number of words.
func TestOddKeys(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	ch := confirming(t, p.URL)
	declareSharded(t, ch, images)
	list := []string{"", ".", "..", "a.", ".a", "*", "#", "*.#", "\x00\xff\xfe", "naïve ☃", " ", "shardmq:", images,
		strings.Repeat("k", 255), strings.Repeat(".", 255), strings.Repeat("w.", 127) + "w", e.shard(images, 0)[:min(255, len(e.shard(images, 0)))]}
	for _, key := range list {
		publish(t, ch, images, key, text(key))
	}
	seen := 0
	for index, messages := range e.probe(images, 4).drain() {
		for _, m := range messages {
			require.Equal(t, int(xxhash.Sum64String(m.RoutingKey)%4), index, "shard of key %q", m.RoutingKey)
			require.Equal(t, string(m.Body), m.RoutingKey)
			seen++
		}
	}
	require.Equal(t, len(list), seen)
}

// TestOddNames: exchange names that mean something elsewhere, and one so long that no shard of it can have a name.
func TestOddNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a.b+c(d)[e]", "with spaces", "naïve ☃", "a - b - 0", "x=y", strings.Repeat("n", 150)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			exchange := e.name(name)
			ch := confirming(t, e.proxy(map[string]int{exchange: 3}).URL)
			declareSharded(t, ch, exchange)
			publishKeys(t, ch, exchange, keys("key", 30))
			require.Equal(t, 30, sum(e.probe(exchange, 3).load().messages))
			n, err := ch.QueuePurge(exchange, false)
			require.NoError(t, err)
			require.Equal(t, 30, n)
		})
	}
	t.Run("too long", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		exchange := e.name(strings.Repeat("n", 250-len(e.suffix)))
		p := e.proxyWith("  - {name: p, vhost: '" + e.vhost + "', pattern: '^n+', definition: {shards-per-node: 3}}\n")
		conn := dial(t, p.URL)
		err := channel(t, conn).ExchangeDeclare(exchange, modulusHash, true, false, false, false, nil)
		var refused *amqp.Error
		require.ErrorAs(t, err, &refused, "a name too long for shards")
		require.NotEmpty(t, refused.Reason)
		require.NoError(t, channel(t, conn).Qos(1, 0, false), "the connection goes on")
	})
}

// TestTransactions: what is published in a transaction reaches its shard at the commit, or not at all.
func TestTransactions(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	ch := open(t, e.proxy(map[string]int{images: 4}).URL)
	declareSharded(t, ch, images)
	require.NoError(t, ch.Tx())
	shards := e.probe(images, 4)
	for _, end := range []struct {
		call func() error
		want int
	}{{ch.TxRollback, 0}, {ch.TxCommit, 20}} {
		for _, key := range keys("key", 20) {
			require.NoError(t, ch.PublishWithContext(t.Context(), images, key, true, false, text(key)))
		}
		require.NoError(t, end.call())
		require.Equal(t, end.want, sum(shards.load().messages))
	}
}

// TestDribble: a conversation that arrives octet by octet is the same conversation.
func TestDribble(t *testing.T) {
	t.Parallel()
	requireLikeOneQueue(t, func(t *testing.T, url, name, kind string) string {
		r := rawOpen(t, url)
		header := headerFrame(1, 4, frames.FlagHeaders|frames.FlagType, append(longTable(everyKind(false)), shortString(nil, "type")...))
		for _, octet := range slicesOf(
			method(1, &frames.ExchangeDeclare{Exchange: name, Type: kind, Durable: true}),
			method(1, &frames.QueueDeclare{Queue: name, Durable: true}), method(1, &frames.QueueBind{Exchange: name}),
			method(1, &frames.BasicPublish{Exchange: name, RoutingKey: "some.key"}), header, bodyFrame(1, "b"), bodyFrame(1, "ody"),
			method(1, &frames.BasicGet{Queue: name, NoAck: true}),
		) {
			r.write(octet)
		}
		r.expect(1, &frames.ExchangeDeclareOk{})
		r.expect(1, &frames.QueueDeclareOk{})
		r.expect(1, &frames.QueueBindOk{})
		r.expect(1, &frames.BasicGetOk{})
		f, err := r.next()
		require.NoError(t, err)
		seen := describe(f)
		got := ""
		for len(got) < 4 {
			f, err := r.next()
			require.NoError(t, err)
			got += string(f.Payload())
		}
		return seen + got
	})
}

// slicesOf cuts everything into pieces of one octet.
func slicesOf(parts ...[]byte) [][]byte {
	var pieces [][]byte
	for _, part := range parts {
		for i := range part {
			pieces = append(pieces, part[i:i+1])
		}
	}
	return pieces
}

// TestCloseWhileComposing: a connection.close behind operations that take the proxy a while is answered.
func TestCloseWhileComposing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	declareSharded(t, open(t, p.URL), images)
	for range 10 {
		r := rawOpen(t, p.URL)
		r.write(method(1, &frames.QueueDeclare{Queue: images}), method(1, &frames.BasicConsume{Queue: images}),
			message(1, images, "key", "body"), method(0, &frames.ConnectionClose{ReplyCode: 200, ReplyText: "bye"}))
		for {
			f, err := r.next()
			require.NoError(t, err, "the connection ended without close-ok")
			if f.Method() == frames.ConnectionCloseOkID {
				break
			}
		}
	}
	e.probe(images, 4).waitConsumers(0, 0, 0, 0)
}

// TestNothingLeaks: connections that come and go, in whatever way, leave neither descriptors nor goroutines behind.
func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4}, "--admin", "127.0.0.1:0")
	publisher := confirming(t, p.URL)
	declareSharded(t, publisher, images)
	publish(t, publisher, images, "key", text("before"))
	consume(t, p.URL, images, 0).leave(t)
	shards := e.probe(images, 4)
	shards.waitConsumers(0, 0, 0, 0)
	check := leavesNothing(t, p)
	for i := range 60 {
		r := rawOpen(t, p.URL)
		r.write(method(1, &frames.BasicConsume{Queue: images, NoAck: true}), message(1, images, "key", "body"))
		switch i % 3 {
		case 0:
			require.NoError(t, r.conn.Close())
		case 1:
			r.write([]byte("no frame at all"))
		case 2:
			r.write(method(0, &frames.ConnectionClose{ReplyCode: 200, ReplyText: "bye"}))
			require.NoError(t, r.conn.Close()) // else the broker waits half a minute for that
		}
		_ = rawTCP(t, p.URL).conn.Close() // a port probe
	}
	check()
	shards.waitConsumers(0, 0, 0, 0)
}
