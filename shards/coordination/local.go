package coordination

import (
	"slices"
	"time"
)

// local is how a proxy helps itself while it hears no leader: it keeps what it
// holds, and its consumers take shards that had no consumer at the broker in two
// looks running. Two proxies may take the same one; that costs nothing but where
// order is promised, and there a lock at the broker comes first (lock.go).
type local struct {
	on bool
	// own are shards this proxy publishes to by its own decision; kept until a
	// leader has taken them up.
	own map[string][]Shard
	// sweeps are the looks, per exchange.
	sweeps map[string]*sweep
	// lockable: the transport keeps locks. locks are, per exchange and queue, those
	// that there are.
	lockable bool
	locks    map[string]map[string]*lock
}

type sweep struct {
	id  uint64 // of the look under way, 0 = none
	due time.Duration
	// bare are the queues without consumer at the last look.
	bare []string
	// twice are those that had none at the one before either.
	twice []string
	told  bool // it was logged that shards wait
}

func (l *local) init() {
	l.own = make(map[string][]Shard)
	l.sweeps = make(map[string]*sweep)
	l.locks = make(map[string]map[string]*lock)
}

// leave ends it: there is a leader to obey.
func (l *local) leave() {
	l.on = false
	clear(l.sweeps)
}

// tickLocal begins to help itself when the leader has been silent for too long,
// and looks for shards nobody consumes. The first look is earlier, so that the
// second follows soon after.
func (c *Core) tickLocal() {
	defer c.tendLocks()
	if c.leading() {
		return
	}
	silent := c.now - c.leaderAt
	if silent >= c.t.Silent && !c.local.on {
		c.local.on = true
		c.applied = Stamp{} // whatever a leader says next is news
		c.wakes(false)      // but may be from before
		c.log("no leader is heard, keeping what there is")
		c.decideLocally(sortedKeys(c.self.report))
	}
	if silent < c.t.Silent/2 {
		return
	}
	for _, name := range sortedKeys(c.self.report) {
		c.sweep(name)
	}
}

// sweep looks at an exchange's shards if that is due.
func (c *Core) sweep(exchange string) {
	p := c.plans[exchange]
	if p == nil || len(c.self.report[exchange].Consumers) == 0 {
		return
	}
	s := c.local.sweeps[exchange]
	if s == nil {
		s = &sweep{}
		c.local.sweeps[exchange] = s
	}
	if s.id != 0 || c.now < s.due {
		return
	}
	s.id, s.due = c.nextID(), c.now+c.t.Sweep
	c.emit(Output{Kind: EffectOutput, ID: s.id, Exchange: exchange, Effect: UncoveredEffect, Shards: p.All()})
}

// swept takes the answer to a sweep, and reports whether it was one.
func (l *local) swept(c *Core, id uint64, exchange string, o Outcome) bool {
	s := l.sweeps[exchange]
	if s == nil || s.id != id {
		return false
	}
	s.id = 0
	if o.Err != nil {
		s.bare, s.twice = nil, nil
		return true
	}
	var twice []string
	for _, queue := range o.Queues {
		if slices.Contains(s.bare, queue) {
			twice = append(twice, queue)
		}
	}
	s.bare, s.twice = o.Queues, twice
	if l.on {
		c.takeUp(exchange, twice)
		c.tellWaiting(exchange, s)
	}
	return true
}

// tellWaiting logs once that shards wait for a leader, or for a lock.
func (c *Core) tellWaiting(exchange string, s *sweep) {
	queues := c.local.uncovered(c, exchange)
	p := c.plans[exchange]
	if s.told || len(queues) == 0 || p == nil || !p.Ordered {
		return
	}
	s.told = true
	c.log("shards consumed in order have no consumer, and no leader is heard", "exchange", exchange, "shards", len(queues))
}

// uncovered lists the queues of an exchange that nobody has, as far as this proxy
// can tell without a leader.
func (l *local) uncovered(c *Core, exchange string) []string {
	s, p := l.sweeps[exchange], c.plans[exchange]
	if s == nil || p == nil || c.ownConsumers(exchange) == 0 {
		return nil
	}
	var queues []string
	for _, queue := range s.twice {
		if _, theirs := l.locked(exchange, queue); !theirs && !c.has(exchange, queue) {
			queues = append(queues, queue)
		}
	}
	return queues
}

// takeUp has the consumers with the fewest shards take queues nobody consumes.
func (c *Core) takeUp(exchange string, queues []string) {
	p := c.localPlan(exchange)
	if p == nil || p.Ordered && !c.mayTake() {
		return
	}
	ids := c.localConsumers(exchange)
	for _, queue := range queues {
		if len(ids) == 0 || !hasQueue(p.All(), queue) || named(p.Targets, queue) {
			continue
		}
		if p.Ordered {
			if c.holdsHere(exchange, queue) {
				continue // until that is settled
			}
			if ours, _ := c.local.locked(exchange, queue); !ours {
				c.askLock(exchange, queue)
				continue
			}
			c.log("takes a shard without a leader", "exchange", exchange, "queue", queue)
		}
		least := slices.MinFunc(ids, func(a, b uint64) int { return len(p.Targets[a]) - len(p.Targets[b]) })
		p.Targets[least] = append(slices.Clone(p.Targets[least]), queue)
		slices.Sort(p.Targets[least])
	}
	c.applyPlan(exchange, p)
}

// named reports whether a queue is somebody's in targets or in a goal.
func named[K comparable](shares map[K][]string, queue string) bool {
	for _, queues := range shares {
		if slices.Contains(queues, queue) {
			return true
		}
	}
	return false
}

// localConsumers returns the consumers that may take shards: an exclusive one
// alone, if there is one.
func (c *Core) localConsumers(exchange string) []uint64 {
	var ids []uint64
	for _, consumer := range c.self.report[exchange].Consumers {
		if consumer.Left {
			continue
		}
		if consumer.Exclusive {
			return []uint64{consumer.ID}
		}
		ids = append(ids, consumer.ID)
	}
	return ids
}

// decideLocally goes on without a leader: as before, without consumers that left,
// and on an exchange that no leader ever spoke of as this proxy's own
// configuration says.
func (c *Core) decideLocally(exchanges []string) {
	for _, name := range exchanges {
		if p := c.localPlan(name); p != nil {
			c.applyPlan(name, p)
		}
	}
}

// localPlan returns a copy of the present plan to change, nil if there is none and
// nothing is wanted.
func (c *Core) localPlan(exchange string) *Plan {
	r, ok := c.self.report[exchange]
	if !ok {
		return nil
	}
	p := c.plans[exchange]
	switch {
	case p != nil:
	case c.known.Exchanges[exchange] != nil:
		p = c.known.Exchanges[exchange].plan(c.known.Stamp, c.id)
	case len(r.Want.Shards) > 0:
		p = &Plan{Set: r.Want.Shards, Ordered: r.Want.Ordered}
		c.local.own[exchange] = r.Want.Shards
		c.self.own = c.local.own
	default:
		return nil
	}
	copied, targets := *p, p.Targets
	if p.Ordered && !c.connected {
		targets = c.kept(exchange, nil) // others may have been granted the rest
	}
	copied.Targets = make(map[uint64][]string)
	for _, id := range c.localConsumers(exchange) {
		if queues := targets[id]; len(queues) > 0 {
			copied.Targets[id] = queues
		}
	}
	return &copied
}
