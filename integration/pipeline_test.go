package integration

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// TestPipelinedOperations: operations on a pseudo-queue sent in one write are answered one by one, in order.
func TestPipelinedOperations(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	r := rawOpen(t, p.URL)
	for round := range 5 {
		tag := fmt.Sprintf("tag-%d", round)
		r.write(
			method(1, &frames.ExchangeDeclare{Exchange: images, Type: modulusHash, Durable: true}),
			method(1, &frames.QueueDeclare{Queue: images, Durable: true}),
			method(1, &frames.BasicGet{}),
			method(1, &frames.QueueBind{Exchange: images, RoutingKey: "k"}),
			method(1, &frames.QueueBind{Queue: images, Exchange: images, RoutingKey: "k", NoWait: true}),
			method(1, &frames.BasicConsume{ConsumerTag: tag}),
			method(1, &frames.BasicCancel{ConsumerTag: tag}),
			method(1, &frames.BasicConsume{Queue: images, ConsumerTag: tag, NoWait: true}),
			method(1, &frames.BasicCancel{ConsumerTag: tag, NoWait: true}),
			method(1, &frames.QueuePurge{}),
			method(1, &frames.QueuePurge{Queue: images, NoWait: true}),
			method(1, &frames.QueueUnbind{Queue: images, Exchange: images, RoutingKey: "k"}),
			method(1, &frames.QueueDeclare{Queue: images, NoWait: true}),
			method(1, &frames.QueueDeclare{Queue: images, Passive: true}),
			method(1, &frames.BasicQos{PrefetchCount: 5}),
		)
		r.expect(1, &frames.ExchangeDeclareOk{})
		requireDeclareOk(r, images, 0)
		r.expect(1, &frames.BasicGetEmpty{})
		r.expect(1, &frames.QueueBindOk{})
		var consumed frames.BasicConsumeOk
		r.expect(1, &consumed)
		require.Equal(t, tag, consumed.ConsumerTag)
		var cancelled frames.BasicCancelOk
		r.expect(1, &cancelled)
		require.Equal(t, tag, cancelled.ConsumerTag)
		r.expect(1, &frames.QueuePurgeOk{})
		r.expect(1, &frames.QueueUnbindOk{})
		requireDeclareOk(r, images, 0)
		r.expect(1, &frames.BasicQosOk{})
	}
	e.probe(images, 4).waitConsumers(0, 0, 0, 0)
}

func requireDeclareOk(r *raw, queue string, messages uint32) {
	r.t.Helper()
	var ok frames.QueueDeclareOk
	r.expect(1, &ok)
	require.Equal(r.t, frames.QueueDeclareOk{Queue: queue, MessageCount: messages, ConsumerCount: ok.ConsumerCount}, ok)
}

// TestPipelinedPublishes: confirm.select and publishes sent in one write while the proxy meets the exchange for the
// first time are all confirmed, in order, and each lies in its shard.
func TestPipelinedPublishes(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	declareSharded(t, open(t, e.proxy(map[string]int{images: 4}).URL), images)

	// Another proxy, to which the name is only one of many that its pattern matches.
	p := e.proxyWith("  - {name: p, vhost: '" + e.vhost + "', pattern: '^imag', definition: {shards-per-node: 4}}\n")
	r := rawOpen(t, p.URL)
	// A pseudo-queue operation before them: confirm.select must not overtake it, nor the publishes confirm.select.
	said := slices.Concat(method(1, &frames.QueueDeclare{Queue: images, Durable: true}), method(1, &frames.ConfirmSelect{}))
	const n = 200
	for i := range n {
		said = append(said, message(1, images, pipelinedKey(i), fmt.Sprint(i))...)
	}
	r.write(said)
	requireDeclareOk(r, images, 0)
	r.expect(1, &frames.ConfirmSelectOk{})
	r.awaitConfirms(n)
	placed := 0
	for shard, messages := range e.probe(images, 4).drain() {
		for _, m := range messages {
			require.Equal(t, int(xxhash.Sum64String(m.RoutingKey)%4), shard, "shard of key %q", m.RoutingKey)
			placed++
		}
	}
	require.Equal(t, n, placed)
}

// pipelinedKey has one to five words, so that new word counts are bound in between.
func pipelinedKey(i int) string {
	key := fmt.Sprint("key", i)
	for range i % 5 {
		key += ".word"
	}
	return key
}

// awaitConfirms reads acks until all up to n are acknowledged.
func (r *raw) awaitConfirms(n int) {
	r.t.Helper()
	for open := unconfirmed(n); len(open) > 0; {
		var ack frames.BasicAck
		r.expect(1, &ack)
		open.ack(ack.DeliveryTag, ack.Multiple)
	}
}

