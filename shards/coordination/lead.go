package coordination

import (
	"slices"
	"time"
)

// leadPhase is how far a leader is.
type leadPhase uint8

const (
	// storing: its term is not stored yet, so it must not be heard of.
	storing leadPhase = iota + 1
	// collecting: it waits until it knows what every proxy holds.
	collecting
	// deciding: it leads.
	deciding
)

// lead is what only a leader needs.
type lead struct {
	phase leadPhase
	// since is when the phase began.
	since time.Duration
	// echoAt is when a beat of its own came back last. While none does, nobody is
	// known to hear the leader, nor it to hear anybody: it decides nothing.
	echoAt    time.Duration
	echoSeq   uint64
	suspended bool
	beatDue   time.Duration
	// startSeq is the number of its first message since the phase began: once that
	// has come back, others could have answered.
	startSeq uint64

	works map[string]*work
	// lostAt is the version since which the last proxy that was given up is.
	lostAt uint64

	// dirty: known has changed since it was sent.
	dirty     bool
	stateSent time.Duration
	stateSize int
	sent      uint64 // its version

	store storage
}

// storage is a leader's use of the stored state.
type storage struct {
	id uint64 // of the store under way, 0 = none
	// layouts are being stored, or are and await their effect; pending await their
	// turn.
	layouts, pending map[string]*Layout
	stored           bool   // layouts are
	version          uint64 // stored last
	at               time.Duration
	retry            time.Duration // when to try again; 0 = the last one worked
}

// backoff says when to try again.
type backoff struct {
	next, pause time.Duration
}

func (b *backoff) failed(now time.Duration, t Timing) {
	b.pause = min(max(b.pause*2, t.Retry), t.RetryMost)
	b.next = now + b.pause
}

func (b *backoff) worked() { *b = backoff{} }

func newLead(phase leadPhase, now time.Duration) *lead {
	return &lead{
		phase: phase, since: now, echoAt: now, works: make(map[string]*work),
		store: storage{pending: make(map[string]*Layout)},
	}
}

// leading reports whether this proxy decides now.
func (c *Core) leading() bool {
	return c.lead != nil && c.lead.phase == deciding && !c.lead.suspended
}

func (c *Core) startAlone() {
	c.promised = Ballot{Term: 1, Leader: c.id}
	c.known.Ballot = c.promised
	c.lead = newLead(deciding, 0)
}

// Elected: this proxy is the only one that may store; stored is what was stored
// last, nil for nothing. Of that and of what was broadcast the newer counts, see
// State.latest. Its term is stored before anybody hears of it, so that the next
// leader's is higher.
func (c *Core) Elected(now time.Duration, stored *State) {
	c.at(now)
	base := c.known.latest(stored)
	last := base.Ballot
	if c.promised.compare(last) > 0 {
		last = c.promised
	}
	c.known = base
	c.known.Stamp = Stamp{Ballot: last.next(c.id), Version: base.Version + 1}
	c.lead = newLead(storing, now)
	for _, m := range c.peers() {
		m.echoes, m.absent, m.asked, m.floor = 0, false, 0, 0
	}
	for _, name := range sortedKeys(c.known.Exchanges) {
		for _, proxy := range sortedKeys(c.known.Exchanges[name].Grants) {
			if c.members[proxy] == nil && len(c.members) < maxMembers {
				m := newMember(proxy)
				m.stranger, m.heard = true, now
				c.setMember(proxy, m)
			}
		}
	}
	c.log("elected", "term", c.known.Term)
	c.flushStore()
}

// Deposed: another proxy may store now.
func (c *Core) Deposed(now time.Duration) {
	c.at(now)
	c.deposed()
}

func (c *Core) deposed() {
	if c.lead == nil || c.alone {
		return
	}
	c.log("leads no more", "term", c.known.Term)
	c.lead = nil
	for id, m := range c.members {
		if m.stranger {
			c.setMember(id, nil)
		}
	}
}

// promise has this proxy obey a ballot, and nobody below it.
func (c *Core) promise(b Ballot) {
	c.promised = b
	if c.lead != nil && b != c.known.Ballot {
		c.resign()
	}
	c.leaderAt = c.now
	c.reportDue = c.now
}

// resign gives the lead up.
func (c *Core) resign() {
	c.deposed()
	c.emit(Output{Kind: ResignOutput})
}

// imitated gives the lead up if somebody goes by a state under this leader's name
// that it has not decided: what it decides would not count until it had decided as
// much. Its next term does.
func (c *Core) imitated(s Stamp) {
	if c.lead != nil && s.Ballot == c.known.Ballot && s.Version > c.known.Version {
		c.log("a state in this leader's name is not its own, resigning", "term", s.Term)
		c.resign()
	}
}

// tickLead does what a leader has to do from time to time.
func (c *Core) tickLead() {
	l := c.lead
	if l == nil {
		return
	}
	if !c.alone {
		c.tickStore()
		if l.phase == storing {
			return
		}
		if c.now >= l.beatDue {
			c.sendBeat()
		}
		if !l.suspended && c.now-l.echoAt >= c.t.Silent {
			l.suspended = true
			c.log("own messages do not come back, deciding nothing")
		}
		if !l.suspended {
			c.expire()
		}
		if l.phase == collecting {
			c.tickCollect()
		}
	}
	if c.leading() {
		c.tickLayouts()
		c.sendState(false)
	}
}

func (c *Core) sendBeat() {
	l := c.lead
	l.beatDue = c.now + c.t.Announce
	stamp := Stamp{Ballot: c.known.Ballot}
	if c.leading() {
		stamp.Version = l.sent
	}
	c.seq++
	c.emit(Output{Kind: SendOutput, Slot: BeatKind, Body: encode(&Message{Kind: BeatKind, From: c.id, Seq: c.seq, Stamp: stamp})})
}

// asked: somebody wants to know the present state.
func (c *Core) asked(from string) {
	if c.leading() && from != c.id {
		c.lead.dirty = true
	}
}

// changed notes that known is about to change, under a version of its own.
func (c *Core) changed() {
	c.known.Version++
	c.lead.dirty = true
}

// sendState tells everybody the present state, not too often.
func (c *Core) sendState(now bool) {
	l := c.lead
	if !c.alone {
		c.nameProxies()
	}
	if !l.dirty || !now && c.now < l.stateSent+c.pace(l.stateSize) {
		return
	}
	l.dirty, l.stateSent, l.sent = false, c.now, c.known.Version
	if c.alone {
		return
	}
	c.known.Proxies = c.counted()
	body := encode(&Message{Kind: StateKind, From: c.id, State: c.known})
	l.stateSize = len(body)
	c.emit(Output{Kind: SendOutput, Slot: StateKind, Body: body})
}

// drop forgets what a proxy had.
func (l *lead) drop(proxy string) {
	for _, w := range l.works {
		w.forget(func(k consumerKey) bool { return k.proxy == proxy })
	}
}

// decide decides on exchanges: their shards, then who consumes them.
func (c *Core) decide(exchanges []string) {
	exchanges = slices.Compact(slices.Sorted(slices.Values(exchanges)))
	for _, name := range exchanges {
		c.judge(name)
	}
	c.flushStore()
	for _, name := range exchanges {
		c.balance(name)
	}
	c.hurry(exchanges)
	c.sendState(false)
}
