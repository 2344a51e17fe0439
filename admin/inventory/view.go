package inventory

import (
	"cmp"
	"slices"
	"strings"

	"github.com/shardmq/shardmq/shards"
	"github.com/shardmq/shardmq/shards/coordination"
)

// View is what running proxies of one vhost have said. The zero value is that of
// a vhost where none runs. It is not safe for concurrent use.
type View struct {
	// State is what the leader has decided last, or what is stored while nobody
	// leads; nil when there is neither.
	State *coordination.State
	// Led reports whether a proxy leads.
	Led bool
	// Silent names proxies that are connected but have not been heard.
	Silent []string
	// Partial: something could not be heard or read, so that nothing follows from
	// what the View does not have.
	Partial bool

	reports  map[string]*coordination.Message
	oddities []oddity
}

// Add takes a message of the fanout exchange into account. Shards must be named as
// their exchange's: proxies do not believe it otherwise, and what is to be looked at
// and removed is not for whoever may write to the exchange to choose.
func (v *View) Add(m *coordination.Message) {
	if !named(m) {
		v.unread("exchange '"+coordination.MembersExchange+"'", errNames)
		return
	}
	switch m.Kind {
	case coordination.BeatKind:
		v.Led = true
	case coordination.StateKind:
		v.Led = true
		v.stored(m.State)
	case coordination.ReportKind:
		if m.Bye {
			delete(v.reports, m.From)
			return
		}
		if v.reports == nil {
			v.reports = map[string]*coordination.Message{}
		}
		if old := v.reports[m.From]; old == nil || old.Seq <= m.Seq {
			v.reports[m.From] = m
		}
	}
}

// named reports whether all shards of a message are named as their exchange's.
func named(m *coordination.Message) bool {
	for name, r := range m.Exchanges {
		if !allNamed(name, r.Want.Shards, r.Found) {
			return false
		}
	}
	for name, own := range m.Own {
		if !allNamed(name, own) {
			return false
		}
	}
	return m.State == nil || namedState(m.State)
}

func namedState(s *coordination.State) bool {
	for name, entry := range s.Exchanges {
		if !allNamed(name, entry.Set, entry.Next) {
			return false
		}
		for _, old := range entry.Old {
			if !allNamed(name, []shards.Shard{old.Shard}) {
				return false
			}
		}
	}
	return true
}

func allNamed(exchange string, lists ...[]shards.Shard) bool {
	prefix := strings.TrimSuffix(shards.QueueNameFixed(exchange, 0), "0")
	return !slices.ContainsFunc(slices.Concat(lists...), func(s shards.Shard) bool { return !strings.HasPrefix(s.Queue, prefix) })
}

// stored takes a state into account that somebody has decided at some time.
func (v *View) stored(s *coordination.State) {
	if v.State == nil || older(v.State.Stamp, s.Stamp) {
		v.State = s
	}
}

// older reports whether a was decided before b.
func older(a, b coordination.Stamp) bool {
	return cmp.Or(cmp.Compare(a.Term, b.Term), cmp.Compare(a.Leader, b.Leader), cmp.Compare(a.Version, b.Version)) < 0
}

// Proxies returns how many proxies have been heard.
func (v *View) Proxies() int { return len(v.reports) }

// granted returns the IDs of proxies that the state grants shards to.
func (v *View) granted() (ids []string) {
	if v.State == nil {
		return nil
	}
	for _, entry := range v.State.Exchanges {
		for id := range entry.Grants {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// entry returns what has been decided on an exchange, nil if nothing has.
func (v *View) entry(exchange string) *coordination.Entry {
	if v.State == nil {
		return nil
	}
	return v.State.Exchanges[exchange]
}

// published reports whether a running proxy may still publish to a shard: by the
// leader's plan it is one of those that have just been replaced.
func (v *View) published(exchange, queue string) bool {
	entry := v.entry(exchange)
	return v.Led && entry != nil && slices.ContainsFunc(entry.Old, func(s coordination.OldShard) bool {
		return s.Queue == queue && s.Phase == coordination.Bound
	})
}

// wanted reports whether a proxy's configuration asks for a shard.
func (v *View) wanted(exchange, queue string) bool {
	for _, m := range v.reports {
		isIt := func(s coordination.Shard) bool { return s.Queue == queue }
		if slices.ContainsFunc(m.Exchanges[exchange].Want.Shards, isIt) || slices.ContainsFunc(m.Own[exchange], isIt) {
			return true
		}
	}
	return false
}

// abandoned reports whether no proxy that has been heard has a policy for an
// exchange, or consumers on it.
func (v *View) abandoned(exchange string) bool {
	for _, m := range v.reports {
		if x := m.Exchanges[exchange]; len(x.Want.Shards) > 0 || len(x.Consumers) > 0 {
			return false
		}
	}
	return true
}

// unsettled returns, by proxy, what it has on a queue that is not settled.
func (v *View) unsettled(exchange, queue string) map[string]int {
	out := map[string]int{}
	for id, m := range v.reports {
		if n := m.Exchanges[exchange].Unsettled[queue]; n > 0 {
			out[id] = n
		}
	}
	return out
}
