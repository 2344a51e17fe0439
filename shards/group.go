package shards

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardmq/shardmq/shards/coordination"
)

// Target is what a member shall consume. Of two targets for one member the one
// with the higher version counts; they may arrive in any order.
type Target struct {
	Version uint64
	Shards  []string // queue names in name order; not to be modified
	// Ordered: a shard must have no consumer at the broker when this one attaches.
	Ordered bool
}

// JoinSpec describes a consumer that joins a group.
type JoinSpec struct {
	// Node is the cluster node of the consumer's upstream connection, "" = unknown.
	Node string
	// Exclusive asks for all shards and nobody else on them.
	Exclusive bool
	// Mode is the policy's; it does not matter for an exclusive consumer.
	Mode ConsumerMode
	// Notify tells a changed target. It is called with no lock held, possibly from
	// several goroutines at once, before Join has returned and shortly after
	// Leave. It must not block; it may call the group and its members. nil = none.
	Notify func(Target)
}

// seat is a group's place in its proxy's coordination.
type seat struct {
	// counts reads the broker's consumer counts.
	counts countsFunc
	// changed says that what report returns has changed; apply is called before it
	// returns if this proxy decides. The group's lock must not be held.
	changed func()
	// spawn runs a function in a goroutine of the topology's.
	spawn func(func()) bool
	// elsewhere counts the consumers that other proxies are known to have; nil: there
	// is no other.
	elsewhere func() int
	// alone: there is no other proxy to wait for.
	alone bool
}

// Group is all consumers this proxy serves on one sharded exchange. It is safe
// for concurrent use.
//
// Who consumes what is decided by the coordination, for all proxies together: a
// group reports its members and the shards they hold, and hands down what plans
// say. A plan grants a shard only when no other member of any group holds it, so
// that a shard has one consumer even while it moves. Members of mode One are the
// exception: their shard is chosen here, and they keep it.
//
// Lock order: the session's, the coordination's, mu.
type Group struct {
	x    *Exchange
	seat seat

	// mu guards everything below and the members. It is never held while Notify,
	// the counts source or the coordination is called, and no other lock is taken
	// under it.
	mu      sync.Mutex
	set     *Set               // the last one with shards: outlives the exchange's deletion
	covered *Set               // what may be consumed, likewise
	plan    *coordination.Plan // the last one applied, nil = none yet
	members []*Member          // in join order
	gone    map[*Member]bool   // members that left while they claimed shards
	lastID  uint64
	// exclusive is the member that shuts out others, from before its Join has
	// checked the broker until its Leave.
	exclusive *Member
	// leaving holds members that left with attachments, and when they left.
	leaving map[*Member]time.Time
	claimed map[string]int // per queue, claims not released
	owed    []*Member      // are to be told their targets

	reported reported
	tally    tally
	external external

	// deciding counts those inside changed: they tell who is owed when it is over.
	deciding atomic.Int32
}

// Member is one consumer in a Group. Its methods are safe for concurrent use.
type Member struct {
	g    *Group
	id   uint64
	spec JoinSpec

	// Guarded by g.mu.
	target   Target
	granted  []string       // by the plan; target is those of it that are there already
	attached map[string]int // per queue, as reported
	holds    holds
	joining  bool          // Join will return the target
	owed     bool          // is in g.owed
	first    chan struct{} // closed when it is known what to begin with; nil in mode One
	begun    bool          // first is closed
	left     bool
}

// newGroup returns an empty group.
func newGroup(x *Exchange, s seat) *Group {
	return &Group{
		x: x, seat: s,
		gone:    make(map[*Member]bool),
		leaving: make(map[*Member]time.Time),
		claimed: make(map[string]int),
		tally:   tally{least: make(map[string]int), most: make(map[string]int)},
	}
}

// Len returns how many consumers there are.
func (g *Group) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.members)
}

// one reports whether m holds one shard for good.
func (m *Member) one() bool { return m.spec.Mode == One && !m.spec.Exclusive }
