package router_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
	"github.com/shardmq/shardmq/shards"
)

// tagPrefix starts the consumer tags of attachments in tests; no client uses it.
const tagPrefix = "~"

// rig is a router.Conn on a topology over an in-memory cluster, driven the way the proxy drives it.
type rig struct {
	cluster   *cluster
	topo      *shards.Topology
	conn      *router.Conn
	announced string // the broker's version in connection.start; "": the cluster's

	up, down func(frames.Frame) // frames as they leave, in wire order
	asked    func(router.Ask)   // questions that want an answer
	told     func(router.Ask)   // those that do not
	retarget func(channel uint16, consumer uint64, t shards.Target)
	node     string // that the upstream connection goes to: the last one of the cluster

	upBuf, downBuf []byte
	tagSeq         int
}

// start connects the rig's router to the topology of vhost / for a test's life.
func (r *rig) start(t *testing.T, nodes []string, policies []*shards.Policy) {
	r.open(shards.NewPolicies(policies), nodes...)
	t.Cleanup(func() { require.NoError(t, r.topo.Close()) })
}

// open makes topology and router; the caller closes the topology.
func (r *rig) open(policies *shards.Policies, nodes ...string) {
	if len(nodes) == 0 {
		nodes = []string{"rabbit@a"}
	}
	var brokers []shards.Broker
	r.node = nodes[len(nodes)-1]
	for _, n := range nodes {
		brokers = append(brokers, control{r.cluster, n})
	}
	r.topo = shards.NewTopology("/", policies, brokers, nil)
	r.conn = router.New(router.Options{
		Open: func(vhost string) router.Directory {
			if len(policies.ForVhost(vhost)) == 0 {
				return nil
			}
			return r.topo
		},
		TagPrefix:     tagPrefix,
		ServerTag:     func() string { r.tagSeq++; return fmt.Sprintf("server-%d", r.tagSeq) },
		ClientAddress: "192.0.2.1:50000", Product: "shardmq test",
	})
}

// exchange is a sharded exchange of the topology.
func (r *rig) exchange(name string) *shards.Exchange {
	route := r.topo.Lookup([]byte(name))
	if route == nil || route.Exchange == nil {
		panic("no policy matches exchange " + name)
	}
	return route.Exchange
}

// lend hands fn a copy of the frame and spoils it afterwards, as the next read into the same buffer would: the router must
// keep nothing of it.
func lend(f frames.Frame, fn func(frames.Frame)) {
	b := append(frames.Frame(nil), f...)
	fn(b)
	for i := range b {
		b[i] = 0xEE
	}
}

// client feeds one whole frame of the client's.
func (r *rig) client(f frames.Frame) (v router.Verdict) {
	id := f.Channel()
	if f.Type() == frames.TypeBody && !r.conn.ClientHolds(id) {
		if v = r.conn.ClientBody(frames.ParseHead(f)); v == router.Forward {
			r.up(f)
		}
		r.conn.ClientSent(id)
	} else {
		lend(f, func(g frames.Frame) { v = r.conn.ClientFrame(g) })
		if v == router.Forward {
			r.up(f)
		}
	}
	r.flush()
	return v
}

// broker feeds one whole frame of the broker's.
func (r *rig) broker(f frames.Frame) (v router.Verdict) {
	if f.Type() == frames.TypeBody {
		if v = r.conn.BrokerBody(frames.ParseHead(f)); v == router.Forward {
			r.down(f)
		}
		r.conn.BrokerSent(f.Channel())
	} else {
		lend(f, func(g frames.Frame) { v = r.conn.BrokerFrame(g) })
		if v == router.Forward {
			r.down(f)
		}
	}
	r.flush()
	return v
}

// flush passes on what the router has made: behind a forwarded frame, as the proxy does.
func (r *rig) flush() {
	for _, a := range r.conn.TakeAsks() {
		switch a.Kind {
		case router.AskLeave, router.AskAttached, router.AskClaim, router.AskReleased, router.AskAimed, router.AskUnsettled, router.AskFenced, router.AskLog:
			r.told(a)
		default:
			r.asked(a)
		}
	}
	up, down := r.conn.TakeUp(r.upBuf), r.conn.TakeDown(r.downBuf)
	each(up, r.up)
	each(down, r.down)
	r.upBuf, r.downBuf = up, down
}

