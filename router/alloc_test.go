package router_test

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
	"github.com/shardmq/shardmq/shards"
)

// busy is a connection with all that the hot path meets: a sharded exchange (also one with phash2), an ordinary consumer, and one
// with a prefetch on the pseudo-queue.
type busy struct {
	rig
	spareUp, spareDown []byte
	tag                uint64
	consumer           uint64 // that with the prefetch
}

func newBusy(t testing.TB) *busy {
	b := &busy{rig: rig{cluster: newCluster()}}
	var policies []*shards.Policy
	all := []string{"images", "phash", "header", "barrier"}
	for _, name := range all {
		d := shards.Definition{ShardsPerNode: 4}
		switch name {
		case "phash":
			d.Hash = shards.HashPhash2
		case "header":
			d.HashOn = shards.HashOn{Source: shards.OnHeader, Header: "user"}
		case "barrier":
			d.Ordered, d.Barrier = true, true
		}
		p, err := shards.NewPolicy(name, "/", "^"+name+"$", 0, d)
		require.NoError(t, err)
		policies = append(policies, p)
		b.cluster.addExchange(shards.ExchangeSpec{Name: name, Type: "direct", Durable: true, AlternateExchange: name + ".unsharded"})
	}
	b.open(shards.NewPolicies(policies))
	t.Cleanup(func() { require.NoError(t, b.topo.Close()) })
	for _, name := range all {
		_, err := b.topo.Resolve(t.Context(), b.exchange(name), true)
		require.NoError(t, err)
	}
	var asks []router.Ask
	b.up, b.down = func(frames.Frame) {}, func(frames.Frame) {}
	b.asked = func(a router.Ask) { asks = append(asks, a) }
	b.told = func(router.Ask) {}
	b.retarget = func(uint16, uint64, shards.Target) {}
	b.handshake("consumer_cancel_notify=true", 3)
	b.client(parseFrame(words("3 confirm.select")))
	b.broker(parseFrame(words("3 confirm.select-ok")))
	b.client(parseFrame(words("2 basic.consume queue=phash consumer-tag=unlimited")))
	b.conn.Answer(asks[0], b.answer(asks[0]))
	b.flush()
	for _, s := range []string{"~0", "~1", "~2", "~3"} {
		b.broker(parseFrame(words("2 basic.consume-ok consumer-tag=" + s)))
	}
	asks = nil
	for _, s := range []string{"1 basic.qos prefetch-count=200", "1 basic.consume queue=images consumer-tag=c", "1 basic.consume queue=q consumer-tag=plain"} {
		b.client(parseFrame(words(s)))
	}
	b.broker(parseFrame(words("1 basic.qos-ok")))
	b.consumer = asks[0].Consumer
	b.conn.Answer(asks[0], b.answer(asks[0]))
	b.flush()
	for _, s := range []string{"1 basic.qos-ok", "1 basic.consume-ok consumer-tag=~0", "1 basic.consume-ok consumer-tag=~1", "1 basic.consume-ok consumer-tag=~2",
		"1 basic.consume-ok consumer-tag=~3", "1 basic.qos-ok", "1 basic.consume-ok consumer-tag=plain"} {
		b.broker(parseFrame(words(s)))
	}
	require.Zero(t, b.conn.Ops())
	return b
}

// take is what the proxy does behind each read.
func (b *busy) take() {
	b.conn.TakeAsks()
	b.spareUp = b.conn.TakeUp(b.spareUp)
	b.spareDown = b.conn.TakeDown(b.spareDown)
}

