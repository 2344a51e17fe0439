package coordination

import (
	"iter"
	"slices"
)

// Bounds of what is believed: nobody's configuration comes to more.
const (
	maxName   = 255 // octets of a queue's or proxy's name, as AMQP has it
	maxShards = 1 << 16
	maxNumber = 1 << 62 // of a generation: there is one after it

	// MaxPlacement bounds Spec.Placement, in bytes.
	MaxPlacement = 1000
)

// Namer is a Participant that knows the names of shards. A message with others is
// not believed: who may write to the exchange must not have queues of his choice
// declared, consumed and deleted.
type Namer interface {
	// IsShard reports whether a queue's name is that of a shard of the exchange.
	IsShard(exchange, queue string) bool
}

// problem says what makes a message unbelievable, nil if nothing does.
func (m *Message) problem() error {
	if len(m.From) > maxName || len(m.Promised.Leader) > maxName || len(m.Stamp.Leader) > maxName {
		return errNames
	}
	if m.State != nil {
		return m.State.problem()
	}
	for _, list := range m.shards() {
		if !possible(list) {
			return errShards
		}
	}
	for _, r := range m.Exchanges {
		if len(r.Want.Placement) > MaxPlacement {
			return errPlacement
		}
	}
	return nil
}

// problem is Message.problem for a state. An exchange that is in one has shards.
func (s *State) problem() error {
	if len(s.Leader) > maxName || len(s.Proxies) > maxMembers {
		return errNames
	}
	for id := range s.Proxies {
		if len(id) > maxName {
			return errNames
		}
	}
	for _, e := range s.Exchanges {
		if len(e.Set) == 0 || e.Generation == 0 || e.Generation >= maxNumber {
			return errShards
		}
		for _, list := range e.lists() {
			if !possible(list) {
				return errShards
			}
		}
		if !e.orderly() {
			return errShards
		}
	}
	return nil
}

// orderly reports whether every old shard is on its way out, and none of them is in use:
// it would be unbound, or stay for ever.
func (l *Layout) orderly() bool {
	live := l.live()
	return !slices.ContainsFunc(l.Old, func(o OldShard) bool {
		return live[o.Queue] || !slices.Contains([]Phase{Bound, Unbound, Closing}, o.Phase)
	})
}

// possible reports whether shards can be what somebody has.
func possible(list []Shard) bool {
	if len(list) > maxShards {
		return false
	}
	seen := make(map[string]bool, len(list))
	for _, s := range list {
		if s.Queue == "" || len(s.Queue) > maxName || seen[s.Queue] {
			return false
		}
		seen[s.Queue] = true
	}
	return true
}

// named returns errShards if a queue is not one that could be the exchange's.
func (m *Message) named(n Namer) error {
	if m.State != nil {
		return m.State.named(n)
	}
	for name, list := range m.shards() {
		if !allNamed(n, name, list) {
			return errShards
		}
	}
	return nil
}

// named is Message.named for a state.
func (s *State) named(n Namer) error {
	for name, e := range s.Exchanges {
		for _, list := range e.lists() {
			if !allNamed(n, name, list) {
				return errShards
			}
		}
	}
	return nil
}

func allNamed(n Namer, exchange string, list []Shard) bool {
	return !slices.ContainsFunc(list, func(s Shard) bool { return !n.IsShard(exchange, s.Queue) })
}

// shards yields the shards that a report is about, with their exchange.
func (m *Message) shards() iter.Seq2[string, []Shard] {
	return func(yield func(string, []Shard) bool) {
		for name, r := range m.Exchanges {
			if !yield(name, r.Want.Shards) || !yield(name, r.Found) {
				return
			}
		}
		for name, list := range m.Own {
			if !yield(name, list) {
				return
			}
		}
	}
}

// lists returns the shards a layout is about.
func (l *Layout) lists() [][]Shard {
	old := make([]Shard, len(l.Old))
	for i := range l.Old {
		old[i] = l.Old[i].Shard
	}
	return [][]Shard{l.Set, l.Next, old}
}
