package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// TestConsumerTags: a consumer without a tag gets one, deliveries carry it, and a tag in use is refused as always.
func TestConsumerTags(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	declareSharded(t, open(t, p.URL), images)
	publishKeys(t, confirming(t, p.URL), images, keys("key", 20))
	r := rawOpen(t, p.URL)
	r.write(method(1, &frames.BasicConsume{Queue: images, NoAck: true}))
	var ok frames.BasicConsumeOk
	r.expect(1, &ok)
	require.Contains(t, ok.ConsumerTag, "amq.ctag-")
	for range 20 {
		var d frames.BasicDeliver
		r.expect(1, &d)
		require.Equal(t, ok.ConsumerTag, d.ConsumerTag)
		header, body := r.content(1)
		require.Equal(t, d.RoutingKey, string(body))
		_, _, bcc := header.Headers.Lookup("BCC")
		require.False(t, bcc)
	}
	r.write(method(1, &frames.BasicConsume{Queue: images, ConsumerTag: ok.ConsumerTag}))
	var end frames.ConnectionClose
	r.expect(0, &end)
	require.Equal(t, uint16(frames.NotAllowed), end.ReplyCode)
	require.Contains(t, end.ReplyText, "attempt to reuse consumer tag '"+ok.ConsumerTag+"'")
	r.write(method(0, &frames.ConnectionCloseOk{}))
}

// TestShardDeleted: when somebody deletes a shard, its consumer is not told as long as there are others.
func TestShardDeleted(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 2})
	declareSharded(t, open(t, p.URL), images)
	r := rawOpen(t, p.URL)
	r.write(method(1, &frames.BasicConsume{Queue: images, ConsumerTag: "c"}))
	r.expect(1, &frames.BasicConsumeOk{})
	e.probe(images, 2).waitConsumers(1, 1)
	ch := open(t, e.url)
	_, err := ch.QueueDelete(e.shard(images, 0), false, false, false)
	require.NoError(t, err)
	r.write(method(1, &frames.BasicQos{}))
	r.expect(1, &frames.BasicQosOk{})
	publisher := confirming(t, e.url)
	publish(t, publisher, "", e.shard(images, 1), text("still served"))
	r.expect(1, &frames.BasicDeliver{})
	_, body := r.content(1)
	require.Equal(t, "still served", string(body))
}
