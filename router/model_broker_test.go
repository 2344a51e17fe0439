package router_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
)

// modelBroker is the broker's side of one connection, reduced to what the router can get wrong: it answers in order, routes by
// BCC, limits consumers by their prefetch, and fails the test when it is sent what a broker would not have accepted.
type modelBroker struct {
	cluster *cluster
	fail    func(format string, args ...any)
	out     []frames.Frame // to the router
	chans   map[uint16]*modelChannel
	stored  map[string]int // messages, by queue
	arrived map[string][]string
	tags    int // chosen for clients
	set     *shards.Set
	blocked bool            // reads nothing
	ghosts  map[string]bool // queues that a connection which is no more still has a consumer on
	each    bool            // basic.qos never limits a whole channel
	ordered bool            // a shard has one owner, who must have settled what it was given before the next one comes
}

type modelChannel struct {
	closed    bool   // channel.close sent, close-ok awaited
	last      string // last declared queue
	prefetch  int
	limit     channelLimit
	confirm   bool
	tx        bool
	txAcks    []frames.Ack
	seq       uint64 // publishes confirmed
	tag       uint64 // last delivery tag
	consumers []*modelConsumer
	unacked   []modelDelivery
	publish   *frames.BasicPublish // content under way
	header    bool                 // its header has come
	left      uint64
	id        string   // its message-id: which life of which channel sent it, and its number there
	queues    []string // of the publish under way
}

// modelConsumer is one consumer as the broker sees it. The client writes who it is and its prefetch into the arguments.
type modelConsumer struct {
	tag, queue string
	id, most   int
	limit      int
	noAck      bool
	unacked    int
}

type modelDelivery struct {
	tag   uint64
	queue string
	of    *modelConsumer // nil for basic.get
}

func newModelBroker(c *cluster, perNode int, fail func(string, ...any)) *modelBroker {
	return &modelBroker{cluster: c, set: shards.NewSet("images", []string{"rabbit@a"}, perNode), fail: fail, chans: map[uint16]*modelChannel{}, stored: map[string]int{}, arrived: map[string][]string{}}
}

func (b *modelBroker) send(ch uint16, m frames.Method) {
	b.out = append(b.out, frames.AppendMethod(nil, ch, m))
}

// count has the control connections see what a queue holds.
func (b *modelBroker) count(queue string) {
	n := 0
	if b.ghosts[queue] {
		n++
	}
	for _, ch := range b.chans {
		for _, k := range ch.consumers {
			if k.queue == queue {
				n++
			}
		}
	}
	b.cluster.use(func() {
		b.cluster.queues[queue] = shards.Count{Messages: uint32(b.stored[queue]), Consumers: uint32(n), Exists: true}
	})
}

// take handles the next frame from the router.
func (b *modelBroker) take(f frames.Frame) {
	id := f.Channel()
	ch := b.chans[id]
	switch {
	case ch == nil:
		if f.Method() != frames.ChannelOpenID {
			b.fail("broker: %s on a channel that is not open", frameText(f))
		}
		b.chans[id] = &modelChannel{}
		b.send(id, &frames.ChannelOpenOk{})
	case ch.closed && ch.publish != nil:
		b.rest(ch, f)
	case ch.closed:
		switch f.Method() {
		case frames.ChannelCloseOkID:
			delete(b.chans, id)
		case frames.ChannelCloseID:
			b.send(id, &frames.ChannelCloseOk{})
		}
	case ch.publish != nil:
		b.content(id, ch, f)
	case f.Type() != frames.TypeMethod:
		b.fail("broker: %s outside of a content", frameText(f))
	default:
		m := frames.NewMethod(f.Method())
		if err := m.Decode(f.Args()); err != nil {
			b.fail("broker: %v", err)
		}
		b.method(id, ch, m)
	}
}

// rest takes what is left of a content that was under way when the channel was closed: nothing may come in its place.
func (b *modelBroker) rest(ch *modelChannel, f frames.Frame) {
	switch {
	case f.Type() == frames.TypeHeader && !ch.header:
		ch.header = true
		ch.left, _ = frames.ContentBodySize(f.Payload())
	case f.Type() == frames.TypeBody && ch.header && uint64(len(f.Payload())) <= ch.left:
		ch.left -= uint64(len(f.Payload()))
	default:
		b.fail("broker: %s inside a content, on a channel that it has closed", frameText(f))
	}
	if ch.header && ch.left == 0 {
		ch.publish = nil
	}
}

func (b *modelBroker) content(id uint16, ch *modelChannel, f frames.Frame) {
	switch {
	case f.Type() == frames.TypeHeader && !ch.header:
		h, ok := frames.ParseContentHeader(f.Payload())
		if !ok {
			b.fail("broker: %s", frameText(f))
		}
		id, _ := h.MessageID()
		ch.header, ch.left, ch.id = true, h.BodySize, string(id)
		b.route(ch, h)
	case f.Type() == frames.TypeBody && ch.header && uint64(len(f.Payload())) <= ch.left:
		ch.left -= uint64(len(f.Payload()))
	default:
		b.fail("broker: %s inside a content", frameText(f))
	}
	if ch.left > 0 {
		return
	}
	life, _, _ := strings.Cut(ch.id, "/")
	b.arrived[life] = append(b.arrived[life], ch.id)
	for _, q := range ch.queues {
		b.stored[q]++
		b.count(q)
	}
	if ch.confirm {
		ch.seq++
		b.send(id, &frames.BasicAck{DeliveryTag: ch.seq})
	}
	ch.publish, ch.header, ch.queues = nil, false, nil
}

