package integration

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/integration/rig"
)

// These tests run by themselves: they keep the broker busy.

// memoryLimit is far more than the proxy needs, race detector included, and far less than it would take to keep what
// these tests make it handle.
const memoryLimit = 128 << 20

var rssLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMemory returns the most memory the proxy has had resident, in octets.
func peakMemory(t *testing.T, p *rig.Proxy) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	require.NoError(t, err)
	m := rssLine.FindSubmatch(status)
	require.NotNil(t, m, "no peak memory in:\n%s", status)
	kib, err := strconv.Atoi(string(m[1]))
	require.NoError(t, err)
	return kib << 10
}

// TestSlowReader: a consumer that does not read what it asked for stalls nobody else, is kept at the broker's cost and
// not in the proxy's memory, and gets everything once it reads.
func TestSlowReader(t *testing.T) {
	e := newEnv(t)
	images, other := e.name("images"), e.name("other")
	p := e.proxy(map[string]int{images: 4})
	publisher := confirming(t, p.URL)
	declareSharded(t, publisher, images)
	const n, size = 250, 1 << 20
	for i := range n {
		publish(t, publisher, images, fmt.Sprint(i), amqp.Publishing{Body: body(size)})
	}
	slow := rawOpen(t, p.URL)
	slow.write(method(2, &frames.ChannelOpen{}))
	slow.expect(2, &frames.ChannelOpenOk{})
	slow.write(method(1, &frames.BasicConsume{Queue: images, NoAck: true}))
	eventually(t, "deliveries that nobody reads", func() string {
		if left := e.probe(images, 4).load().messages; sum(left) == n {
			return "nothing is delivered"
		}
		return ""
	})
	// Neighbours go on: other connections, on the same exchange too, and what the slow one itself publishes.
	require.NoError(t, declare(publisher, other, false, nil))
	for i := range 50 {
		publish(t, publisher, "", other, text(fmt.Sprint(i)))
		publish(t, publisher, images, fmt.Sprint(i), text("small"))
		slow.write(message(2, "", other, "of the slow one"))
	}
	neighbour := open(t, p.URL)
	eventually(t, "100 messages", func() string {
		q, err := neighbour.QueueDeclarePassive(other, false, false, false, false, nil)
		require.NoError(t, err)
		if q.Messages < 100 {
			return fmt.Sprintf("%d are there", q.Messages)
		}
		return ""
	})
	require.Len(t, drain(t, neighbour, other), 100)

	slow.expect(1, &frames.BasicConsumeOk{})
	for range n + 50 {
		slow.expect(1, &frames.BasicDeliver{})
		_, got := slow.content(1)
		require.Contains(t, []int{size, len("small")}, len(got))
	}
	require.Less(t, peakMemory(t, p), memoryLimit)
}

// TestPublisherPressure: while the broker takes nothing from a publisher it is slowed down and not collected in memory; others
// are not touched, nor what it is sent; and all arrives in the end.
func TestPublisherPressure(t *testing.T) {
	for _, sharded := range []bool{false, true} {
		t.Run(fmt.Sprintf("sharded=%v", sharded), func(t *testing.T) {
			e := newEnv(t)
			images := e.name("images")
			l := newLink(t, e.broker.Addr)
			p := e.start(rig.ProxyOptions{Upstream: withHost(t, e.url, l.addr), Shards: map[string]int{images: 4}})
			exchange := images
			if !sharded {
				exchange = e.name("other")
			}
			ch := confirming(t, p.URL)
			declareEither(t, ch, exchange, sharded)
			publish(t, ch, exchange, "before", text("before"))
			const pieces, size = 1000, 100_000
			var sent atomic.Int64
			flood := rawOpen(t, p.URL)
			news := e.name("news")
			require.NoError(t, declare(ch, news, false, nil))
			flood.write(method(2, &frames.ChannelOpen{}), method(2, &frames.BasicConsume{Queue: news, NoAck: true}))
			flood.expect(2, &frames.ChannelOpenOk{})
			flood.expect(2, &frames.BasicConsumeOk{})
			l.holdOf(flood.conn.LocalAddr().String())
			written := make(chan error, 1)
			go func() { written <- writeAll(flood, message(1, exchange, "key", string(body(size))), pieces, &sent) }()
			requireStalls(t, &sent, pieces*size)
			require.Less(t, peakMemory(t, p), memoryLimit)
			neighbours(t, p.URL, exchange, sharded)
			for i := range 20 {
				publish(t, ch, "", news, text(fmt.Sprint(i)))
				flood.expect(2, &frames.BasicDeliver{})
				_, got := flood.content(2)
				require.Equal(t, fmt.Sprint(i), string(got), "on another channel of the publisher that is held")
			}
			require.Empty(t, written, "it is still held")
			l.holdOf("")
			require.NoError(t, wait(t, "the end of the flood", written))
			flood.write(method(1, &frames.TxSelect{}))
			flood.expect(1, &frames.TxSelectOk{})
			require.Less(t, peakMemory(t, p), memoryLimit)
		})
	}
}

func declareEither(t *testing.T, ch *amqp.Channel, exchange string, sharded bool) {
	t.Helper()
	if sharded {
		declareSharded(t, ch, exchange)
		return
	}
	require.NoError(t, ch.ExchangeDeclare(exchange, "fanout", false, false, false, false, nil))
	require.NoError(t, declare(ch, exchange, false, amqp.Table{"x-max-length": int32(10)}))
	require.NoError(t, ch.QueueBind(exchange, "", exchange, false, nil))
}

// neighbours has new connections do everything that others do: ask, publish to the same exchange, consume and get.
func neighbours(t *testing.T, url, exchange string, sharded bool) {
	t.Helper()
	ch := confirming(t, url)
	declareEither(t, ch, exchange, sharded)
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	require.NoError(t, err)
	deliveries, err := ch.Consume(q.Name, "", true, false, false, false, nil)
	require.NoError(t, err)
	for i := range 20 {
		publish(t, ch, "", q.Name, text(fmt.Sprint(i)))
		require.Equal(t, fmt.Sprint(i), string(wait(t, "a delivery", deliveries).Body))
		publish(t, ch, exchange, fmt.Sprint(i), text("a neighbour's"))
		_, err := ch.QueueDeclarePassive(exchange, sharded, false, false, false, nil)
		require.NoError(t, err)
	}
	_, ok, err := ch.Get(exchange, true)
	require.NoError(t, err)
	require.True(t, ok)
}

func writeAll(r *raw, piece []byte, times int, sent *atomic.Int64) error {
	for range times {
		n, err := r.conn.Write(piece)
		sent.Add(int64(n))
		if err != nil {
			return err
		}
	}
	return nil
}

// requireStalls waits until the number stays the same for half a second, which it must do well below the limit.
func requireStalls(t *testing.T, sent *atomic.Int64, limit int64) {
	t.Helper()
	last, since := int64(-1), 0
	eventually(t, "the publisher's being slowed down", func() string {
		now := sent.Load()
		if now != last {
			last, since = now, 0
		}
		if since++; since < 25 || now == 0 {
			return fmt.Sprintf("%d octets were written", now)
		}
		return ""
	})
	require.Less(t, last, limit/2, "octets that the proxy took while the broker took nothing")
}
