package router_test

import (
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
)

// targets are what is published to: exchange and routing key.
var targets = [][2]string{{"images", "k0"}, {"images", "k1"}, {"images", "a.b"}, {"images", "c.d.e"}, {"images", ""}, {"other", "k"}, {"", "images"}, {"", "q"}}

// act has the client, or the broker of its own accord, begin something.
func (w *world) act() {
	c := w.client
	id := uint16(1 + w.pick(w.channels))
	ch := c.chans[id]
	if ch == nil {
		c.open(id)
		return
	}
	if ch.closing {
		return
	}
	noWait := w.flip()
	flag := w.flip()
	queue := []string{"images", "images", "q", ""}[w.pick(4)]
	if queue == "" && ch.last == "" {
		queue = "images"
	}
	switch w.pick(17) {
	case 0, 1, 2:
		if w.leader != nil && flag {
			w.server.fill(w.pick)
			return
		}
		to := targets[w.pick(len(targets))]
		c.publish(id, to[0], to[1], w.pick(3))
	case 3:
		w.declare(id, queue, noWait, flag)
	case 4, 5:
		c.consume(id, queue, flag, noWait, w.flip())
	case 6:
		if tags := ch.live(); len(tags) > 0 {
			c.cancel(id, tags[w.pick(len(tags))], noWait)
		}
	case 7:
		ch.noAckGets = append(ch.noAckGets, flag)
		c.request(id, &frames.BasicGet{Queue: queue, NoAck: flag}, nil)
	case 8:
		w.qos(id, ch, flag)
	case 9, 10, 11:
		w.acknowledge(id, ch, flag, noWait)
	case 12:
		w.other(id, ch, queue, noWait)
	case 13:
		w.transact(id, ch, noWait)
	case 14:
		ch.closing = true
		c.request(id, &frames.ChannelClose{ReplyCode: 200}, nil)
	case 15:
		ch.refused = true
		c.send(id, &frames.QueueDelete{Queue: "images", NoWait: noWait})
	case 16:
		if flag && noWait && w.channels > 1 {
			w.server.closeChannel(id)
		}
	}
}

func (w *world) declare(id uint16, queue string, noWait, passive bool) {
	if queue == "" {
		return // a server-named queue is another test's
	}
	m := &frames.QueueDeclare{Queue: queue, Passive: passive, NoWait: noWait}
	w.client.chans[id].last = queue
	if noWait {
		w.client.send(id, m)
		return
	}
	w.client.request(id, m, func(r frames.Method) {
		if got := r.(*frames.QueueDeclareOk).Queue; got != queue {
			w.fail("client: declare-ok for %q, not %q", got, queue)
		}
	})
}

func (w *world) acknowledge(id uint16, ch *clientChannel, multiple, nack bool) {
	if len(ch.unacked) == 0 {
		return
	}
	i := w.pick(len(ch.unacked))
	tag := ch.unacked[i]
	if multiple {
		ch.unacked = ch.unacked[i+1:]
	} else {
		ch.unacked = append(append([]uint64(nil), ch.unacked[:i]...), ch.unacked[i+1:]...)
	}
	switch {
	case !nack:
		w.client.send(id, &frames.BasicAck{DeliveryTag: tag, Multiple: multiple})
	case multiple:
		w.client.send(id, &frames.BasicNack{DeliveryTag: tag, Multiple: true, Requeue: true})
	default:
		w.client.send(id, &frames.BasicReject{DeliveryTag: tag, Requeue: true})
	}
}

// other is requests that are rare.
func (w *world) other(id uint16, ch *clientChannel, queue string, noWait bool) {
	c := w.client
	switch w.pick(7) {
	case 0:
		if noWait {
			c.send(id, &frames.QueuePurge{Queue: queue, NoWait: true})
		} else {
			c.request(id, &frames.QueuePurge{Queue: queue}, nil)
		}
	case 1:
		if noWait {
			c.send(id, &frames.QueueBind{Queue: "images", Exchange: "images", NoWait: true})
		} else {
			c.request(id, &frames.QueueBind{Queue: "images", Exchange: "images"}, nil)
		}
	case 2:
		c.request(id, &frames.QueueUnbind{Queue: "images", Exchange: "images"}, nil)
	case 3:
		c.request(id, &frames.ExchangeDeclare{Exchange: "images", Passive: noWait, Type: shards.ModulusHash, Durable: true}, nil)
	case 4:
		m := &frames.ExchangeDeclare{Exchange: "images", Type: shards.ModulusHash, Durable: true, NoWait: true}
		c.send(id, m)
	case 5:
		// Deliveries that are on their way are taken back as well, so nothing can be acknowledged until recover-ok.
		ch.unacked = nil
		c.request(id, &frames.BasicRecover{Requeue: true}, nil)
	case 6:
		ch.unacked = nil
		c.send(id, &frames.BasicRecoverAsync{Requeue: true})
	}
}

