package router_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
	"github.com/shardmq/shardmq/router/routertest"
	"github.com/shardmq/shardmq/shards"
)

// What the fuzzer's input does: one octet that says what happens. Frames are followed by type, channel, size (16 bits) and payload; what the
// broker and the client do of their own accord, by a channel and an octet of choice.
const (
	fuzzClient = iota
	fuzzBroker
	fuzzAnswer // the topology's, or an error
	fuzzRefuse
	fuzzRetarget
	fuzzTick
	fuzzRotate
	fuzzLend
	fuzzFence
	fuzzOther // another connection's consumer comes or goes
	fuzzRaise
	fuzzLost
	fuzzReply   // the broker's, to the oldest request
	fuzzDeliver // to some consumer
	fuzzComply  // the client answers a close
	fuzzKinds
)

// What a fuzzed connection starts with.
const (
	fuzzHandshake = 1 << iota // has been made
	fuzzSmall                 // with frames as small as may be
	fuzzOrdered               // exchange images promises order
	fuzzHashOn                // exchange images hashes a header
	fuzzBare                  // the client has announced nothing
)

// FuzzFrames feeds arbitrary frames from both sides to a connection with sharded exchanges. Nothing panics, all octets made are whole frames
// that the broker takes, the ends get nothing that routertest objects to, memory is bounded by the input, and nothing is left behind in the
// end: no claim on a shard, no fence, no member of a group.
func FuzzFrames(f *testing.F) {
	for _, seed := range fuzzSeeds(f) {
		for _, setup := range []byte{0, fuzzHandshake, fuzzHandshake | fuzzSmall, fuzzHandshake | fuzzOrdered, fuzzHandshake | fuzzHashOn | fuzzBare} {
			f.Add(setup, seed)
		}
	}
	f.Fuzz(func(t *testing.T, setup byte, input []byte) {
		z := newFuzzed(t, setup)
		defer func() { require.NoError(t, z.topo.Close()) }()
		for rest := input; len(rest) > 0; {
			rest = z.step(rest)
			z.made = 0
			z.flush()
			if held := z.conn.HeldBytes(); held > len(input)+frames.Overhead*len(input) || z.made > 1<<16+16*len(input) {
				t.Fatalf("%d octets held, %d made in one step, of an input of %d", held, z.made, len(input))
			}
		}
		z.conn.Shutdown()
		z.flush()
		for len(z.asks) > 0 { // late answers
			a := z.asks[0]
			z.asks = z.asks[1:]
			z.conn.Answer(a, z.answer(a))
			z.flush()
		}
		require.Zero(t, z.conn.Ops())
		require.Zero(t, z.conn.HeldBytes())
		require.False(t, z.conn.Holding())
		for _, m := range z.others {
			m.Leave()
		}
		require.Zero(t, z.topo.Group(z.exchange("images")).Len(), "members left behind")
		for what, n := range z.books {
			require.Zero(t, n, what)
		}
	})
}

type fuzzed struct {
	rig
	t      *testing.T
	talk   *routertest.Talk
	most   int // octets that the client may put in a frame
	made   int
	asks   []router.Ask
	moves  []func()
	others []*shards.Member
	fences uint64
	books  map[string]int // what the router has claimed and not given back, and the like
}

func newFuzzed(t *testing.T, setup byte) *fuzzed {
	z := &fuzzed{t: t, rig: rig{cluster: newCluster()}, most: 130048, books: map[string]int{}}
	z.cluster.addExchange(shards.ExchangeSpec{Name: "images", Type: "direct", Durable: true, AlternateExchange: "images.unsharded"})
	z.open(fuzzPolicies(setup & (fuzzOrdered | fuzzHashOn)))
	z.talk = routertest.New(tagPrefix, "images", "phash", "xs", "xt", "sharding: ", frames.EmptyMarker)
	z.up = func(f frames.Frame) { z.check("up", f, z.talk.ToBroker(f)) }
	z.down = func(f frames.Frame) { z.check("down", f, z.talk.ToClient(f)) }
	z.asked = func(a router.Ask) { z.asks = append(z.asks, a) }
	z.told = z.note
	z.retarget = func(ch uint16, consumer uint64, to shards.Target) {
		z.moves = append(z.moves, func() { z.conn.Retarget(ch, consumer, to) })
	}
	if setup&fuzzHandshake != 0 {
		z.greet(setup)
	}
	return z
}

// greet is the handshake and two open channels.
func (z *fuzzed) greet(setup byte) {
	if setup&fuzzSmall != 0 {
		z.most = 4096
	}
	for _, each := range fuzzGreetings(setup & (fuzzSmall | fuzzBare)) {
		z.frame(each.who, each.frame)
	}
}

// log is for looking at one input, with -v.
func (z *fuzzed) log(what string, f frames.Frame) {
	if testing.Verbose() {
		z.t.Log(what, frameText(f))
	}
}

func (z *fuzzed) check(way string, f frames.Frame, complaint string) {
	z.log("    "+way, f)
	z.made += len(f)
	if complaint != "" {
		z.t.Fatalf("%s\n%s", complaint, frameText(f))
	}
}

