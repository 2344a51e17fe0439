package router_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
	"github.com/shardmq/shardmq/shards"
)

// sharded returns a rig on an open channel, with the named exchanges sharded, and what goes to either side.
func sharded(t *testing.T, pattern string, perNode int, capabilities string, names ...string) (r *rig, up, down *[]frames.Frame) {
	t.Helper()
	policy, err := shards.NewPolicy("p", "/", pattern, 0, shards.Definition{ShardsPerNode: perNode, FedBy: []string{"source"}})
	require.NoError(t, err)
	up, down = new([]frames.Frame), new([]frames.Frame)
	keep := func(to *[]frames.Frame) func(frames.Frame) {
		return func(f frames.Frame) { *to = append(*to, append(frames.Frame(nil), f...)) }
	}
	r = &rig{cluster: newCluster(), told: func(router.Ask) {}, retarget: func(uint16, uint64, shards.Target) {}}
	r.up, r.down = keep(up), keep(down)
	r.asked = func(a router.Ask) { r.conn.Answer(a, r.answer(a)); r.flush() }
	for _, n := range names {
		r.cluster.addExchange(shards.ExchangeSpec{Name: n, Type: "direct", Durable: true, AlternateExchange: n + ".unsharded"})
	}
	r.start(t, nil, []*shards.Policy{policy})
	r.handshake(capabilities, 1)
	return r, up, down
}

// A shard's attachment is lost and the topology cannot be asked at that moment: it must be looked at again later.
func TestFailedHealIsRetried(t *testing.T) {
	r, up, _ := sharded(t, "^images$", 2, "consumer_cancel_notify=true", "images")
	r.client(frames.AppendMethod(nil, 1, &frames.BasicConsume{Queue: "images", ConsumerTag: "c"}))
	var tags []string
	for _, f := range *up {
		var m frames.BasicConsume
		if f.Method() == frames.BasicConsumeID && m.Decode(f.Args()) == nil {
			tags = append(tags, m.ConsumerTag)
		}
	}
	require.Len(t, tags, 2)
	for _, tag := range tags {
		r.broker(frames.AppendMethod(nil, 1, &frames.BasicConsumeOk{ConsumerTag: tag}))
	}
	require.False(t, r.conn.HasRotating())
	r.asked = func(a router.Ask) {
		r.conn.Answer(a, router.Answer{Err: errors.New("broker unreachable")})
		r.flush()
	}
	r.broker(frames.AppendMethod(nil, 1, &frames.BasicCancel{ConsumerTag: tags[0], NoWait: true}))
	require.True(t, r.conn.HasRotating(), "the shard is looked at in turns")
}

// The shards change while they are counted for a client, so there is no answer: they are counted again, rather than taken to be empty.
func TestCountsAreAskedForAgain(t *testing.T) {
	for _, method := range []frames.Method{&frames.BasicGet{Queue: "images"}, &frames.QueuePurge{Queue: "images"},
		&frames.QueueDeclare{Queue: "images", Passive: true}} {
		r, up, down := sharded(t, "^images$", 2, "", "images")
		answer, asked := r.asked, 0
		r.asked = func(a router.Ask) {
			if a.Kind != router.AskCounts {
				answer(a)
				return
			}
			if asked++; asked == 1 {
				r.conn.Answer(a, router.Answer{State: a.Exchange.State()})
				r.flush()
			} else {
				answer(a)
			}
		}
		*up, *down = nil, nil
		r.client(frames.AppendMethod(nil, 1, method))
		require.Equal(t, 2, asked)
		require.Len(t, append(*up, *down...), map[bool]int{true: 2, false: 1}[method.ID() == frames.QueuePurgeID])
	}
}

// Two replies of the proxy's own come about while a delivery is under way, the second between the head and the end of its last body
// frame: they stay in order.
func TestOwnRepliesStayInOrderBehindAContent(t *testing.T) {
	r, _, down := sharded(t, "^(images|other)$", 1, "", "images", "other")
	declare := func(q string) { r.client(frames.AppendMethod(nil, 1, &frames.QueueDeclare{Queue: q})) }
	declare("images")
	declare("other")
	*down = nil
	answer := r.asked
	var pending []router.Ask
	r.asked = func(a router.Ask) { pending = append(pending, a) }
	declare("images")
	declare("other")
	r.broker(frames.AppendMethod(nil, 1, &frames.BasicDeliver{ConsumerTag: "x", Exchange: "e"}))
	header := make([]byte, 14)
	header[1], header[11] = 60, 8
	r.broker(frames.AppendFrame(nil, frames.TypeHeader, 1, header))
	answer(pending[0])
	r.conn.BrokerBody(frames.Head{Type: frames.TypeBody, Channel: 1, Size: 8})
	answer(pending[1])
	r.conn.BrokerSent(1)
	r.flush()
	var order []string
	for _, f := range *down {
		var m frames.QueueDeclareOk
		if f.Method() == frames.QueueDeclareOkID && m.Decode(f.Args()) == nil {
			order = append(order, m.Queue)
		}
	}
	require.Equal(t, []string{"images", "other"}, order)
}

// What an exchange feeds may change while a connection publishes to it: nothing is remembered beyond one read.
func TestFreshForgetsRoutes(t *testing.T) {
	r, up, _ := sharded(t, "^img", 2, "")
	header := func() int {
		r.conn.Fresh()
		r.client(frames.AppendMethod(nil, 1, &frames.BasicPublish{Exchange: "source", RoutingKey: "k"}))
		payload := make([]byte, 14)
		payload[1] = 60
		r.client(frames.AppendFrame(nil, frames.TypeHeader, 1, payload))
		return len((*up)[len(*up)-1])
	}
	bare := header()
	r.cluster.addExchange(shards.ExchangeSpec{Name: "img1", Type: "direct", Durable: true, AlternateExchange: "img1.unsharded"})
	_, err := r.topo.Resolve(t.Context(), r.exchange("img1"), true)
	require.NoError(t, err)
	require.Greater(t, header(), bare, "the shard key of img1 is added")
}
