package coordination

import (
	"maps"
	"slices"
)

// heardBeat takes a leader's sign of life.
func (c *Core) heardBeat(m *Message) {
	ballot := m.Stamp.Ballot
	switch order := ballot.compare(c.promised); {
	case order < 0 || ballot.Term == 0:
		return
	case order > 0:
		c.promise(ballot)
	}
	c.leaderAt = c.now
	if ballot.Leader == c.id {
		c.echoed(m.Seq)
		return
	}
	if m.Stamp.Version > 0 && m.Stamp.compare(c.applied) > 0 {
		c.whoDue = true
	}
}

// heardState takes over what a leader has decided.
func (c *Core) heardState(s *State) {
	switch order := s.Ballot.compare(c.promised); {
	case order < 0 || s.Term == 0:
		return
	case order > 0:
		c.promise(s.Ballot)
	}
	c.leaderAt = c.now
	c.imitated(s.Stamp)
	woken := c.awake(s)
	// To one that is elected, what a former leader said is no news: its own state
	// counts from now on.
	if c.lead != nil || s.Leader == c.id {
		return
	}
	if s.Stamp.compare(c.applied) <= 0 {
		if woken {
			c.follow(sortedKeys(c.known.Exchanges))
		}
		return
	}
	c.local.leave()
	c.known, c.applied = s, s.Stamp
	c.noteJudged()
	c.follow(sortedKeys(s.Exchanges))
	c.reportSoon()
}

// follow applies what is known of exchanges, as far as they concern this proxy.
func (c *Core) follow(exchanges []string) {
	if c.applied.Term == 0 {
		return
	}
	for _, name := range exchanges {
		if c.concerns(name) {
			p := c.known.Exchanges[name].plan(c.known.Stamp, c.id)
			switch {
			case !p.Ordered:
			case c.waking.seq > 0:
				p.Targets = c.kept(name, nil)
			case !c.known.counts(c.id):
				p.Targets = c.kept(name, p.Targets)
			}
			c.applyPlan(name, p)
		}
	}
}

// kept returns what is granted, and what consumers that the leader does not count
// on are attached to. While they are nobody else attaches there; were they to end,
// the next owner would begin before the clients had got all that was on its way to
// them. So they go on until the leader knows of them, and has taken the shards back
// from whom it has granted them to (reclaim.go).
func (c *Core) kept(exchange string, granted map[uint64][]string) map[uint64][]string {
	former, unsettled := c.plans[exchange], c.self.report[exchange].Unsettled
	if former == nil || len(unsettled) == 0 {
		return granted
	}
	kept := maps.Clone(granted)
	for id, queues := range former.Targets {
		for _, queue := range queues {
			if unsettled[queue] == 0 || slices.Contains(kept[id], queue) {
				continue
			}
			if kept == nil {
				kept = make(map[uint64][]string)
			}
			kept[id] = append(slices.Clone(kept[id]), queue)
			slices.Sort(kept[id])
		}
	}
	return kept
}

// concerns reports whether the proxy has anything to do with a known exchange.
func (c *Core) concerns(exchange string) bool {
	if c.known.Exchanges[exchange] == nil {
		return false
	}
	_, reported := c.self.report[exchange]
	return reported || c.plans[exchange] != nil
}

// applyOwn applies, at the leader, what it has just decided.
func (c *Core) applyOwn(exchange string) {
	c.applied = c.known.Stamp
	if c.concerns(exchange) {
		c.applyPlan(exchange, c.known.Exchanges[exchange].plan(c.known.Stamp, c.id))
	}
}

// applyPlan hands a plan to the participant if it says anything new.
func (c *Core) applyPlan(exchange string, p *Plan) {
	if own := c.local.own[exchange]; own != nil && len(without(own, p.All())) == 0 && p.Generation > 0 {
		delete(c.local.own, exchange)
		c.self.own = c.local.own
	}
	if p.same(c.plans[exchange]) {
		return
	}
	c.plans[exchange] = p
	c.emit(Output{Kind: ApplyOutput, Exchange: exchange, Plan: p})
}

// forgetPlans drops the plans of exchanges that neither this proxy nor the last
// state has any more: under a pattern exchanges may come and go for ever.
func (c *Core) forgetPlans() {
	for name := range c.plans {
		if _, reported := c.self.report[name]; !reported && c.known.Exchanges[name] == nil {
			delete(c.plans, name)
			delete(c.local.sweeps, name)
		}
	}
}

// Plan returns what was applied last on an exchange, nil if nothing was.
func (c *Core) Plan(exchange string) *Plan { return c.plans[exchange] }
