package coordination

import (
	"maps"
	"time"
)

// Status is how the coordination of a virtual host stands, as one proxy sees it.
type Status struct {
	// ID is this proxy's; Leads whether it decides now.
	ID    string
	Leads bool
	// Term and Leader are those obeyed; Leader is "" while none is heard.
	Term   uint64
	Leader string
	// Proxies are the IDs of the proxies that are alive, this one included, sorted.
	Proxies []string
	// Moves is how often a shard went from one consumer to another, over all
	// exchanges there are.
	Moves     uint64
	Exchanges map[string]ExchangeStatus
}

// ExchangeStatus is how one exchange stands.
type ExchangeStatus struct {
	Generation uint64
	// Changing: another set of shards is about to replace the present.
	Changing bool
	// Paused: nothing is published until that is over, to keep the order.
	Paused bool
	// Uncovered are the queues that are to be consumed and were granted to nobody;
	// nil when there is no consumer at all. While no leader is heard they are those
	// without a consumer at the broker that nobody is known to have.
	Uncovered []string
	// Owners are the IDs of the proxies to whose consumers a queue was granted.
	Owners map[string][]string
	Moves  uint64
	// Differing is how many proxies are configured otherwise: those that place
	// messages by something else than most do, and those that have for a minute been
	// wanting other shards or another way to consume them than was adopted.
	Differing int
}

// Status returns how things stand. The maps are the caller's.
func (n *Node) Status() Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.core.status(n.now())
}

// Elsewhere returns how many consumers other proxies have on an exchange, by what
// was heard of them last: also those that wait for a shard, and hold nothing.
func (n *Node) Elsewhere(exchange string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.core.elsewhere(exchange, n.now())
}

func (c *Core) elsewhere(exchange string, now time.Duration) int {
	consumers := 0
	for _, m := range c.peers() {
		if !c.heardLately(m, now) {
			continue
		}
		for _, k := range m.report[exchange].Consumers {
			if !k.Left {
				consumers++
			}
		}
	}
	return consumers
}

func (c *Core) status(now time.Duration) Status {
	s := Status{
		ID: c.id, Leads: c.leading(), Term: c.promised.Term, Exchanges: make(map[string]ExchangeStatus),
	}
	if c.leading() || c.promised.Term > 0 && now-c.leaderAt < c.t.Silent {
		s.Leader = c.promised.Leader
	}
	for _, m := range c.live() {
		if c.heardLately(m, now) {
			s.Proxies = append(s.Proxies, m.id)
		}
	}
	for name, e := range c.known.Exchanges {
		x := e.status()
		x.Differing = c.differing.proxies[name]
		if c.local.on {
			x.Uncovered = c.local.uncovered(c, name)
		}
		s.Moves += x.Moves
		s.Exchanges[name] = x
	}
	return s
}

func (e *Entry) status() ExchangeStatus {
	s := ExchangeStatus{
		Generation: e.Generation, Changing: e.Next != nil, Paused: e.Paused, Moves: e.Moves, Owners: make(map[string][]string),
	}
	for _, proxy := range sortedKeys(e.Grants) {
		ids := maps.Clone(e.Grants[proxy])
		for _, queues := range ids {
			for _, queue := range queues {
				s.Owners[queue] = append(s.Owners[queue], proxy)
			}
		}
	}
	if len(e.Grants) == 0 {
		return s
	}
	for _, shard := range e.consumed() {
		if len(s.Owners[shard.Queue]) == 0 {
			s.Uncovered = append(s.Uncovered, shard.Queue)
		}
	}
	return s
}