// route checks the shard key and finds the queues of a publish.
func (b *modelBroker) route(ch *modelChannel, h frames.ContentHeader) {
	var keys []string
	h.Headers.RoutingKeys("BCC", func(k []byte) bool { keys = append(keys, string(k)); return true })
	p := ch.publish
	switch {
	case p.Exchange == "images":
		want := b.set.At(b.set.Pick(shards.XXHash([]byte(p.RoutingKey)))).Queue
		if len(keys) != 1 || b.cluster.route("images", keys[0]) != want || strings.Count(keys[0], ".") != strings.Count(p.RoutingKey, ".") {
			b.fail("broker: publish with key %q has shard keys %q", p.RoutingKey, keys)
		}
		ch.queues = []string{want}
	case p.Exchange == "" && p.RoutingKey == "images":
		if len(keys) != 1 || !strings.HasPrefix(keys[0], "sharding: images - ") {
			b.fail("broker: publish to the pseudo-queue has keys %q", keys)
		}
		ch.queues = keys
	case len(keys) > 0:
		b.fail("broker: publish to %q has keys %q", p.Exchange, keys)
	case p.Exchange == "":
		ch.queues = []string{p.RoutingKey}
	}
}

// exists is whether a client may use a queue.
func (b *modelBroker) exists(queue string) (ok bool) {
	b.cluster.use(func() { ok = b.cluster.queues[queue].Exists })
	return ok
}

// settle takes deliveries off the unacknowledged ones.
func (b *modelBroker) settle(ch *modelChannel, a frames.Ack) {
	ch.unacked = slices.DeleteFunc(ch.unacked, func(d modelDelivery) bool {
		if d.tag != a.DeliveryTag && !(a.Multiple && (d.tag <= a.DeliveryTag || a.DeliveryTag == 0)) {
			return false
		}
		if d.of != nil {
			ch.credit(d)
		}
		if a.Requeue {
			b.stored[d.queue]++
			b.count(d.queue)
		}
		return true
	})
}

// credit lets a consumer have one more for a delivery that is settled. RabbitMQ's queues go by the tag of the consumer that it went to: they take
// one that has come since, by the same tag on the same queue, for that consumer.
func (ch *modelChannel) credit(d modelDelivery) {
	for _, k := range ch.consumers {
		if k.tag == d.of.tag && k.queue == d.queue {
			k.unacked--
		}
	}
}

// consumed is how many unacknowledged deliveries one client's consumer has, over all its attachments.
func (ch *modelChannel) consumed(id int) (n int) {
	for _, d := range ch.unacked {
		if d.of != nil && d.of.id == id {
			n++
		}
	}
	return n
}

// deliver sends one message to a consumer that may have one; false when there is none.
func (b *modelBroker) deliver(pick func(n int) int) bool {
	type choice struct {
		id uint16
		ch *modelChannel
		k  *modelConsumer
	}
	var able []choice
	for id := uint16(1); id <= 3; id++ {
		ch := b.chans[id]
		if ch == nil || ch.closed {
			continue
		}
		for _, k := range ch.consumers {
			if b.stored[k.queue] > 0 && (k.limit == 0 || k.unacked < k.limit) && (k.noAck || ch.room()) {
				able = append(able, choice{id, ch, k})
			}
		}
	}
	if len(able) == 0 {
		return false
	}
	to := able[pick(len(able))]
	to.ch.tag++
	b.stored[to.k.queue]--
	b.count(to.k.queue)
	if !to.k.noAck {
		b.limited(to.ch)
		to.k.unacked++
		to.ch.unacked = append(to.ch.unacked, modelDelivery{to.ch.tag, to.k.queue, to.k})
		if n := to.ch.consumed(to.k.id); to.k.most > 0 && n > to.k.most {
			b.fail("broker: %d unacknowledged deliveries at consumer %d, its prefetch is %d", n, to.k.id, to.k.most)
		}
	}
	b.send(to.id, &frames.BasicDeliver{ConsumerTag: to.k.tag, DeliveryTag: to.ch.tag, Exchange: "images", RoutingKey: "k"})
	b.sendContent(to.id, to.ch.tag)
	return true
}

func (b *modelBroker) sendContent(id uint16, tag uint64) {
	body := fmt.Sprintf("%d", tag)[:1] + "rest"
	if tag%3 == 0 {
		body = ""
	}
	b.out = append(b.out, frames.AppendFrame(nil, frames.TypeHeader, id, parseHeader([]string{fmt.Sprintf("size=%d", len(body))})))
	if body != "" {
		b.out = append(b.out, frames.AppendFrame(nil, frames.TypeBody, id, []byte(body[:1])), frames.AppendFrame(nil, frames.TypeBody, id, []byte(body[1:])))
	}
}
