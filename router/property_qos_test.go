package router_test

import "github.com/shardmq/shardmq/frames"

// channelLimit is a broker's limit for all consumers of a channel together; 0: none.
type channelLimit struct {
	now    int
	wanted int  // what the client has set
	lifted bool // by the proxy, for a consumer with a smaller limit of its own
}

// clientsOwn marks a basic.qos of the client's, in its prefetch-size.
const clientsOwn = 1

// qos has the client set a limit.
func (w *world) qos(id uint16, ch *clientChannel, global bool) {
	n := []int{0, 1, 2, 3, 4, 7, 10, 11}[w.pick(8)]
	global = global && w.limits
	if !global || w.server.each {
		ch.prefetch = n
	}
	w.client.request(id, &frames.BasicQos{PrefetchSize: clientsOwn, PrefetchCount: uint16(n), Global: global}, nil)
}

// qos does as RabbitMQ does: a limit of each consumer that comes later lifts that of the channel.
func (b *modelBroker) qos(id uint16, ch *modelChannel, m *frames.BasicQos) {
	n, l := int(m.PrefetchCount), &ch.limit
	own, global := m.PrefetchSize == clientsOwn, m.Global && !b.each
	l.now = 0
	if global {
		l.now = n
	} else {
		ch.prefetch = n
	}
	switch {
	case own:
		l.wanted = l.now
	case global && n != l.wanted:
		b.fail("broker: the channel's limit is %d now, the client's is %d", n, l.wanted)
	}
	l.lifted = !own && !global && l.wanted > 0
	b.send(id, &frames.BasicQosOk{})
}

// limited checks that the channel's limit is the client's when something is delivered, but for a moment.
func (b *modelBroker) limited(ch *modelChannel) {
	if l := ch.limit; l.now != l.wanted && !l.lifted {
		b.fail("broker: the channel's limit is %d, the client's is %d", l.now, l.wanted)
	}
}

// mayLift checks that a channel's limit was lifted only for a consumer that it cannot keep back.
func (b *modelBroker) mayLift(ch *modelChannel, k *modelConsumer) {
	if l := ch.limit; l.lifted && (k.most == 0 || k.most >= l.wanted) {
		b.fail("broker: the channel's limit of %d was lifted for consumer %d with prefetch %d", l.wanted, k.id, k.most)
	}
}

// unlifted checks that no channel's limit is lifted for good.
func (w *world) unlifted() {
	for id, ch := range w.server.chans {
		if ch.limit.lifted {
			w.fail("the limit of channel %d is lifted in the end", id)
		}
	}
}

func (ch *modelChannel) room() bool {
	n := 0
	for _, d := range ch.unacked {
		if d.of != nil {
			n++
		}
	}
	return ch.limit.now == 0 || n < ch.limit.now
}
