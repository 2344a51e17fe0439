package shards

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shardmq/shardmq/frames"
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

// Group is all consumers this proxy serves on one sharded exchange. It is safe
// for concurrent use.
//
// Who consumes what is found in two steps: plan computes what every member ought
// to hold, grant tells a member what it may take of that. A grant is immediate
// today: for a moment two members may hold one shard, which costs order but no
// message. Holding a grant back until the former owner has reported the shard
// released takes a change to grant alone, and a call of it from Attached.
type Group struct {
	x *Exchange

	// mu guards everything below and the members. It is never held while Notify
	// or the counts source is called, and no other lock is taken under it.
	mu      sync.Mutex
	set     *Set      // the last one with shards: outlives the exchange's deletion
	members []*Member // in join order
	lastID  uint64
	// exclusive is the member that shuts out others, from before its Join has
	// checked the broker until its Leave.
	exclusive *Member
	// leaving holds members that left with attachments, and when they left.
	leaving map[*Member]time.Time

	tally    tally
	external external
}

// Member is one consumer in a Group. Its methods are safe for concurrent use.
type Member struct {
	g    *Group
	id   uint64
	spec JoinSpec

	// Guarded by g.mu.
	target   Target
	single   int            // place in the set of its only shard; -1: none, several, or not in it
	attached map[string]int // per queue, as reported
	left     bool
}

// notice is a target to tell a member of once the lock is released.
type notice struct {
	notify func(Target)
	target Target
}

// newGroup returns an empty group. counts reads the broker's consumer counts of
// the exchange's shards, in the order of its current Set.
func newGroup(x *Exchange, counts countsFunc) *Group {
	return &Group{
		x:        x,
		leaving:  make(map[*Member]time.Time),
		tally:    tally{least: make(map[string]int), most: make(map[string]int)},
		external: external{counts: counts},
	}
}

// Len returns how many consumers there are.
func (g *Group) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.members)
}

// Join adds a consumer and returns what it shall consume; others that lose shards
// to it have been notified by then. The member must Leave in the end.
//
// Errors: *BrokerError 404 when the exchange has no shards; *BrokerError 403 when
// an exclusive consumer is there, or for an exclusive one when anybody is; the
// context's error; for an exclusive consumer also what kept the broker's counts
// from being read. Others go by the last known counts then.
func (g *Group) Join(ctx context.Context, spec JoinSpec) (*Member, Target, error) {
	if err := ctx.Err(); err != nil {
		return nil, Target{}, fmt.Errorf("join consumers of '%s': %w", g.x.Name, err)
	}
	m := &Member{g: g, spec: spec, single: -1, attached: make(map[string]int)}
	needCounts, err := g.knock(m)
	if err != nil {
		return nil, Target{}, err
	}
	if err := g.consult(ctx, m, needCounts); err != nil {
		g.giveUp(m)
		return nil, Target{}, err
	}
	target, notices, err := g.enter(m)
	if err != nil {
		g.giveUp(m)
		return nil, Target{}, err
	}
	tell(notices)
	return m, target, nil
}

// knock checks whether m may join, shuts the door behind an exclusive one, and
// reports whether the broker's counts matter for it.
func (g *Group) knock(m *Member) (needCounts bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.adoptSet()
	if err := g.admit(m); err != nil {
		return false, err
	}
	if m.spec.Exclusive {
		g.exclusive = m
		return false, nil
	}
	if m.spec.Mode == One {
		return true, nil
	}
	balanced := 0
	for _, other := range g.members {
		if !g.one(other) {
			balanced++
		}
	}
	return balanced >= g.set.Len(), nil
}

// consult reads the broker's counts where they matter.
func (g *Group) consult(ctx context.Context, m *Member, needCounts bool) error {
	if m.spec.Exclusive {
		return g.requireUnused(ctx)
	}
	if !needCounts {
		return nil
	}
	g.refreshExternal(ctx)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("join consumers of '%s': %w", g.x.Name, err)
	}
	return nil
}

