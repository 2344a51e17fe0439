package coordination

import "time"

// waking is the time in which a proxy that was away, because its process was stopped or
// its connection was lost, goes by what it finds: the others may have given it up, and
// what it hears first may have been said long ago. One that has helped itself without a
// leader goes by that in the same way.
type waking struct {
	// seq is the first report sent since; what a leader says counts once it goes by
	// that one or a later. 0 = awake.
	seq uint64
	// stale: what may be from before is still applied.
	stale bool
}

// wakes begins it.
func (c *Core) wakes(stale bool) { c.waking = waking{seq: c.seq + 1, stale: c.waking.stale || stale} }

// at takes the time over. Tick comes several times a second; when so much has gone by
// that others may have given this proxy up, its process was stopped.
func (c *Core) at(now time.Duration) {
	stopped, gone := c.stopped(now), now-c.now
	c.now = now
	if !stopped {
		return
	}
	c.log("this process was stopped for a while", "seconds", gone.Seconds())
	c.wakes(true)
	c.reachable = now
	c.reportDue = now
	if c.lead != nil && c.lead.phase != storing {
		c.lead.suspended = true // until its messages come back
	}
}

// stopped reports whether this process has done nothing for so long. The last report
// was made up to Announce before that, and a bit.
func (c *Core) stopped(now time.Duration) bool {
	return !c.alone && c.now > 0 && now-c.now >= c.t.Silent-c.t.Announce-c.t.Announce/2
}

// dropStale takes from consumers, where order is promised, what they have been granted
// and are not attached to: somebody else may have it by now. The present report is
// known.
func (c *Core) dropStale() {
	if !c.waking.stale {
		return
	}
	c.waking.stale = false
	for _, name := range sortedKeys(c.plans) {
		if p := *c.plans[name]; p.Ordered {
			p.Targets = c.kept(name, nil)
			c.applyPlan(name, &p)
		}
	}
}

// awake reports whether, by a leader's state, that goes by what this proxy has
// reported since it has gone on, which it had not before.
func (c *Core) awake(s *State) bool {
	if c.waking.seq == 0 || s.Proxies[c.id] < c.waking.seq && len(s.Proxies) > 0 {
		return false
	}
	c.waking = waking{}
	return true
}

// WantsReport reports whether Own is to be called before m, or any other event if it
// is nil, is passed on: what this proxy keeps depends on what it is attached to.
func (c *Core) WantsReport(now time.Duration, m *Message) bool {
	return c.stopped(now) || c.waking.stale || m != nil && m.Kind == StateKind && !m.State.counts(c.id)
}
