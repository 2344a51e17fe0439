package router_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
	"github.com/shardmq/shardmq/shards"
)

// fence has somebody ask when everything that was published so far is in its queues.
func (w *world) fence() {
	w.fences = append(w.fences, 0)
	id := len(w.fences) - 1
	w.fences[id] += w.conn.Fence(uint64(id)) // some may be told within
	w.flush()
}

// noFences: all have been told of.
func (w *world) noFences() {
	for id, left := range w.fences {
		if left != 0 {
			w.fail("fence %d is owed %d times", id, left)
		}
	}
}

// fenceWorld is a client that publishes on one channel, and a broker that takes its time.
type fenceWorld struct {
	*rig
	rt       *rapid.T
	confirms bool
	toSrv    []frames.Frame
	handled  int   // those it has handled
	pending  []int // handled and not confirmed, in order
	due      map[uint64]int
	fenced   map[uint64]bool
}

// TestFences: when a fence is told of, the broker has handled all that was published before it was asked for, and confirmed it where the
// client wants confirms; and each is told of in the end.
func TestFences(t *testing.T) {
	policy, err := shards.NewPolicy("images", "/", "^images$", 0, shards.Definition{ShardsPerNode: 2, Ordered: true, Barrier: true})
	require.NoError(t, err)
	rapid.Check(t, func(rt *rapid.T) {
		w := &fenceWorld{rig: &rig{cluster: newCluster()}, rt: rt, due: map[uint64]int{}, fenced: map[uint64]bool{}}
		w.cluster.addExchange(shards.ExchangeSpec{Name: "images", Type: "direct", Durable: true, AlternateExchange: "images.unsharded"})
		w.open(shards.NewPolicies([]*shards.Policy{policy}))
		defer func() { require.NoError(rt, w.topo.Close()) }()
		_, err := w.topo.Resolve(rt.Context(), w.exchange("images"), true)
		require.NoError(rt, err)
		w.up = func(f frames.Frame) { w.toSrv = append(w.toSrv, slices.Clone(f)) }
		w.down = func(frames.Frame) {}
		w.asked = func(a router.Ask) { rt.Fatalf("asked %d", a.Kind) }
		w.told = w.tellFence
		w.retarget = func(uint16, uint64, shards.Target) {}
		w.handshake("", 1)
		rt.Repeat(map[string]func(*rapid.T){
			"publish": w.publish, "select": w.selectConfirms, "fence": w.askFence, "broker": func(*rapid.T) { w.broke() }, "confirm": w.confirm,
		})
		for len(w.toSrv) > 0 {
			w.broke()
		}
		for len(w.pending) > 0 {
			w.ack(len(w.pending)-1, true)
		}
		for id := range w.due {
			require.True(rt, w.fenced[id], "fence %d", id)
		}
		w.conn.Shutdown()
	})
}

func (w *fenceWorld) tellFence(a router.Ask) {
	if a.Kind != router.AskFenced {
		return
	}
	require.False(w.rt, w.fenced[a.Fence], "fence %d is told of twice", a.Fence)
	w.fenced[a.Fence] = true
	require.LessOrEqual(w.rt, w.due[a.Fence], w.handled, "fence %d", a.Fence)
	if len(w.pending) > 0 {
		require.Less(w.rt, w.due[a.Fence], w.pending[0], "fence %d: unconfirmed", a.Fence)
	}
}

func (w *fenceWorld) publish(rt *rapid.T) {
	key := rapid.SampledFrom([]string{"k0", "k1", "k2"}).Draw(rt, "key")
	w.client(parseFrame([]string{"1", "basic.publish", "exchange=images", "routing-key=" + key}))
	w.client(parseFrame(words("1 header size=0")))
}

func (w *fenceWorld) selectConfirms(rt *rapid.T) {
	if w.confirms || len(w.toSrv) > 0 || w.handled > 0 {
		rt.Skip()
	}
	w.confirms = true
	w.client(parseFrame(words("1 confirm.select")))
}

func (w *fenceWorld) askFence(rt *rapid.T) {
	id := uint64(len(w.due) + 1)
	w.due[id] = w.onWay()
	if w.conn.Fence(id) == 0 {
		require.Equal(rt, w.handled, w.due[id], "something is on its way")
		require.Empty(rt, w.pending)
		w.fenced[id] = true
	}
	w.flush()
}

// onWay is how many publishes of the client have gone on to the broker.
func (w *fenceWorld) onWay() int {
	n := w.handled
	for _, f := range w.toSrv {
		if f.Method() == frames.BasicPublishID {
			n++
		}
	}
	return n
}

// broke has the broker handle a frame.
func (w *fenceWorld) broke() {
	if len(w.toSrv) == 0 {
		return
	}
	f := w.toSrv[0]
	w.toSrv = w.toSrv[1:]
	if f.Type() != frames.TypeMethod {
		return
	}
	switch f.Method() {
	case frames.BasicPublishID:
		w.handled++
		if w.confirms {
			w.pending = append(w.pending, w.handled)
		}
	case frames.ConfirmSelectID:
		w.broker(parseFrame(words("1 confirm.select-ok")))
	case frames.ChannelFlowID:
		w.broker(parseFrame(words("1 channel.flow-ok active")))
	}
}

func (w *fenceWorld) confirm(rt *rapid.T) {
	if len(w.pending) == 0 {
		rt.Skip()
	}
	w.ack(rapid.IntRange(0, len(w.pending)-1).Draw(rt, "which"), rapid.Bool().Draw(rt, "multiple"))
}

// ack confirms a pending publish, or all up to it.
func (w *fenceWorld) ack(at int, multiple bool) {
	m := &frames.BasicAck{DeliveryTag: uint64(w.pending[at]), Multiple: multiple}
	if multiple {
		w.pending = slices.Clone(w.pending[at+1:])
	} else {
		w.pending = slices.Delete(w.pending, at, at+1)
	}
	w.broker(frames.AppendMethod(nil, 1, m))
}
