package router_test

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
	"github.com/shardmq/shardmq/shards"
)

// world is a client, the router, a broker and the topology, with everything on its way between them in queues.
type world struct {
	rig
	rt     *rapid.T
	client *modelClient
	server *modelBroker
	toSrv  []frames.Frame
	asks   []router.Ask
	moves  []func()
	others []*shards.Member
	ledger *ledger
	fences []int   // by number, the channels that are not through
	leader *leader // decides instead of the consumers' group; nil: the group does
	trace  []string

	channels int  // how many the client uses
	perNode  int  // shards
	limits   bool // whole channels are limited too
}

// TestRandomSessions plays random valid sessions with random delays on every way, and checks what client and broker may expect of the
// router: one answer for each request, in order; no tag of the proxy's own; contents in one piece; each publish at the broker once, in
// order, with the right shard key; no consumer beyond its prefetch; cancelled consumers gone; nothing held in the end.
func TestRandomSessions(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, rt, nil)
		defer w.end()
		w.limits = true
		for range 1 + w.pick(200) {
			w.step()
		}
		w.settle()
	})
}

func newWorld(t *testing.T, rt *rapid.T, lead *leader) *world {
	w := &world{rt: rt, rig: rig{cluster: newCluster()}, leader: lead, perNode: 3}
	if lead != nil {
		w.perNode = 8
	}
	fail := func(format string, args ...any) { w.fail(format, args...) }
	w.client, w.server, w.ledger = newModelClient(fail), newModelBroker(w.cluster, w.perNode, fail), newLedger(fail)
	if w.server.ordered = lead != nil && lead.ordered; w.server.ordered {
		w.haunt()
	}
	w.client.attached = w.server.attached
	if w.server.each = w.flip(); w.server.each {
		w.announced = "4.3.0" // what control connections see does not matter here
	}
	policy, err := shards.NewPolicy("images", "/", "^images$", 0, shards.Definition{ShardsPerNode: w.perNode})
	require.NoError(t, err)
	w.channels = 1 // while there is no exchange: everything comes behind its declare
	if w.pick(4) > 0 {
		w.channels = 3
		w.cluster.addExchange(shards.ExchangeSpec{Name: "images", Type: "direct", Durable: true, AlternateExchange: "images.unsharded"})
	}
	w.cluster.use(func() { w.cluster.queues["q"] = shards.Count{Exists: true} })
	w.open(shards.NewPolicies([]*shards.Policy{policy}))
	w.up = func(f frames.Frame) { w.log("up   ", f); w.toSrv = append(w.toSrv, bytes.Clone(f)) }
	w.down = func(f frames.Frame) { w.log("down ", f); w.client.take(f) }
	w.asked = func(a router.Ask) { w.asks = append(w.asks, a) }
	w.told = func(a router.Ask) {
		w.trace = append(w.trace, fmt.Sprintf("told  %d %s lent=%t %+d v%d", a.Kind, a.Queue, a.Lent, a.Delta, a.Version))
		if a.Kind == router.AskFenced {
			w.fences[a.Fence]--
			return
		}
		w.ledger.told(a)
		if w.leader == nil {
			w.tell(a)
		}
	}
	w.retarget = func(ch uint16, consumer uint64, to shards.Target) {
		w.moves = append(w.moves, func() {
			w.trace = append(w.trace, fmt.Sprintf("target of %d: %v", consumer, to))
			w.ledger.account(consumer).heard(to)
			w.conn.Retarget(ch, consumer, to)
			w.flush()
			w.ledger.aimed(consumer)
		})
	}
	w.handshake("consumer_cancel_notify=true", 0)
	w.client.open(1)
	w.client.request(1, &frames.ExchangeDeclare{Exchange: "images", Type: shards.ModulusHash, Durable: true}, nil)
	return w
}

func (w *world) log(what string, f frames.Frame) { w.trace = append(w.trace, what+frameText(f)) }

func (w *world) fail(format string, args ...any) {
	for _, line := range w.trace {
		w.rt.Log(line)
	}
	w.rt.Fatalf(format, args...)
}

func (w *world) end() {
	w.conn.Shutdown()
	w.flush()
	w.ledger.equal("claims in the end", w.ledger.claims(), nil)
	w.ledger.equal("gets in the end", w.ledger.gets, nil)
	w.noFences()
	require.NoError(w.rt, w.topo.Close())
}