// enter adds m, unless someone has claimed the shards meanwhile.
func (g *Group) enter(m *Member) (Target, []notice, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.admit(m); err != nil {
		return Target{}, nil, err
	}
	g.adoptSet()
	g.lastID++
	m.id = g.lastID
	g.members = append(g.members, m)
	if g.one(m) {
		g.grant(m, []string{g.leastConsumed(m.spec.Node)})
	}
	notices := g.reassign(m)
	return m.target, notices, nil
}

// giveUp undoes knock.
func (g *Group) giveUp(m *Member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.exclusive == m {
		g.exclusive = nil
	}
}

// admit reports why m may not join, nil if it may.
func (g *Group) admit(m *Member) error {
	if g.set == nil {
		return &BrokerError{
			Code: uint16(frames.NotFound), Op: "consume",
			Text: fmt.Sprintf("NOT_FOUND - no queue '%s' in vhost '%s'", g.x.Name, g.x.Vhost),
		}
	}
	if g.exclusive != nil && g.exclusive != m || m.spec.Exclusive && len(g.members) > 0 {
		return g.inExclusiveUse()
	}
	return nil
}

func (g *Group) inExclusiveUse() error {
	return &BrokerError{
		Code: uint16(frames.AccessRefused), Op: "consume",
		Text: fmt.Sprintf("ACCESS_REFUSED - queue '%s' in vhost '%s' in exclusive use", g.x.Name, g.x.Vhost),
	}
}

// Leave removes the consumer; its shards go to those that stay. Its attachments
// count as its own until they are reported ended (see Attached). A second call
// does nothing.
func (m *Member) Leave() {
	m.g.mu.Lock()
	notices := m.g.remove(m)
	m.g.mu.Unlock()
	tell(notices)
}

func (g *Group) remove(m *Member) []notice {
	if m.left {
		return nil
	}
	g.tally.all(m, -1)
	m.left = true
	g.members = slices.DeleteFunc(g.members, func(o *Member) bool { return o == m })
	if g.exclusive == m {
		g.exclusive = nil
	}
	if len(m.attached) > 0 {
		g.leaving[m] = time.Now()
		g.tally.all(m, 1)
	}
	return g.reassign(nil)
}

// Attached reports that the member's consumers on a shard queue, as the broker
// sees them, have become more or fewer by delta: +1 at consume-ok, -1 at
// cancel-ok or when the broker cancels. Reports are welcome after Leave too; what
// a member that left never reports ended is forgotten a little later.
func (m *Member) Attached(queue string, delta int) {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	_, leaving := m.g.leaving[m]
	counts := !m.left || leaving
	if counts {
		m.g.tally.one(m, queue, -1)
	}
	m.attached[queue] += delta
	if m.attached[queue] <= 0 {
		delete(m.attached, queue)
	}
	if counts {
		m.g.tally.one(m, queue, 1)
	}
	if m.left && len(m.attached) == 0 {
		delete(m.g.leaving, m)
	}
}

// Claim reports that the member is about to consume a shard queue, before the
// broker is asked: until Released the shard is held. Lent says that the shard is
// another's, and the member only helps out.
func (m *Member) Claim(queue string, lent bool) {}

// Released reports that what Claim announced is over: the consumer has ended, or
// never began, and every message it was given is settled.
func (m *Member) Released(queue string, lent bool) {}

// Aimed reports that the member goes by the target of that version: it claims
// nothing any more that only earlier targets had.
func (m *Member) Aimed(version uint64) {}

// setChanged has the members reassigned if the exchange has other shards now.
func (g *Group) setChanged() {
	g.mu.Lock()
	var notices []notice
	if g.adoptSet() {
		notices = g.reassign(nil)
	}
	g.mu.Unlock()
	tell(notices)
}

// adoptSet takes over the exchange's set and reports whether its shards changed.
// An exchange without one changes nothing: the queues outlive the exchange, and
// who consumes them goes on.
func (g *Group) adoptSet() bool {
	set := g.x.State().Set
	if set == nil || set.Len() == 0 || set == g.set {
		return false
	}
	changed := !set.Same(g.set)
	g.set = set
	if changed {
		for _, m := range g.members {
			m.single = g.singleOf(m.target.Shards)
		}
	}
	return changed
}
