package router_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
)

// comply has all that was asked answered, by the broker and the topology.
func (w *twin) comply() {
	w.flush()
	for len(w.owed)+len(w.asks) > 0 {
		if len(w.asks) > 0 {
			w.reply(nil)
			continue
		}
		r := w.owed[0]
		w.owed = w.owed[1:]
		w.broker(r)
	}
}

// An acknowledgement that makes room in a prefetch goes out in front of what the room is used for, and that in front of the next message.
func TestRunsMakeRoom(t *testing.T) {
	one, many := newTwin(t), newTwin(t)
	f := func(format string, args ...any) frames.Frame { return parseFrame(words(fmt.Sprintf(format, args...))) }
	for _, w := range []*twin{one, many} {
		for tag := range 200 { // all of the prefetch
			w.broker(f("1 basic.deliver consumer-tag=~%d delivery-tag=%d exchange=images routing-key=k", tag%4, tag+1))
			w.broker(f("1 header size=0"))
		}
		first := w.exchange("images").State().Set.At(0).Queue
		w.conn.Retarget(1, w.consumer, shards.Target{Version: 100, Shards: []string{first}}) // all that is left, with a quarter of the prefetch
		w.comply()
		require.Zero(t, w.conn.Ops())
	}
	requireTwins(t, one, many)
	read := []frames.Frame{f("1 basic.ack delivery-tag=200 multiple=true"), f("3 basic.publish exchange=plain routing-key=k"), f("3 header size=0")}
	for _, f := range read {
		one.client(f)
	}
	many.clientRead(read...)
	var ids []frames.MethodID
	for _, u := range many.ups {
		ids = append(ids, frames.Frame(u).Method())
	}
	require.Equal(t, []frames.MethodID{frames.BasicAckID, frames.BasicCancelID, frames.BasicPublishID, 0}, ids, "it is attached anew, with a larger share")
	requireTwins(t, one, many)
	requireAlike(t, one, many)
}
