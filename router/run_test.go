package router_test

import (
	"fmt"
	"slices"
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
	passed     int            // frames that have been compared
	owed       []frames.Frame // the broker's replies to what has gone up
}

func newTwin(t testing.TB) *twin {
	w := &twin{busy: newBusy(t), members: map[*shards.Member]int{}}
	w.up = func(f frames.Frame) {
		w.ups = append(w.ups, string(f))
		if r := replyTo(f); r != nil {
			w.owed = append(w.owed, frames.AppendMethod(nil, f.Channel(), r))
		}
	}
	w.down = func(f frames.Frame) { w.downs = append(w.downs, string(f)) }
	w.asked = func(a router.Ask) { w.asks, w.said = append(w.asks, a), append(w.said, w.describe(a)) }
	w.told = func(a router.Ask) { w.said = append(w.said, w.describe(a)) }
	return w
}

// reply answers the oldest question.
func (w *twin) reply() {
	a := w.asks[0]
	w.asks = w.asks[1:]
	w.conn.Answer(a, w.answer(a))
	w.flush()
}

// replyTo is what the broker says to a frame, nil for nothing.
func replyTo(f frames.Frame) frames.Method {
	if f.Type() != frames.TypeMethod {
		return nil
	}
	m := frames.NewMethod(f.Method())
	if m == nil || m.Decode(f.Args()) != nil {
		return nil
	}
	switch m := m.(type) {
	case *frames.BasicConsume:
		return &frames.BasicConsumeOk{ConsumerTag: m.ConsumerTag}
	case *frames.BasicCancel:
		return &frames.BasicCancelOk{ConsumerTag: m.ConsumerTag}
	case *frames.BasicQos:
		return &frames.BasicQosOk{}
	case *frames.QueueDeclare:
		return &frames.QueueDeclareOk{Queue: m.Queue}
	case *frames.BasicGet:
		return &frames.BasicGetEmpty{}
	case *frames.TxSelect:
		return &frames.TxSelectOk{}
	case *frames.ConfirmSelect:
		return &frames.ConfirmSelectOk{}
	case *frames.ChannelClose:
		return &frames.ChannelCloseOk{}
	case *frames.ChannelOpen:
		return &frames.ChannelOpenOk{}
	}
	return nil
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
					message := drawClient(rt)
					for range rapid.SampledFrom([]int{1, 1, 1, 2, 4}).Draw(rt, "times") {
						read = append(read, message...)
						if message[0].Method() == frames.BasicPublishID && rapid.Bool().Draw(rt, "another") {
							message[0] = drawPublish(rt, message[0].Channel())
						}
					}
				} else {
					read = append(read, drawBroker(rt, many)...)
				}
			}
			if fromClient {
				for _, f := range read {
					one.client(f)
				}
				many.clientReads(drawCuts(rt, read), read...)
			} else {
				for _, f := range read {
					one.broker(f)
				}
				many.brokerReads(drawCuts(rt, read), read...)
			}
			requireTwins(rt, one, many)
			if len(one.asks) > 0 && rapid.Bool().Draw(rt, "answer") {
				one.reply()
				many.reply()
				requireTwins(rt, one, many)
			}
			runs, passed = runs+1, passed+len(read)
		}
	})
	t.Logf("%d frames in %d reads", passed, runs)
}

// drawCuts is where the reads end that bring some frames, the last one left out.
func drawCuts(rt *rapid.T, fs []frames.Frame) []int {
	cuts := rapid.SliceOfN(rapid.IntRange(1, octets(fs)), 0, 3).Draw(rt, "cuts")
	slices.Sort(cuts)
	return cuts
}

// Wherever a read ends within a message, the rest comes with the next one.
func TestRunsCutAnywhere(t *testing.T) {
	f := func(texts ...string) (fs []frames.Frame) {
		for _, text := range texts {
			fs = append(fs, parseFrame(words(text)))
		}
		return fs
	}
	fromClient := f("1 basic.publish exchange=images routing-key=k", "1 header size=6 headers={n=1}", "1 body abc", "1 body abc",
		"1 basic.publish exchange=images routing-key=k", "1 header size=3 headers={n=1}", "1 body abc",
		"1 basic.publish exchange=images routing-key=a.b", "1 header size=3 headers={n=1}", "1 body abc",
		"3 basic.publish exchange=plain routing-key=k", "3 header size=3", "3 body abc", "3 basic.publish exchange=plain routing-key=l", "3 header size=3", "3 body abc",
		"3 basic.publish exchange=plain routing-key=k", "3 header size=0", "3 basic.publish exchange=barrier routing-key=k", "3 header size=3", "3 body abc",
		"1 basic.ack delivery-tag=1 multiple=true", "2 basic.nack delivery-tag=2", "2 basic.reject delivery-tag=3")
	fromBroker := f("1 basic.deliver consumer-tag=~0 delivery-tag=1 exchange=images routing-key=k", "1 header size=6 headers={x-shardmq=void}", "1 body abc", "1 body abc",
		"2 basic.deliver consumer-tag=~1 delivery-tag=2 exchange=images routing-key=k", "2 header size=3", "2 body abc",
		"1 basic.deliver consumer-tag=plain delivery-tag=3 exchange=plain routing-key=k", "1 header size=3", "1 body abc",
		"1 basic.deliver consumer-tag=plain delivery-tag=4 exchange=plain routing-key=k", "1 header size=3", "1 body abc",
		"3 basic.ack delivery-tag=1", "3 basic.nack delivery-tag=2 multiple=true")
	one, many := newTwin(t), newTwin(t)
	for cut := 1; cut < max(octets(fromClient), octets(fromBroker)); cut++ {
		for _, f := range fromBroker {
			one.broker(f)
		}
		for _, f := range fromClient {
			one.client(f)
		}
		many.brokerReads([]int{min(cut, octets(fromBroker))}, fromBroker...)
		many.clientReads([]int{min(cut, octets(fromClient))}, fromClient...)
		requireTwins(t, one, many)
		for len(many.asks) > 0 {
			one.reply()
			many.reply()
		}
	}
	require.NotZero(t, many.passed)
	require.Zero(t, many.conn.HeldBytes())
}

func octets(fs []frames.Frame) (n int) {
	for _, f := range fs {
		n += len(f)
	}
	return n
}

func requireTwins(t require.TestingT, one, many *twin) {
	require.Equal(t, one.ups, many.ups, "for the broker")
	require.Equal(t, one.downs, many.downs, "for the client")
	require.Equal(t, one.said, many.said, "asked and told")
	require.Equal(t, one.conn.Raised(), many.conn.Raised())
	require.Equal(t, one.conn.Dump(), many.conn.Dump(), "remembered")
	for _, w := range []*twin{one, many} { // compared
		w.passed += len(w.ups) + len(w.downs)
		w.ups, w.downs, w.said = w.ups[:0], w.downs[:0], w.said[:0]
	}
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
		out = append(append(out, frames.AppendMethod(nil, id, deliver)), content...)
	}
	return out
}