// each walks whole frames; anything else is a fault of the router's.
func each(b []byte, fn func(frames.Frame)) {
	for len(b) > 0 {
		f, err := frames.Next(b, 0)
		if err != nil {
			panic(fmt.Sprintf("the router made no whole frame: %v: %x", err, b))
		}
		fn(f)
		b = b[len(f):]
	}
}

// tell sees to a question without answer as the proxy does.
func (r *rig) tell(a router.Ask) {
	if !a.TellMember() && a.Kind == router.AskUnsettled {
		r.topo.Unsettled(a.Exchange, a.Queue, a.Delta)
	}
}

// answer finds the answer to a question as the proxy does.
func (r *rig) answer(a router.Ask) (out router.Answer) {
	ctx := context.Background()
	out.Node = r.node
	switch a.Kind {
	case router.AskResolve:
		out.State, out.Err = r.topo.Resolve(ctx, a.Exchange, a.Force)
	case router.AskBindWords:
		out.Err = r.topo.BindWords(ctx, a.Exchange, a.Words)
	case router.AskPrepareDeclare:
		out.Plan, out.Err = r.topo.PrepareDeclare(ctx, a.Exchange, a.Spec)
	case router.AskForget:
		r.topo.Forget(ctx, a.Exchange)
	case router.AskCounts:
		out.State, out.Counts, out.Err = r.topo.Census(ctx, a.Exchange)
	case router.AskOpen:
		out.Err = r.topo.AwaitOpen(ctx, a.Exchange)
	case router.AskJoin:
		if out.State, out.Counts, out.Err = r.topo.Census(ctx, a.Exchange); out.Err == nil && out.State.Set != nil {
			out.Member, out.Target, out.Err = r.topo.Group(a.Exchange).Join(ctx, shards.JoinSpec{
				Exclusive: a.Exclude, Mode: a.Exchange.Policy().Definition.Consumers,
				Notify: func(to shards.Target) { r.retarget(a.Channel, a.Consumer, to) }})
			if out.Err == nil && out.Target.Ordered {
				out.State, out.Counts, out.Err = r.topo.Census(ctx, a.Exchange)
			}
		}
	}
	return out
}

// handshake brings a connection with client properties to open-ok, and to open channels, unseen.
func (r *rig) handshake(capabilities string, channels int) {
	up, down := r.up, r.down
	r.up, r.down = func(frames.Frame) {}, func(frames.Frame) {}
	b := func(s string) { r.broker(parseFrame(words(s))) }
	c := func(s string) { r.client(parseFrame(words(s))) }
	b("0 connection.start version-minor=9 server-properties={version=\"" + cmp.Or(r.announced, r.cluster.version) + "\"} mechanisms=PLAIN locales=en_US")
	c("0 connection.start-ok mechanism=PLAIN response=secret locale=en_US client-properties={capabilities={" + capabilities + "}}")
	b("0 connection.tune channel-max=2047 frame-max=131072 heartbeat=60")
	c("0 connection.tune-ok channel-max=2047 frame-max=130048 heartbeat=60")
	c("0 connection.open virtual-host=/")
	b("0 connection.open-ok")
	for ch := 1; ch <= channels; ch++ {
		c(fmt.Sprintf("%d channel.open", ch))
		b(fmt.Sprintf("%d channel.open-ok", ch))
	}
	r.up, r.down = up, down
}

// short names queues and shard keys of sharded exchanges in transcripts: <images#2> is the shard queue with that place in the
// set, <images#2*3> its shard key of 3 words.
type short struct{ write, read *strings.Replacer }

func newShort(exchanges []string, nodes []string, perNode map[string]int) short {
	var write, read []string
	for _, x := range exchanges {
		set := shards.NewSet(x, nodes, perNode[x])
		for i := range set.Len() {
			queue, name := set.At(i).Queue, fmt.Sprintf("<%s#%d>", x, i)
			write = append(write, `"`+queue+`"`, name, queue, name)
			read = append(read, name, `"`+queue+`"`)
			for w := shards.MaxWords; w >= 1; w-- {
				name := fmt.Sprintf("<%s#%d*%d>", x, i, w)
				write = append(write, set.Key(i, w), name)
				read = append(read, name, set.Key(i, w))
			}
		}
	}
	return short{strings.NewReplacer(write...), strings.NewReplacer(read...)}
}