// hotPaths are the frames of one message each.
func hotPaths(b *busy) map[string]func() {
	f := func(s string) frames.Frame { return parseFrame(words(s)) }
	publish := func(method, header string) func() {
		m, h, body := f(method), f(header), f("1 body abc")
		return func() {
			b.conn.ClientFrame(m)
			b.conn.ClientFrame(h)
			b.conn.ClientHolds(1)
			b.conn.ClientBody(frames.ParseHead(body))
			b.conn.ClientSent(1)
			b.take()
		}
	}
	deliver := func(channel, tag string, ack bool) func() {
		m, h, body, a := f(channel+" basic.deliver consumer-tag="+tag+" delivery-tag=1 exchange=images routing-key=k0"),
			f(channel+" header size=3 headers={n=1}"), f(channel+" body abc"), f(channel+" basic.ack delivery-tag=1")
		at := frames.HeadSize + 4 + 1 + len(tag) // of the delivery tag, behind ids and consumer tag
		return func() {
			b.tag++
			for i := range 8 {
				m[at+i], a[frames.HeadSize+4+i] = byte(b.tag>>(56-8*i)), byte(b.tag>>(56-8*i))
			}
			b.conn.BrokerFrame(m)
			b.conn.BrokerFrame(h)
			b.conn.BrokerBody(frames.ParseHead(body))
			b.conn.BrokerSent(m.Channel())
			if ack {
				b.conn.ClientFrame(a)
			}
			b.take()
		}
	}
	confirmed := func() func() {
		m, h := f("3 basic.publish exchange=barrier routing-key=k0"), f("3 header size=0")
		a := f("3 basic.ack delivery-tag=1")
		tag := uint64(0)
		return func() {
			tag++
			binary.BigEndian.PutUint64(a[frames.HeadSize+4:], tag)
			b.conn.ClientFrame(m)
			b.conn.ClientFrame(h)
			b.conn.BrokerFrame(a)
			b.take()
		}
	}
	return map[string]func(){
		"publish with a barrier, confirmed":   confirmed(),
		"publish unsharded":                   publish("1 basic.publish exchange=other routing-key=k0", "1 header size=3"),
		"publish default exchange":            publish("1 basic.publish routing-key=some.queue", "1 header size=3"),
		"publish sharded":                     publish("1 basic.publish exchange=images routing-key=k0", "1 header size=3 delivery-mode=2"),
		"publish sharded with headers":        publish("1 basic.publish exchange=images routing-key=k0", "1 header size=3 headers={n=1 CC=[a] BCC=[b]}"),
		"publish sharded by phash2":           publish("1 basic.publish exchange=phash routing-key=k0", "1 header size=3 headers={CC=[a]}"),
		"publish to the pseudo-queue":         publish("1 basic.publish routing-key=images", "1 header size=3"),
		"publish sharded by a header":         publish("1 basic.publish exchange=header routing-key=k0", "1 header size=3 headers={user=anna}"),
		"publish sharded by a number":         publish("1 basic.publish exchange=header routing-key=k0", "1 header size=3 headers={user=4711}"),
		"publish by a header, spread":         publish("1 basic.publish routing-key=header", "1 header size=3 headers={user=anna}"),
		"deliver":                             deliver("1", "plain", false),
		"deliver with tag rewritten, and ack": deliver("1", "~0", true),
		"deliver without limit, and ack":      deliver("2", "~0", true),
	}
}

// leastAllocs is how many allocations a call of fn makes, as far as they are its own: what goes on in the background is counted too, so of
// several measurements the lowest is right.
func leastAllocs(fn func()) float64 {
	least := testing.AllocsPerRun(200, fn)
	for range 50 {
		if least == 0 {
			break
		}
		least = min(least, testing.AllocsPerRun(200, fn))
	}
	return least
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	for name, fn := range hotPaths(newBusy(t)) {
		for range 100 {
			fn() // buffers grow to their size
		}
		require.Zero(t, leastAllocs(fn), name)
	}
}

// Acknowledgements of many at once, and out of order, are counted in the same ring.
func TestAckAccountingDoesNotAllocate(t *testing.T) {
	b := newBusy(t)
	m, h := parseFrame(words("1 basic.deliver consumer-tag=~1 delivery-tag=1 exchange=images routing-key=k0")), parseFrame(words("1 header size=0"))
	deliver := func() {
		b.tag++
		for i := range 8 {
			m[frames.HeadSize+4+1+len("~1")+i] = byte(b.tag >> (56 - 8*i))
		}
		b.conn.BrokerFrame(m)
		b.conn.BrokerFrame(h)
	}
	ack := make(frames.Frame, 0, 64)
	settle := func(tag uint64, multiple bool) {
		a := frames.BasicAck{DeliveryTag: tag, Multiple: multiple}
		ack = frames.AppendFrame(ack[:0], frames.TypeMethod, 1, []byte{0, 60, 0, 80, 0, 0, 0, 0, 0, 0, byte(tag >> 8), byte(tag), 0})
		if a.Multiple {
			ack[len(ack)-2] = 1
		}
		b.conn.ClientFrame(ack)
	}
	run := func() {
		for range 40 {
			deliver()
		}
		settle(b.tag-3, false)
		settle(b.tag-20, true)
		settle(b.tag, true)
		b.take()
	}
	run()
	require.Zero(t, leastAllocs(run))
}

func BenchmarkHotPath(b *testing.B) {
	paths := hotPaths(newBusy(b))
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				paths[name]()
			}
		})
	}
}
