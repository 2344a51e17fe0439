package coordination

import (
	"slices"
	"time"
)

// lockPhase is how far a lock is.
type lockPhase uint8

const (
	lockAsked lockPhase = iota + 1
	// lockRefused: somebody else has it, or the broker was not asked; asked again
	// when that is due.
	lockRefused
	lockHeld
	lockEnding // it is being let go of
)

// lock is a shard's that this proxy has, or wants, while it hears no leader.
type lock struct {
	id    uint64
	phase lockPhase
	due   time.Duration
	// theirs: somebody else had it when the broker was asked last.
	theirs bool
}

// mayTake reports whether shards of an ordered exchange may be taken: by now every
// proxy has missed the leader too, and locked what its consumers hold. What this one
// alone has missed, while it was away, does not count.
func (c *Core) mayTake() bool {
	return c.local.lockable && c.local.on && c.now-max(c.leaderAt, c.reachable) >= c.t.Silent+2*c.t.Announce
}

// helpsItself reports whether this proxy could come to hold more than it has been
// granted. A leader goes by no report made then.
func (c *Core) helpsItself() bool { return c.local.on && c.now-c.leaderAt >= c.t.Silent }

// tendLocks asks for the locks of what is held here, by a leader's decision or by
// this proxy's own, lest another proxy take it; and lets go of the others.
func (c *Core) tendLocks() {
	for _, exchange := range sortedKeys(c.local.locks) {
		locks := c.local.locks[exchange]
		for _, queue := range sortedKeys(locks) {
			l := locks[queue]
			if c.local.on && c.has(exchange, queue) {
				continue
			}
			switch {
			case l.phase == lockHeld:
				l.phase, l.id = lockEnding, c.nextID()
				c.emit(Output{Kind: UnlockOutput, ID: l.id, Exchange: exchange, Queue: queue})
			case l.phase == lockRefused && (c.now >= l.due || !c.local.on):
				delete(locks, queue)
			}
		}
		if len(locks) == 0 {
			delete(c.local.locks, exchange)
		}
	}
	if !c.local.on {
		return
	}
	for _, exchange := range sortedKeys(c.plans) {
		if p := c.plans[exchange]; p.Ordered {
			for _, shard := range p.All() {
				if c.has(exchange, shard.Queue) {
					c.askLock(exchange, shard.Queue)
				}
			}
		}
	}
}

// has reports whether a consumer of this proxy has a queue, or is to have it.
func (c *Core) has(exchange, queue string) bool {
	return c.holdsHere(exchange, queue) || c.plans[exchange] != nil && named(c.plans[exchange].Targets, queue)
}

// holdsHere reports whether a consumer of this proxy, be it one that left, has not
// let go of a queue.
func (c *Core) holdsHere(exchange, queue string) bool {
	r := c.self.report[exchange]
	return r.Unsettled[queue] > 0 || slices.ContainsFunc(r.Consumers, func(k ConsumerReport) bool {
		return slices.Contains(k.Held, queue)
	})
}

// askLock asks for a shard's lock, unless it is there or was refused just now.
func (c *Core) askLock(exchange, queue string) {
	if !c.local.lockable || !c.connected {
		return
	}
	locks := c.local.locks[exchange]
	if locks == nil {
		locks = make(map[string]*lock)
		c.local.locks[exchange] = locks
	}
	l := locks[queue]
	if l == nil {
		l = &lock{}
		locks[queue] = l
	}
	if l.phase == 0 || l.phase == lockRefused && c.now >= l.due {
		l.phase, l.id = lockAsked, c.nextID()
		c.emit(Output{Kind: LockOutput, ID: l.id, Exchange: exchange, Queue: queue})
	}
}

// Locked says what came of a LockOutput.
func (c *Core) Locked(now time.Duration, out Output, ok bool, err error) {
	c.at(now)
	l := c.local.locks[out.Exchange][out.Queue]
	if l == nil || l.id != out.ID {
		return // its connection has ended, and so has the lock
	}
	if err != nil || !ok {
		l.phase, l.due, l.theirs = lockRefused, now+c.t.Sweep, err == nil
		if l.theirs {
			c.yieldQueue(out.Exchange, out.Queue)
		}
		return
	}
	l.phase, l.theirs = lockHeld, false
	if !c.has(out.Exchange, out.Queue) && c.mayTake() {
		c.takeUp(out.Exchange, []string{out.Queue})
	}
	c.tendLocks()
}

// Unlocked says what came of an UnlockOutput.
func (c *Core) Unlocked(now time.Duration, out Output, err error) {
	c.at(now)
	l := c.local.locks[out.Exchange][out.Queue]
	switch {
	case l == nil || l.id != out.ID:
	case err != nil:
		l.phase = lockHeld // tendLocks tries again
	default:
		delete(c.local.locks[out.Exchange], out.Queue)
	}
}

// yieldQueue takes a queue that another proxy has locked from this proxy's
// consumers, if they have nothing of it.
func (c *Core) yieldQueue(exchange, queue string) {
	if !c.local.on || c.self.report[exchange].Unsettled[queue] > 0 {
		return
	}
	p := c.localPlan(exchange)
	if p == nil || !named(p.Targets, queue) {
		return
	}
	for id, queues := range p.Targets {
		p.Targets[id] = slices.DeleteFunc(slices.Clone(queues), func(q string) bool { return q == queue })
	}
	c.applyPlan(exchange, p)
}

// locked reports whether this proxy has a shard's lock, and whether another has.
func (l *local) locked(exchange, queue string) (ours, theirs bool) {
	k := l.locks[exchange][queue]
	return k != nil && k.phase == lockHeld, k != nil && k.phase == lockRefused && k.theirs
}
