package shards

import (
	"slices"
	"sync/atomic"
)

// Mode says what an exchange is in the broker, and so what happens to publishes.
type Mode uint8

const (
	// Unknown: not looked at yet, or forgotten.
	Unknown Mode = iota
	// Missing: the broker has no exchange of that name.
	Missing
	// Sharded: ours. A direct exchange; publishes get a shard key in BCC.
	Sharded
	// Native: of the broker's own type x-modulus-hash; the broker hashes.
	Native
	// Plain: of another type. Shards are bound with the policy's routing key and
	// publishes pass unrewritten.
	Plain
)

// String returns the mode's name for logs.
func (m Mode) String() string {
	switch m {
	case Unknown:
		return "unknown"
	case Missing:
		return "missing"
	case Sharded:
		return "sharded"
	case Native:
		return "native"
	case Plain:
		return "plain"
	}
	return "invalid"
}

// State is what is known of one exchange. It is an immutable value: a change
// publishes a new State.
type State struct {
	Mode Mode
	// Set is what publishes are hashed over; nil until the shards are declared.
	Set *Set
	// All is what consumers, gets, purges and counts concern: Set, and while the
	// number of shards changes also the shards to come and those to go. nil means
	// Set alone.
	All *Set
	// Next is what publishes will be hashed over once every proxy is ready for it;
	// nil when no change is under way. Its shards are declared and bound.
	Next *Set
	// Words has bit w-1 set when the shard keys of w words are bound.
	Words uint32
	// RealQueue: a queue with the exchange's own name exists, so spreading
	// default-exchange publishes would deliver twice.
	RealQueue bool
	// Type is the exchange type as the broker names it, "" when unknown.
	Type string
	// Live are the indexes in Set of the shards that were there and bound at the
	// last look and whose node is not known to be down, ascending; nil means all
	// of Set, an empty one none. It concerns publishes; whether a shard of Covered
	// can be consumed, counts say.
	Live []int
	// Paused: publishes have to wait (Topology.AwaitOpen), for other shards are about
	// to replace Set and no message may overtake another of the same key.
	Paused bool
	// Keep: messages for a shard that is not live stay with it, for the broker to
	// refuse (on-node-down: keep).
	Keep bool
}

// Covered returns the shards that consumers, gets and counts concern: All, or Set;
// nil when there are none.
func (s *State) Covered() *Set {
	if s.All != nil {
		return s.All
	}
	return s.Set
}

// bound returns the shards that are to be bound: Set and Next. Set must not be nil.
func (s *State) bound() *Set {
	if s.Next == nil {
		return s.Set
	}
	all := make([]Shard, 0, s.Set.Len()+s.Next.Len())
	for i := range s.Set.Len() {
		all = append(all, s.Set.At(i))
	}
	for i := range s.Next.Len() {
		if shard := s.Next.At(i); !s.Set.Has(shard.Queue) {
			all = append(all, shard)
		}
	}
	return SetOf(s.Set.exchange, s.Set.generation, all)
}

// Place returns the index, in s.Set, of the shard for a hash value. The shard is
// h mod Len of Set; if that one is not live, the rest of the hash places the
// message on one of those that are, so that the keys of healthy shards stay where
// they are. With none live, or with Keep, it is as if all were. Set must not be
// empty. It does not allocate.
func (s *State) Place(h uint64) int {
	i := s.Set.Pick(h)
	if s.Live == nil || len(s.Live) == 0 || s.Keep || s.IsLive(i) {
		return i
	}
	return s.Live[h/uint64(s.Set.Len())%uint64(len(s.Live))]
}

// LiveLen returns how many shards are live.
func (s *State) LiveLen() int {
	switch {
	case s.Set == nil:
		return 0
	case s.Live == nil:
		return s.Set.Len()
	}
	return len(s.Live)
}

// IsLive reports whether shard i of Set is live.
func (s *State) IsLive(i int) bool {
	if s.Set == nil || i < 0 || i >= s.Set.Len() {
		return false
	}
	if s.Live == nil {
		return true
	}
	_, live := slices.BinarySearch(s.Live, i)
	return live
}

// HasWords reports whether the shard keys with that many words are bound.
func (s *State) HasWords(words int) bool {
	return words >= 1 && words <= MaxWords && s.Words&(1<<(words-1)) != 0
}

// unknownState is shared by all exchanges nobody has looked at.
var unknownState = &State{Mode: Unknown}

// Exchange is the run-time side of one exchange that a policy matches. Its
// exported fields do not change; its methods are safe for concurrent use.
type Exchange struct {
	Name, Vhost string

	policy atomic.Pointer[Policy]
	state  atomic.Pointer[State]
	spread atomic.Uint64
	// unsharded counts messages that came without a shard key, see unsharded.go.
	unsharded atomic.Uint64
	group     atomic.Pointer[Group]
	work      work // Topology's, see resolve.go

	pinned, kept bool // guarded by Topology's routes
}

// newExchange returns an exchange in state Unknown.
func newExchange(name, vhost string, policy *Policy) *Exchange {
	x := &Exchange{Name: name, Vhost: vhost}
	x.policy.Store(policy)
	x.state.Store(unknownState)
	return x
}

// Policy returns the policy that decides for the exchange. It is replaced when
// the configuration is reloaded.
func (x *Exchange) Policy() *Policy { return x.policy.Load() }

// State returns what is known of the exchange: never nil, never to be modified.
func (x *Exchange) State() *State {
	if s := x.state.Load(); s != nil {
		return s
	}
	return unknownState
}

// NextSpread returns the index, in s.Set, of the shard for the next publish
// through the default exchange: round-robin over the shards that are live in s,
// a State of this exchange; -1 when there is none. It does not allocate.
func (x *Exchange) NextSpread(s *State) int {
	n := s.LiveLen()
	if n == 0 {
		return -1
	}
	i := int((x.spread.Add(1) - 1) % uint64(n))
	if s.Live != nil {
		return s.Live[i]
	}
	return i
}

// Route says what a publish to an exchange name concerns.
type Route struct {
	// Exchange is nil unless the name itself is sharded.
	Exchange *Exchange
	// Feeds are the sharded exchanges whose policies list the name in fed-by.
	Feeds []*Exchange
}