// pick draws a number below n. rapid's own ranges prefer small numbers; here all are to be as likely.
func (w *world) pick(n int) (v int) {
	for range bits.Len(uint(n - 1)) {
		v *= 2
		if w.flip() {
			v++
		}
	}
	return v % n
}

func (w *world) flip() bool { return rapid.Bool().Draw(w.rt, "bit") }

// step lets one thing happen.
func (w *world) step() {
	switch w.pick(18) {
	case 0, 1, 2:
		w.act()
	case 3, 4, 5:
		w.clientFrame()
	case 6, 7:
		w.serverFrame()
	case 8, 9:
		w.serverOut()
	case 10:
		w.answerOne()
	case 11, 12, 13:
		w.server.deliver(w.pick)
	case 14:
		w.move()
	case 15:
		w.drain()
		w.ledger.balance(w.server)
	case 16:
		if w.flip() {
			w.block(w.flip())
		} else {
			w.exorcise(1)
		}
	case 17:
		w.fence()
	}
}

// block has the broker raise or clear an alarm: it reads nothing meanwhile.
func (w *world) block(on bool) {
	if w.server.blocked == on {
		return
	}
	w.server.blocked = on
	if on {
		w.server.send(0, &frames.ConnectionBlocked{Reason: "test"})
	} else {
		w.server.send(0, &frames.ConnectionUnblocked{})
	}
}

// drain lets all that is on its way arrive.
func (w *world) drain() {
	w.block(false)
	for w.clientFrame() || w.serverFrame() || w.serverOut() || w.answerOne() || w.hear() {
	}
}

// some takes one frame or a few from the front of what somebody has sent.
func (w *world) some(sent *[]frames.Frame, who string) []frames.Frame {
	const most = 8
	n := 1 + w.pick(min(len(*sent), most))
	read := (*sent)[:n]
	*sent = (*sent)[n:]
	for _, f := range read {
		w.log(who, f)
	}
	return read
}

// clientFrame has the router read the next frames of the client's; false when there is none.
func (w *world) clientFrame() bool {
	if len(w.client.out) == 0 {
		return false
	}
	w.clientRead(w.some(&w.client.out, "client ")...)
	return true
}

func (w *world) serverFrame() bool {
	if len(w.toSrv) == 0 || w.server.blocked {
		return false
	}
	f := w.toSrv[0]
	w.toSrv = w.toSrv[1:]
	w.server.take(f)
	return true
}

func (w *world) serverOut() bool {
	if len(w.server.out) == 0 {
		return false
	}
	w.brokerRead(w.some(&w.server.out, "broker ")...)
	return true
}

func (w *world) answerOne() bool {
	if len(w.asks) == 0 {
		return false
	}
	i := w.pick(len(w.asks))
	a := w.asks[i]
	w.asks = slices.Delete(w.asks, i, i+1)
	r := w.answer(a)
	if a.Kind == router.AskJoin {
		if w.leader != nil {
			w.leader.join(w, a, &r)
		}
		w.ledger.joined(a.Consumer, r)
	}
	w.conn.Answer(a, r)
	w.flush()
	if a.Kind == router.AskJoin {
		w.ledger.aimed(a.Consumer)
	}
	return true
}

// move has a consumer hear of its new target, or consumers rotate, or another connection's consumer come or go.
func (w *world) move() {
	if w.leader != nil && w.flip() {
		w.leader.move(w)
		return
	}
	switch w.pick(6) {
	case 0:
		w.rotate()
	case 5:
		w.lend()
	case 1:
		if w.leader != nil || w.exchange("images").State().Set == nil || len(w.others) > 2 {
			return
		}
		m, _, err := w.topo.Group(w.exchange("images")).Join(w.rt.Context(), shards.JoinSpec{})
		require.NoError(w.rt, err)
		w.others = append(w.others, m)
	case 2:
		w.otherLeaves()
	default:
		w.hear()
	}
}

func (w *world) hear() bool {
	if len(w.moves) == 0 {
		return false
	}
	i := w.pick(len(w.moves))
	fn := w.moves[i]
	w.moves = slices.Delete(w.moves, i, i+1)
	fn()
	w.flush()
	return true
}

func (w *world) otherLeaves() bool {
	if len(w.others) == 0 {
		return false
	}
	w.others[0].Leave()
	w.others = w.others[1:]
	return true
}
