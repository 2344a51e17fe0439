package router_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
	"github.com/shardmq/shardmq/shards"
)

// twin is a busy connection that records what it does.
type twin struct {
	*busy
	ups, downs []string
	asks       []router.Ask
	said       []string // asks and what is told, in order
	members    map[*shards.Member]int
}

func newTwin(t testing.TB) *twin {
	w := &twin{busy: newBusy(t), members: map[*shards.Member]int{}}
	w.up = func(f frames.Frame) { w.ups = append(w.ups, string(f)) }
	w.down = func(f frames.Frame) { w.downs = append(w.downs, string(f)) }
	w.asked = func(a router.Ask) { w.asks, w.said = append(w.asks, a), append(w.said, w.describe(a)) }
	w.told = func(a router.Ask) { w.said = append(w.said, w.describe(a)) }
	return w
}

// describe is all that is in a question; what belongs to one of the twins is named or numbered.
func (w *twin) describe(a router.Ask) string {
	name := "-"
	if a.Exchange != nil {
		name = a.Exchange.Name
	}
	member := 0
	if a.Member != nil {
		if w.members[a.Member] == 0 {
			w.members[a.Member] = len(w.members) + 1
		}
		member = w.members[a.Member]
	}
	a.Exchange, a.Member = nil, nil
	return fmt.Sprintf("%s, member %d: %+v", name, member, a)
}

// Whole messages that are decided on at once come to the same as their frames one by one: what goes out, what is asked and told.
func TestRunsAreTheirFrames(t *testing.T) {
	runs, passed := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		one, many := newTwin(t), newTwin(t)
		for range rapid.IntRange(1, 8).Draw(rt, "reads") {
			var read []frames.Frame
			fromClient := rapid.Bool().Draw(rt, "client")
			for range rapid.IntRange(1, 6).Draw(rt, "messages") {
				if fromClient {
					read = append(read, drawClient(rt)...)
				} else {
					read = append(read, drawBroker(rt, many)...)
				}
			}
			if fromClient {
				for _, f := range read {
					one.client(f)
				}
				many.clientRead(read...)
			} else {
				for _, f := range read {
					one.broker(f)
				}
				many.brokerRead(read...)
			}
			requireTwins(rt, one, many)
			if len(one.asks) > 0 && rapid.Bool().Draw(rt, "answer") {
				for _, w := range []*twin{one, many} {
					a := w.asks[0]
					w.asks = w.asks[1:]
					w.conn.Answer(a, w.answer(a))
					w.flush()
				}
				requireTwins(rt, one, many)
			}
			runs, passed = runs+1, passed+len(read)
		}
	})
	t.Logf("%d frames in %d reads", passed, runs)
}

func requireTwins(rt *rapid.T, one, many *twin) {
	require.Equal(rt, one.ups, many.ups, "for the broker")
	require.Equal(rt, one.downs, many.downs, "for the client")
	require.Equal(rt, one.said, many.said, "asked and told")
	require.Equal(rt, one.conn.Raised(), many.conn.Raised())
	require.Equal(rt, one.conn.Dump(), many.conn.Dump(), "remembered")
}

// drawContent is what follows a method that carries content: mostly well formed.
func drawContent(rt *rapid.T, id uint16) (out []frames.Frame) {
	var sizes []int
	total := 0
	for range rapid.IntRange(0, 3).Draw(rt, "bodies") {
		n := rapid.SampledFrom([]int{0, 1, 16, 1500, 1700, 5000}).Draw(rt, "size")
		sizes, total = append(sizes, n), total+n
	}
	announced := total
	switch rapid.IntRange(0, 30).Draw(rt, "lie") {
	case 0:
		announced++
	case 1:
		announced = max(0, total-1)
	}
	text := fmt.Sprintf("%d header size=%d", id, announced) + rapid.SampledFrom([]string{"", "", " delivery-mode=2", " headers={}", " headers={x-shardmq=void}",
		` headers={a="b"}`, ` headers={BCC=["x"]}`, ` headers={CC="wrong"}`, ` headers={user="u",x-shardmq=void} priority=1`}).Draw(rt, "header")
	header := parseFrame(words(text))
	if rapid.IntRange(0, 40).Draw(rt, "large header") == 0 {
		header = parseFrame(words(text + fmt.Sprintf(" message-id=%q", make([]byte, 200))))
	}
	out = append(out, header)
	for _, n := range sizes {
		out = append(out, frames.AppendFrame(nil, frames.TypeBody, id, make([]byte, n)))
	}
	if rapid.IntRange(0, 30).Draw(rt, "other channel") == 0 {
		out = append(out, frames.AppendFrame(nil, frames.TypeBody, id%3+1, []byte("ab")))
	}
	return out
}

