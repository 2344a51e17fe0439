package router_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
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

// Messages of the same lengths, one behind the other, are not taken for each other.
func TestRunsTellNeighboursApart(t *testing.T) {
	publishes := func(texts ...string) (fs []frames.Frame) {
		for _, text := range texts {
			for _, s := range []string{"3 basic.publish " + text, "3 header size=3", "3 body abc"} {
				fs = append(fs, parseFrame(words(s)))
			}
		}
		return fs
	}
	var letters []string
	for c := 'a'; c <= 'z'; c++ {
		letters = append(letters, fmt.Sprintf("exchange=images routing-key=%c", c))
	}
	for name, read := range map[string][]frames.Frame{
		"through the default exchange to another queue": publishes("exchange=\"\" routing-key=planet", "exchange=\"\" routing-key=images", "exchange=\"\" routing-key=planet"),
		"to another exchange":                           publishes("exchange=plain routing-key=k", "exchange=phash routing-key=k", "exchange=plain routing-key=k"),
		"to another sharded exchange":                   publishes("exchange=images routing-key=k", "exchange=planet routing-key=k", "exchange=images routing-key=k"),
		"with another routing key":                      publishes(letters...),
	} {
		t.Run(name, func(t *testing.T) {
			one, many := newTwin(t), newTwin(t)
			for _, f := range read {
				one.client(f)
			}
			many.clientRead(read...)
			require.Len(t, many.ups, len(read))
			requireTwins(t, one, many)
			requireAlike(t, one, many)
		})
	}
}

// Once the proxy has closed the connection, what was under way from the broker goes no further.
func TestRunsEndWithTheConnection(t *testing.T) {
	one, many := newTwin(t), newTwin(t)
	for _, w := range []*twin{one, many} {
		w.conn.RaiseConnection(&frames.Exception{Code: frames.ConnectionForced, Text: "shutdown"})
		w.flush()
	}
	var read []frames.Frame
	for _, s := range []string{"3 basic.ack delivery-tag=1", "1 basic.deliver consumer-tag=plain delivery-tag=1 exchange=plain routing-key=k", "1 header size=3", "1 body abc"} {
		read = append(read, parseFrame(words(s)))
	}
	for _, f := range read {
		one.broker(f)
	}
	many.brokerRead(read...)
	require.Len(t, many.downs, 1, "connection.close")
	requireTwins(t, one, many)
	requireAlike(t, one, many)
}

// A publish that pauses waits, in whatever run it comes; those of other exchanges in front of it do not.
func TestRunsPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy, err := shards.NewPolicy("barrier", "/", "^barrier$", 0, shards.Definition{ShardsPerNode: 6, Ordered: true, Barrier: true})
		require.NoError(t, err)
		one, many := newTwin(t), newTwin(t)
		for _, w := range []*twin{one, many} {
			x := w.exchange("barrier")
			w.cluster.use(func() { w.cluster.queues[x.State().Set.At(0).Queue] = shards.Count{Messages: 1, Exists: true} })
			w.topo.Start(t.Context())
			w.topo.Reconfigure(shards.NewPolicies([]*shards.Policy{policy}), nil)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			require.True(t, x.State().Paused)
		}
		var read []frames.Frame
		for _, exchange := range []string{"plain", "barrier"} {
			for _, s := range []string{"3 basic.publish routing-key=k exchange=" + exchange, "3 header size=3", "3 body abc"} {
				read = append(read, parseFrame(words(s)))
			}
		}
		for _, f := range read {
			one.client(f)
		}
		many.clientRead(read...)
		require.Len(t, many.ups, 3)
		require.Len(t, many.asks, 1)
		require.Equal(t, router.AskOpen, many.asks[0].Kind)
		requireTwins(t, one, many)
		requireAlike(t, one, many)
	})
}
