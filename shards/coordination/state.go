package coordination

import (
	"cmp"
	"maps"
	"slices"
)

// Ballot numbers a lead: of two leaders the one with the higher ballot is obeyed.
// Terms grow with every election; the leader's ID only tells apart two that were
// elected at once, by queues that did not know of each other.
type Ballot struct {
	Term   uint64 `json:"term"`
	Leader string `json:"leader,omitempty"`
}

func (b Ballot) compare(o Ballot) int {
	return cmp.Or(compareTerms(b.Term, o.Term), cmp.Compare(b.Leader, o.Leader))
}

// compareTerms compares terms, of which the one after the last possible is 1: who
// may write to the exchange can name any term, and must not leave the next leader
// without a higher one. 0 is none.
func compareTerms(a, b uint64) int {
	if a == 0 || b == 0 {
		return cmp.Compare(a, b)
	}
	return cmp.Compare(int64(a-b), 0)
}

// next returns the ballot of that leader for the next term.
func (b Ballot) next(leader string) Ballot { return Ballot{Term: max(b.Term+1, 1), Leader: leader} }

// Stamp orders states: by ballot, then by version.
type Stamp struct {
	Ballot
	Version uint64 `json:"version,omitempty"`
}

func (s Stamp) compare(o Stamp) int {
	return cmp.Or(s.Ballot.compare(o.Ballot), cmp.Compare(s.Version, o.Version))
}

// reached reports whether whoever goes by this stamp goes by that version of a
// leader's, or by a later one of the same leader.
func (s Stamp) reached(b Ballot, version uint64) bool { return s.Ballot == b && s.Version >= version }

// Phase is how far a shard of a former set is on its way out.
type Phase string

const (
	// Bound: some proxy may still publish to it.
	Bound Phase = "bound"
	// Unbound: nothing new reaches it; it is consumed until it is empty.
	Unbound Phase = "unbound"
	// Closing: nobody is to consume it any more; it is deleted once all have let
	// go of it.
	Closing Phase = "closing"
)

// OldShard is a shard of a former set.
type OldShard struct {
	Shard
	Phase Phase `json:"phase"`
}

// Layout is what has been decided on the shards of an exchange.
type Layout struct {
	// Generation numbers Set; Next is to become Generation+1. Every Next that was
	// ever told has a number of its own, see Layout.adopt.
	Generation uint64 `json:"generation"`
	// Key is that of the adopted Spec, Ordered and Barrier as in it.
	Key     string `json:"key"`
	Ordered bool   `json:"ordered,omitempty"`
	Barrier bool   `json:"barrier,omitempty"`
	// Paused: nobody publishes, until Next has replaced Set or that is given up.
	Paused bool       `json:"paused,omitempty"`
	Set    []Shard    `json:"set"`
	Next   []Shard    `json:"next,omitempty"`
	Old    []OldShard `json:"old,omitempty"`
	// Superseded are the keys of specs that were adopted before, the latest last.
	Superseded []string `json:"superseded,omitempty"`
}

// Grants are queues by consumer ID by proxy; queues sorted.
type Grants map[string]map[uint64][]string

// Entry is the state of one exchange.
type Entry struct {
	Layout
	Grants Grants `json:"grants,omitempty"`
	// Exclusive is the proxy whose consumer has the exchange to itself, "" for none.
	Exclusive string `json:"exclusive,omitempty"`
	// Moves counts how often a shard went from one consumer to another.
	Moves uint64 `json:"moves,omitempty"`
}

// State is all that a leader has decided for a virtual host. It is stored in the
// broker and broadcast whole.
type State struct {
	Stamp
	// Proxies are those that the leader counts on, by ID: the number of the last report
	// it goes by. One that is not among them was given up, or has only just been
	// heard; what others were granted may be what it is attached to (follow.go).
	Proxies   map[string]uint64 `json:"proxies,omitempty"`
	Exchanges map[string]*Entry `json:"exchanges,omitempty"`
}

// counts reports whether the leader counts on a proxy. One that names nobody, not even
// itself, does not know how.
func (s *State) counts(proxy string) bool {
	_, named := s.Proxies[proxy]
	return named || s.Leader == proxy || len(s.Proxies) == 0
}