func drawClient(rt *rapid.T) []frames.Frame {
	id := uint16(rapid.IntRange(1, 4).Draw(rt, "channel"))
	tag := rapid.Uint64Range(0, 12).Draw(rt, "tag")
	switch rapid.IntRange(0, 12).Draw(rt, "what") {
	case 0:
		return []frames.Frame{frames.AppendMethod(nil, id, &frames.BasicAck{DeliveryTag: tag, Multiple: rapid.Bool().Draw(rt, "multiple")})}
	case 1:
		return []frames.Frame{frames.AppendMethod(nil, id, &frames.BasicNack{DeliveryTag: tag, Requeue: true})}
	case 2:
		return []frames.Frame{frames.AppendMethod(nil, id, &frames.BasicReject{DeliveryTag: tag})}
	case 3:
		m := rapid.SampledFrom([]frames.Method{&frames.QueueDeclare{Queue: "q"}, &frames.BasicQos{PrefetchCount: 7}, &frames.BasicGet{Queue: "images"}, &frames.ChannelClose{},
			&frames.BasicCancel{ConsumerTag: "c"}, &frames.TxSelect{}, &frames.ConfirmSelect{}, &frames.ChannelOpen{}}).Draw(rt, "method")
		return []frames.Frame{frames.AppendMethod(nil, id, m)}
	case 4:
		return []frames.Frame{frames.AppendFrame(nil, frames.TypeHeartbeat, 0, nil)}
	}
	publish := &frames.BasicPublish{
		Exchange:   rapid.SampledFrom([]string{"images", "phash", "header", "barrier", "plain", "other", ""}).Draw(rt, "exchange"),
		RoutingKey: rapid.SampledFrom([]string{"k", "a.b", "a.b.c.d", "", "images", "q"}).Draw(rt, "key"),
		Mandatory:  rapid.Bool().Draw(rt, "mandatory"),
	}
	return append([]frames.Frame{frames.AppendMethod(nil, id, publish)}, drawContent(rt, id)...)
}

func drawBroker(rt *rapid.T, w *twin) []frames.Frame {
	id := uint16(rapid.IntRange(1, 4).Draw(rt, "channel"))
	switch rapid.IntRange(0, 8).Draw(rt, "what") {
	case 0:
		return []frames.Frame{frames.AppendMethod(nil, id, &frames.BasicAck{DeliveryTag: rapid.Uint64Range(0, 9).Draw(rt, "confirmed"), Multiple: rapid.Bool().Draw(rt, "multiple")})}
	case 1:
		m := rapid.SampledFrom([]frames.Method{&frames.QueueDeclareOk{Queue: "q"}, &frames.BasicQosOk{}, &frames.BasicGetEmpty{}, &frames.BasicCancelOk{ConsumerTag: "~0"},
			&frames.ChannelClose{ReplyCode: 404}, &frames.BasicCancel{ConsumerTag: "~1"}, &frames.ChannelFlow{Active: true}}).Draw(rt, "method")
		return []frames.Frame{frames.AppendMethod(nil, id, m)}
	case 2:
		return append([]frames.Frame{frames.AppendMethod(nil, id, &frames.BasicReturn{ReplyCode: 312, Exchange: "images", RoutingKey: "k"})}, drawContent(rt, id)...)
	}
	w.tag++
	deliver := &frames.BasicDeliver{
		ConsumerTag: rapid.SampledFrom([]string{"~0", "~1", "~3", "~9", "plain"}).Draw(rt, "consumer"),
		DeliveryTag: w.tag, Redelivered: rapid.Bool().Draw(rt, "redelivered"),
		Exchange:   rapid.SampledFrom([]string{"images", "plain", ""}).Draw(rt, "exchange"),
		RoutingKey: rapid.SampledFrom([]string{"k", "images", "sharding: images - rabbit@a - 1"}).Draw(rt, "key"),
	}
	return append([]frames.Frame{frames.AppendMethod(nil, id, deliver)}, drawContent(rt, id)...)
}
