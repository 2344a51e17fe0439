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

// reply answers the oldest question, with an error unless it is nil.
func (w *twin) reply(err error) {
	a := w.asks[0]
	w.asks = w.asks[1:]
	if r := (router.Answer{Err: err}); err != nil {
		w.conn.Answer(a, r)
	} else {
		w.conn.Answer(a, w.answer(a))
	}
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
						read = append(read, stamped(message, len(read))...)
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
				var err error
				if rapid.IntRange(0, 5).Draw(rt, "refused") == 0 {
					err = &shards.BrokerError{Code: uint16(frames.PreconditionFailed), Text: "no"}
				}
				one.reply(err)
				many.reply(err)
				requireTwins(rt, one, many)
			}
			runs, passed = runs+1, passed+len(read)
		}
		requireAlike(rt, one, many)
	})
	t.Logf("%d frames in %d reads", passed, runs)
}

// A body frame with all that the client takes in one goes out as it came, a larger one is for the proxy to cut.
func TestRunsLeaveLargeBodies(t *testing.T) {
	b := newBusy(t)
	most := int(b.conn.ClientFrameMax()) - frames.Overhead
	for size, whole := range map[int]bool{most - 1: true, most: true, most + 1: false} {
		message := append(parseFrame(words("1 basic.deliver consumer-tag=plain delivery-tag=1 exchange=plain routing-key=k")),
			parseFrame(words(fmt.Sprintf("1 header size=%d", size)))...)
		message = append(message, frames.AppendFrame(nil, frames.TypeBody, 1, make([]byte, size))...)
		var out router.Parts
		n := b.conn.BrokerRun(message, &out, 0)
		require.Equal(t, whole, n == len(message), "%d octets", size)
		require.Equal(t, whole, n > 0)
	}
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
		requireAlike(t, one, many)
		for len(many.asks) > 0 {
			one.reply(nil)
			many.reply(nil)
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

// unsharded is what the topology has counted of the deliveries.
func (w *twin) unsharded() (all []uint64) {
	for _, s := range w.topo.Snapshot() {
		all = append(all, s.Unsharded)
	}
	return all
}

// requireAlike compares what they remember.
func requireAlike(t require.TestingT, one, many *twin) {
	require.Equal(t, one.unsharded(), many.unsharded(), "counted as come without a shard key")
	require.Equal(t, one.conn.Dump(), many.conn.Dump(), "remembered")
}

// requireTwins compares what they have done since the last time.
func requireTwins(t require.TestingT, one, many *twin) {
	require.Equal(t, one.ups, many.ups, "for the broker")
	require.Equal(t, one.downs, many.downs, "for the client")
	require.Equal(t, one.said, many.said, "asked and told")
	require.Equal(t, one.conn.Raised(), many.conn.Raised())
	for _, w := range []*twin{one, many} { // compared
		w.passed += len(w.ups) + len(w.downs)
		w.ups, w.downs, w.said = w.ups[:0], w.downs[:0], w.said[:0]
	}
}
