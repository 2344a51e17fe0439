package router_test

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/shardmq/shardmq/frames"
)

// drawCuts is where the reads end that bring some frames, the last one left out.
func drawCuts(rt *rapid.T, fs []frames.Frame) []int {
	cuts := rapid.SliceOfN(rapid.IntRange(1, octets(fs)), 0, 3).Draw(rt, "cuts")
	slices.Sort(cuts)
	return cuts
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

// stamped is a message with bodies of its own.
func stamped(message []frames.Frame, n int) (out []frames.Frame) {
	for _, f := range message {
		if f.Type() == frames.TypeBody {
			f = slices.Clone(f)
			for i := range f.Payload() {
				f.Payload()[i] = byte(n + i)
			}
		}
		out = append(out, f)
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
		if rapid.IntRange(0, 4).Draw(rt, "the end") == 0 {
			return []frames.Frame{frames.AppendMethod(nil, 0, &frames.ConnectionClose{ReplyCode: 200})}
		}
		return []frames.Frame{frames.AppendFrame(nil, frames.TypeHeartbeat, 0, nil)}
	}
	return append([]frames.Frame{drawPublish(rt, id)}, drawContent(rt, id)...)
}

func drawPublish(rt *rapid.T, id uint16) frames.Frame {
	return frames.AppendMethod(nil, id, &frames.BasicPublish{
		Exchange:   rapid.SampledFrom([]string{"images", "phash", "header", "barrier", "plain", "other", ""}).Draw(rt, "exchange"),
		RoutingKey: rapid.SampledFrom([]string{"k", "a.b", "a.b.c.d", "", "images", "planet", "q"}).Draw(rt, "key"),
		Mandatory:  rapid.IntRange(0, 3).Draw(rt, "mandatory") == 0,
	})
}

func drawBroker(rt *rapid.T, w *twin) (out []frames.Frame) {
	if len(w.owed) > 0 && rapid.IntRange(0, 3).Draw(rt, "reply") > 0 {
		out, w.owed = w.owed[:1:1], w.owed[1:]
		return out
	}
	id := uint16(rapid.IntRange(1, 4).Draw(rt, "channel"))
	switch rapid.IntRange(0, 8).Draw(rt, "what") {
	case 0:
		return []frames.Frame{frames.AppendMethod(nil, id, &frames.BasicAck{DeliveryTag: rapid.Uint64Range(0, 9).Draw(rt, "confirmed"), Multiple: rapid.Bool().Draw(rt, "multiple")})}
	case 1:
		m := rapid.SampledFrom([]frames.Method{&frames.QueueDeclareOk{Queue: "q"}, &frames.BasicQosOk{}, &frames.BasicGetEmpty{}, &frames.BasicCancelOk{ConsumerTag: "~0"},
			&frames.ChannelClose{ReplyCode: 404}, &frames.BasicCancel{ConsumerTag: "~1"}, &frames.ChannelFlow{Active: true}}).Draw(rt, "method")
		return []frames.Frame{frames.AppendMethod(nil, id, m)}
	case 3:
		if rapid.IntRange(0, 20).Draw(rt, "the end") == 0 {
			return []frames.Frame{frames.AppendMethod(nil, 0, &frames.ConnectionClose{ReplyCode: 320})}
		}
	case 2:
		return append([]frames.Frame{frames.AppendMethod(nil, id, &frames.BasicReturn{ReplyCode: 312, Exchange: "images", RoutingKey: "k"})}, drawContent(rt, id)...)
	}
	var deliver *frames.BasicDeliver
	content := drawContent(rt, id)
	for range rapid.SampledFrom([]int{1, 1, 1, 2, 4}).Draw(rt, "times") {
		if out == nil || rapid.Bool().Draw(rt, "another") {
			deliver = &frames.BasicDeliver{
				ConsumerTag: rapid.SampledFrom([]string{"~0", "~1", "~3", "~9", "plain"}).Draw(rt, "consumer"),
				Redelivered: rapid.Bool().Draw(rt, "redelivered"),
				Exchange:    rapid.SampledFrom([]string{"images", "planet", "plain", ""}).Draw(rt, "exchange"),
				RoutingKey:  rapid.SampledFrom([]string{"k", "images", "planet", "sharding: images - rabbit@a - 1"}).Draw(rt, "key"),
			}
		}
		w.tag++
		deliver.DeliveryTag = w.tag
		out = append(append(out, frames.AppendMethod(nil, id, deliver)), stamped(content, len(out))...)
	}
	return out
}