// note keeps the books.
func (z *fuzzed) note(a router.Ask) {
	switch a.Kind {
	case router.AskClaim:
		z.enter(1, "claim of %p on %s, lent %t", a.Member, a.Queue, a.Lent)
	case router.AskReleased:
		z.enter(-1, "claim of %p on %s, lent %t", a.Member, a.Queue, a.Lent)
	case router.AskAttached:
		z.enter(a.Delta, "attachments of %p on %s", a.Member, a.Queue)
	case router.AskUnsettled:
		z.enter(a.Delta, "gets from %s", a.Queue)
	case router.AskFenced:
		z.enter(-1, "channels behind fence %d", a.Fence)
	}
	z.tell(a)
}

func (z *fuzzed) enter(n int, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	z.books[what] += n
	if z.books[what] < 0 {
		z.t.Fatalf("%s: %d", what, z.books[what])
	}
}

// frame hands over a frame as the proxy would.
func (z *fuzzed) frame(who byte, f frames.Frame) {
	if who == fuzzClient {
		z.log("client", f)
		z.talk.FromClient(f)
		z.client(f)
	} else {
		z.log("broker", f)
		z.talk.FromBroker(f)
		z.broker(f)
	}
}

// step does what the input says next and returns the rest of it.
func (z *fuzzed) step(in []byte) []byte {
	what, in := in[0]%fuzzKinds, in[1:]
	switch {
	case what <= fuzzBroker:
		var f frames.Frame
		if f, in = fuzzFrame(in); f == nil {
			return nil
		}
		if what == fuzzBroker || len(f) <= z.most+frames.Overhead {
			z.frame(what, f)
		}
	case what >= fuzzReply:
		if len(in) < 2 {
			return nil
		}
		z.reply(what, uint16(in[0]%4), in[1])
		in = in[2:]
	default:
		z.event(what)
	}
	return in
}

// reply has an end do what it should.
func (z *fuzzed) reply(what byte, channel uint16, kind byte) {
	var b []byte
	who := byte(fuzzBroker)
	switch what {
	case fuzzReply:
		b = z.talk.Answer(channel, kind)
	case fuzzDeliver:
		b = z.talk.Delivery(channel, kind)
	case fuzzComply:
		b, who = z.talk.Comply(channel), fuzzClient
	}
	each(b, func(f frames.Frame) { z.frame(who, f) })
}

func (z *fuzzed) event(what byte) {
	switch what {
	case fuzzAnswer, fuzzRefuse:
		if len(z.asks) == 0 {
			return
		}
		a := z.asks[0]
		z.asks = z.asks[1:]
		if testing.Verbose() {
			z.t.Log("answer", what == fuzzAnswer, a.Kind)
		}
		if what == fuzzAnswer {
			z.conn.Answer(a, z.answer(a))
		} else {
			z.conn.Answer(a, router.Answer{Err: &shards.BrokerError{Code: 403, Text: "ACCESS_REFUSED - no"}})
		}
	case fuzzRetarget:
		if len(z.moves) > 0 {
			move := z.moves[0]
			z.moves = z.moves[1:]
			move()
		}
	case fuzzTick:
		z.conn.Tick()
	case fuzzRotate:
		z.look(z.conn.Rotating(), func(x *shards.Exchange, set *shards.Set, counts []shards.Count) { z.conn.Rotate(x, set, counts) })
	case fuzzLend:
		z.look(z.conn.Lenders(), func(x *shards.Exchange, set *shards.Set, counts []shards.Count) { z.conn.Lend(x, set, counts) })
	case fuzzFence:
		z.fences++
		if n := z.conn.Fence(z.fences); n > 0 {
			z.enter(n, "channels behind fence %d", z.fences)
		}
	case fuzzOther:
		z.other()
	case fuzzRaise:
		z.conn.RaiseConnection(&frames.Exception{Code: frames.ConnectionForced, Text: "fuzz"})
	case fuzzLost:
		z.conn.RaiseLost(&frames.Exception{Code: frames.ConnectionForced, Text: "lost"})
		z.conn.UpstreamEnded()
	}
}

func (z *fuzzed) look(xs []*shards.Exchange, fn func(*shards.Exchange, *shards.Set, []shards.Count)) {
	for _, x := range xs {
		if set := x.State().Covered(); set != nil {
			counts := make([]shards.Count, set.Len())
			for i := range counts {
				counts[i] = shards.Count{Messages: uint32(i % 2), Exists: true}
			}
			fn(x, set, counts)
		}
	}
}

func (z *fuzzed) other() {
	x := z.exchange("images")
	if len(z.others) > 1 {
		z.others[0].Leave()
		z.others = z.others[1:]
	} else if x.State().Set != nil {
		m, _, err := z.topo.Group(x).Join(z.t.Context(), shards.JoinSpec{})
		if refused, ok := errors.AsType[*shards.BrokerError](err); ok && refused.Code == uint16(frames.AccessRefused) {
			return // the client's consumer is exclusive
		}
		require.NoError(z.t, err)
		z.others = append(z.others, m)
	}
}

// fuzzFrame takes a frame off the input; nil when there is not enough left.
func fuzzFrame(in []byte) (frames.Frame, []byte) {
	if len(in) < 4 {
		return nil, nil
	}
	types := []byte{frames.TypeMethod, frames.TypeHeader, frames.TypeBody, frames.TypeHeartbeat}
	size := int(binary.BigEndian.Uint16(in[2:]))
	if len(in) < 4+size {
		return nil, nil
	}
	return frames.AppendFrame(nil, types[in[0]%4], uint16(in[1]%4), in[4:4+size]), in[4+size:]
}