// Newer reports whether the state in a was decided later than the one in b, both
// as Transport.Store was given them. What cannot be decoded is older than
// everything.
func Newer(a, b []byte) bool {
	sa, errA := DecodeState(a)
	sb, errB := DecodeState(b)
	switch {
	case errA != nil:
		return false
	case errB != nil:
		return true
	}
	return sa.Stamp.compare(sb.Stamp) > 0
}

// clone returns a copy that shares only what is never modified in place: lists of
// shards and of queues, and the proxies.
func (s *State) clone() *State {
	c := &State{Stamp: s.Stamp, Proxies: s.Proxies, Exchanges: make(map[string]*Entry, len(s.Exchanges))}
	for name, entry := range s.Exchanges {
		e := *entry
		e.Grants = entry.Grants.clone()
		c.Exchanges[name] = &e
	}
	return c
}

// latest returns a copy of what counts of a broadcast state and a stored one, which
// may be nil: the newer. Of the same leader's, layouts are the stored ones whatever the
// versions say, for a layout is stored before it is told, and states without it may be
// told meanwhile.
func (s *State) latest(stored *State) *State {
	switch {
	case stored == nil || stored.Ballot.compare(s.Ballot) < 0:
		return s.clone()
	case stored.Stamp.compare(s.Stamp) >= 0:
		return stored.clone()
	}
	c := s.clone()
	for name, entry := range stored.clone().Exchanges {
		if told := c.Exchanges[name]; told != nil {
			told.Layout = entry.Layout
			continue
		}
		c.Exchanges[name] = entry
	}
	return c
}

func (g Grants) clone() Grants {
	c := make(Grants, len(g))
	for proxy, consumers := range g {
		c[proxy] = maps.Clone(consumers)
	}
	return c
}

func (g Grants) set(k consumerKey, queues []string) {
	if len(queues) == 0 {
		delete(g[k.proxy], k.id)
		if len(g[k.proxy]) == 0 {
			delete(g, k.proxy)
		}
		return
	}
	if g[k.proxy] == nil {
		g[k.proxy] = make(map[uint64][]string)
	}
	g[k.proxy][k.id] = queues
}

// consumed returns the shards consumers are wanted for, in name order.
func (l *Layout) consumed() []Shard { return union(l.Set, l.Next, l.draining()) }

// draining returns the old shards that are still to be consumed.
func (l *Layout) draining() []Shard {
	var shards []Shard
	for _, old := range l.Old {
		if old.Phase != Closing {
			shards = append(shards, old.Shard)
		}
	}
	return shards
}

// leaving says of the shards that are to be consumed which are in neither Set nor
// Next: nothing is published to them, or not for long. nil when none is.
func (l *Layout) leaving(consumed []Shard) []bool {
	if len(l.Old) == 0 {
		return nil
	}
	live := l.live()
	leaving := make([]bool, len(consumed))
	for i, shard := range consumed {
		leaving[i] = !live[shard.Queue]
	}
	return leaving
}

// live holds the queues of Set and of Next.
func (l *Layout) live() map[string]bool {
	live := make(map[string]bool, len(l.Set)+len(l.Next))
	for _, shard := range slices.Concat(l.Set, l.Next) {
		live[shard.Queue] = true
	}
	return live
}

// in returns the old shards in a phase.
func (l *Layout) in(phase Phase) []Shard {
	var shards []Shard
	for _, old := range l.Old {
		if old.Phase == phase {
			shards = append(shards, old.Shard)
		}
	}
	return shards
}

// plan returns what the entry means for one proxy.
func (e *Entry) plan(stamp Stamp, proxy string) *Plan {
	return &Plan{
		Term: stamp.Term, Version: stamp.Version, Generation: e.Generation,
		Set: e.Set, Next: e.Next, Old: e.draining(), Ordered: e.Ordered, Pause: e.Paused,
		Taken:   e.Exclusive != "" && e.Exclusive != proxy,
		Targets: maps.Clone(e.Grants[proxy]),
	}
}

// same reports whether o, by another stamp, says the same.
func (p *Plan) same(o *Plan) bool {
	return o != nil && p.Generation == o.Generation && p.Ordered == o.Ordered && p.Pause == o.Pause && p.Taken == o.Taken &&
		slices.Equal(p.Set, o.Set) && slices.Equal(p.Next, o.Next) && slices.Equal(p.Old, o.Old) &&
		maps.EqualFunc(p.Targets, o.Targets, slices.Equal[[]string])
}