// tags are delivery tags that wait for their confirm.
type tags map[uint64]bool

func unconfirmed(n int) tags {
	open := tags{}
	for tag := range uint64(n) {
		open[tag+1] = true
	}
	return open
}

func (open tags) ack(tag uint64, multiple bool) {
	delete(open, tag)
	for other := range open {
		if multiple && other < tag {
			delete(open, other)
		}
	}
}

// TestPipelinedBacklog: more than the proxy holds back while it composes an answer arrives all the same.
func TestPipelinedBacklog(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	declareSharded(t, open(t, p.URL), images)
	r := rawOpen(t, p.URL)
	large := string(body(100_000))
	said := method(1, &frames.ConfirmSelect{})
	const rounds, each = 10, 5
	for i := range rounds {
		said = append(said, method(1, &frames.QueueDeclare{Queue: images, Passive: true})...)
		for j := range each {
			said = append(said, message(1, images, fmt.Sprintf("key.%d.%d", i, j), large)...)
		}
	}
	written := make(chan error, 1)
	go func() {
		_, err := r.conn.Write(said)
		written <- err
	}()
	declared, open := 0, unconfirmed(rounds*each)
	for declared < rounds || len(open) > 0 {
		f, err := r.next()
		require.NoError(t, err)
		switch f.Method() {
		case frames.QueueDeclareOkID:
			declared++
		case frames.BasicAckID:
			a, _ := frames.ParseAck(frames.BasicAckID, f.Args())
			open.ack(a.DeliveryTag, a.Multiple)
		case frames.ConfirmSelectOkID:
		default:
			require.FailNow(t, "unexpected frame", "%s %q", f.Method(), head(f, 200))
		}
	}
	require.NoError(t, wait(t, "the end of writing", written))
	total := 0
	for _, messages := range e.probe(images, 4).drain() {
		for _, m := range messages {
			require.Equal(t, large, string(m.Body), "body of %q", m.RoutingKey)
			total++
		}
	}
	require.Equal(t, rounds*each, total)
}

// TestPipelinedClose: closing a channel while an answer is being composed aborts it, and the channel can be used again.
func TestPipelinedClose(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	declareSharded(t, open(t, p.URL), images)
	r := rawOpen(t, p.URL)
	for range 20 {
		r.write(
			method(1, &frames.QueueDeclare{Queue: images}),
			method(1, &frames.BasicConsume{Queue: images, ConsumerTag: "c"}),
			method(1, &frames.QueueDeclare{Queue: images}),
			method(1, &frames.ChannelClose{ReplyCode: 200, ReplyText: "enough"}),
		)
		r.until(frames.ChannelCloseOkID)
		r.write(method(1, &frames.ChannelOpen{}), method(1, &frames.QueueDeclare{Queue: images}))
		r.expect(1, &frames.ChannelOpenOk{})
		requireDeclareOk(r, images, 0)
	}
	e.probe(images, 4).waitConsumers(0, 0, 0, 0)
}

// until skips what comes before the given method on channel 1.
func (r *raw) until(id frames.MethodID) {
	r.t.Helper()
	for {
		f, err := r.next()
		require.NoError(r.t, err, "waiting for %s", id)
		require.NotEqual(r.t, frames.ConnectionCloseID, f.Method(), "%q", head(f, 300))
		if f.Method() == id && f.Channel() == 1 {
			return
		}
	}
}

// TestPipelinedChannels: what one channel waits for holds no other channel.
func TestPipelinedChannels(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	declareSharded(t, open(t, p.URL), images)
	r := rawOpen(t, p.URL)
	const channels = 40
	var said []byte
	for ch := uint16(2); ch < 2+channels; ch++ {
		said = append(said, method(ch, &frames.ChannelOpen{})...)
		said = append(said, method(ch, &frames.QueueDeclare{Queue: images})...)
		said = append(said, message(ch, images, fmt.Sprint(ch), "body")...)
		said = append(said, method(ch, &frames.BasicGet{Queue: images, NoAck: true})...)
	}
	r.write(said)
	answered := map[uint16]string{}
	for len(answered) < channels {
		f, err := r.next()
		require.NoError(t, err)
		switch f.Method() {
		case frames.BasicGetOkID, frames.BasicGetEmptyID:
			answered[f.Channel()] = f.Method().String()
		case frames.ChannelCloseID, frames.ConnectionCloseID:
			require.FailNow(t, "closed", "%q", head(f, 300))
		}
	}
}
