package shards

import (
	"cmp"
	"slices"

	"github.com/shardmq/shardmq/shards/coordination"
)

// ExchangeSnapshot is what is known of one sharded exchange at a moment.
type ExchangeSnapshot struct {
	Exchange, Vhost string
	Mode            Mode
	// Generation numbers the shard set that publishes go by, 0 = there is none.
	Generation uint64
	// Consumers is the number of client consumers on this proxy.
	Consumers int
	// Shards are all that are to be consumed, in name order.
	Shards []ShardSnapshot
	// Uncovered are the queues that no consumer of any proxy has been granted,
	// though there are consumers, as the leader sees it.
	Uncovered []string
	// Moves counts the shards that went from one consumer to another since the
	// present leader leads.
	Moves uint64
	// Differing is how many proxies' configurations of the exchange are not like the
	// others', or not what was adopted; see coordination.ExchangeStatus.
	Differing int
	// Unsharded counts messages delivered here that had reached the catch-all's shard
	// without a shard key: most of them, see Exchange.Delivered.
	Unsharded uint64
}

// ShardSnapshot is one shard in an ExchangeSnapshot.
type ShardSnapshot struct {
	Shard
	// Live: publishes go there. False too for a shard that is only drained.
	Live bool
	// Ready messages and Consumers of any proxy, when the broker was asked last;
	// Known says whether it was.
	Ready, Consumers uint32
	Known            bool
	// Attached are this proxy's consumers there at the broker.
	Attached int
	// Unsettled are this proxy's consumers and basic.get deliveries there that are
	// not over: the shard must not be deleted.
	Unsettled int
}

// counted is what the broker said last of the shards of a set, guarded by work.mu.
type counted struct {
	set    *Set
	counts []Count // parallel to set, not to be modified
}

// count notes what the broker has said.
func (w *work) count(set *Set, counts []Count) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counted = counted{set, counts}
}

// Snapshot returns what is known of all exchanges that have shards or consumers,
// by name. It asks no broker.
func (t *Topology) Snapshot() []ExchangeSnapshot {
	status := t.node.Status()
	var all []ExchangeSnapshot
	for _, x := range t.routes.exchanges() {
		s := x.snapshot()
		if len(s.Shards) == 0 && s.Consumers == 0 {
			continue
		}
		decided := status.Exchanges[x.Name]
		s.Uncovered, s.Moves, s.Differing = decided.Uncovered, decided.Moves, decided.Differing
		all = append(all, s)
	}
	return all
}

// Status returns how the coordination with the other proxies stands.
func (t *Topology) Status() coordination.Status { return t.node.Status() }

func (x *Exchange) snapshot() ExchangeSnapshot {
	state := x.State()
	s := ExchangeSnapshot{Exchange: x.Name, Vhost: x.Vhost, Mode: state.Mode, Unsharded: x.unsharded.Load()}
	if state.Set != nil {
		s.Generation = state.Set.Generation()
	}
	if covered := state.Covered(); covered != nil {
		s.Shards = make([]ShardSnapshot, covered.Len())
		for i := range s.Shards {
			s.Shards[i].Shard = covered.At(i)
			if at, ok := state.Set.Index(covered.At(i).Queue); ok {
				s.Shards[i].Live = state.IsLive(at)
			}
		}
	}
	if g := x.group.Load(); g != nil {
		g.snapshot(&s)
	}
	x.work.snapshot(&s)
	return s
}

// shard returns the entry of a queue, nil if there is none.
func (s *ExchangeSnapshot) shard(queue string) *ShardSnapshot {
	i, ok := slices.BinarySearchFunc(s.Shards, queue, func(e ShardSnapshot, queue string) int {
		return cmp.Compare(e.Queue, queue)
	})
	if !ok {
		return nil
	}
	return &s.Shards[i]
}

func (g *Group) snapshot(s *ExchangeSnapshot) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s.Consumers = len(g.members)
	for queue, n := range g.claimed {
		if e := s.shard(queue); e != nil {
			e.Unsettled += n
		}
	}
	attached := func(m *Member) {
		for queue, n := range m.attached {
			if e := s.shard(queue); e != nil {
				e.Attached += n
			}
		}
	}
	for _, m := range g.members {
		attached(m)
	}
	for m := range g.leaving {
		attached(m)
	}
}

func (w *work) snapshot(s *ExchangeSnapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for queue, n := range w.accord.unsettled {
		if e := s.shard(queue); e != nil {
			e.Unsettled += n
		}
	}
	for i, count := range w.counted.counts {
		if e := s.shard(w.counted.set.At(i).Queue); e != nil && count.Exists {
			e.Ready, e.Consumers, e.Known = count.Messages, count.Consumers, true
		}
	}
}