func (w *world) transact(id uint16, ch *clientChannel, noWait bool) {
	c := w.client
	switch {
	case ch.tx:
		if noWait {
			c.request(id, &frames.TxCommit{}, nil)
			return
		}
		// What the rolled back acknowledgements were for stays with the client, which the model does not track: none are sent again.
		c.request(id, &frames.TxRollback{}, nil)
	case ch.confirm:
	case int(ch.life[len(ch.life)-1])%2 == 0: // this life of the channel uses transactions
		ch.tx = true
		c.request(id, &frames.TxSelect{}, nil)
	default:
		ch.confirm = true
		if noWait {
			c.send(id, &frames.ConfirmSelect{NoWait: true})
		} else {
			c.request(id, &frames.ConfirmSelect{}, nil)
		}
	}
}

// settle lets everything that is on its way arrive, the others leave, and checks what must hold then.
func (w *world) settle() {
	for w.otherLeaves() {
	}
	w.drain()
	if w.conn.Ops() != 0 || w.conn.HeldBytes() != 0 || w.conn.Holding() {
		w.fail("ops %d, held %d octets", w.conn.Ops(), w.conn.HeldBytes())
	}
	w.unlifted()
	for id := uint16(1); id <= 3; id++ {
		ch := w.client.chans[id]
		if ch == nil {
			continue
		}
		if len(ch.awaited) > 0 || ch.closing || ch.header || ch.left > 0 {
			w.fail("channel %d still awaits %v", id, ch.awaited)
		}
		if ch.confirmed != ch.published {
			w.fail("channel %d: %d of %d confirmed", id, ch.confirmed, ch.published)
		}
	}
	for life, sent := range w.client.sent {
		got := w.server.arrived[life]
		if w.client.cut[life] && len(got) < len(sent) {
			sent = sent[:len(got)]
		}
		if strings.Join(got, " ") != strings.Join(sent, " ") {
			w.fail("channel life %s: sent %v, arrived %v", life, sent, got)
		}
	}
	w.ledger.balance(w.server)
	if w.leader == nil {
		w.acknowledgeAll() // what a cancelled consumer has not settled keeps its shards for a while
		w.covered()
	}
}

// covered checks that no shard is left out while there is a consumer without limit.
func (w *world) covered() {
	set := w.exchange("images").State().Set
	for _, ch := range w.client.chans {
		for _, k := range ch.consumers {
			if k.prefetch > 0 {
				return // its unacknowledged messages may leave no room for an attachment
			}
		}
	}
	attached := map[string]bool{}
	for _, ch := range w.server.chans {
		for _, k := range ch.consumers {
			if strings.HasPrefix(k.queue, "sharding: ") {
				attached[k.queue] = true
			}
		}
	}
	if len(attached) == 0 {
		return
	}
	for i := range set.Len() {
		if q := set.At(i).Queue; !attached[q] {
			w.fail("nobody consumes %s", q)
		}
	}
}

func (w *world) rotate() {
	x := w.exchange("images")
	if !w.conn.HasRotating() || !slices.Contains(w.conn.Rotating(), x) || x.State().Set == nil {
		return
	}
	counts, err := w.topo.Counts(w.rt.Context(), x)
	require.NoError(w.rt, err)
	w.conn.Rotate(x, x.State().Covered(), counts)
	w.flush()
}

func (w *world) lend() {
	if w.conn.HasLenders() {
		for _, x := range w.conn.Lenders() {
			counts, err := w.topo.Counts(w.rt.Context(), x)
			require.NoError(w.rt, err)
			w.conn.Lend(x, x.State().Covered(), counts)
		}
		w.flush()
	}
}
