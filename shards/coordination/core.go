package coordination

import (
	"time"
)

// Core is the protocol of one proxy, without any clock, socket or goroutine: it is
// told what happens and when, and says what is to be done. The same inputs give
// the same outputs. It is not safe for concurrent use.
//
// Every Core keeps a table of the proxies it hears. One that is elected decides
// (lead.go, balance.go, resize.go) and applies its decisions to its own proxy as
// every other does (follow.go). One that hears no leader helps itself (local.go).
type Core struct {
	id    string
	alone bool
	t     Timing

	now       time.Duration
	connected bool
	out       []Output
	lastID    uint64 // of stores and effects

	members map[string]*member
	order   []*member // those that count, by ID; nil = to be made anew
	self    *member
	sights  uint64 // consumers seen so far

	// promised is the highest ballot heard of; leaderAt is when its leader was
	// heard last.
	promised Ballot
	leaderAt time.Duration
	// reachable is since when this proxy could hear a leader: it is connected, and was
	// not stopped.
	reachable time.Duration
	// applied is the state this proxy goes by; zero when it has left it (local.go).
	applied Stamp
	known   *State // what was heard last; a leader's working copy
	plans   map[string]*Plan
	local   local
	lead    *lead // nil unless elected

	differing differing
	waking    waking

	seq        uint64
	reportDue  time.Duration // when the next report is to be sent
	reportSent time.Duration
	reportSize int
	whoDue     bool
	bye        bool
}

// NewCore returns the protocol of the proxy with that ID. One that is alone leads
// from the start and sends nothing.
func NewCore(id string, alone bool, t Timing) *Core {
	c := &Core{
		id: id, alone: alone, t: t.withDefaults(),
		members: make(map[string]*member),
		known:   &State{Exchanges: make(map[string]*Entry)},
		plans:   make(map[string]*Plan),
	}
	c.self = newMember(id)
	c.setMember(id, c.self)
	c.local.init()
	if alone {
		c.startAlone()
	}
	return c
}

// Take returns what is to be done, in order, and forgets it.
func (c *Core) Take() []Output {
	out := c.out
	c.out = nil
	return out
}

func (c *Core) emit(o Output) { c.out = append(c.out, o) }

func (c *Core) log(text string, fields ...any) {
	c.emit(Output{Kind: LogOutput, Text: text, Fields: fields})
}

func (c *Core) nextID() uint64 {
	c.lastID++
	return c.lastID
}

// Connected: messages come and go from now on.
func (c *Core) Connected(now time.Duration) {
	c.at(now)
	c.connected, c.reachable = true, now
	if !c.local.on {
		c.leaderAt = now // there was nobody to hear
	}
	c.whoDue = true
	c.reportDue = now
}

// Disconnected: messages neither come nor go any more.
func (c *Core) Disconnected(now time.Duration) {
	c.at(now)
	c.connected = false
	c.wakes(true)
	clear(c.local.locks) // they ended with the connection
	c.deposed()
}

// Own takes over the proxy's own report, made after every ApplyOutput so far has
// been carried out. It is to be called before Tick, whenever the report has
// changed, and after ApplyOutputs.
func (c *Core) Own(now time.Duration, report map[string]ExchangeReport) {
	c.at(now)
	c.self.applied = c.known.Stamp
	changed := c.see(c.self, report)
	c.dropStale()
	c.ownChanged(changed)
}

// OwnExchange is Own for one exchange; ok is false when it is not in the report
// any more.
func (c *Core) OwnExchange(now time.Duration, exchange string, report ExchangeReport, ok bool) {
	c.at(now)
	c.self.applied = c.known.Stamp
	if c.seeExchange(c.self, exchange, report, ok) {
		c.ownChanged([]string{exchange})
	} else {
		c.ownChanged(nil)
	}
}

// ownChanged has what follows from a change of the own report done.
func (c *Core) ownChanged(exchanges []string) {
	if len(exchanges) > 0 {
		c.reportSoon()
	}
	switch {
	case c.leading():
		c.decide(append(exchanges, c.lead.open(c.id)...))
	case c.local.on:
		c.decideLocally(exchanges)
	default:
		c.follow(exchanges)
	}
}

func (c *Core) reportSoon() {
	c.reportDue = max(c.now, min(c.reportDue, c.reportSent+c.pace(c.reportSize)))
}

// Bye has the last report sent: the proxy is about to end.
func (c *Core) Bye(now time.Duration) {
	c.at(now)
	c.bye = true
	c.sendReport()
}

// Tick does what is due. It is to be called at Wake.
func (c *Core) Tick(now time.Duration) {
	c.at(now)
	c.tickLead()
	c.tickLocal()
	c.forgetSilent()
	c.forgetPlans()
	c.tickDiffering()
	if c.alone || !c.connected {
		return
	}
	if c.whoDue {
		c.whoDue = false
		c.emit(Output{Kind: SendOutput, Slot: WhoKind, Body: Who(c.id)})
	}
	if c.now >= c.reportDue {
		c.sendReport()
	}
}

// Wake returns when Tick is to be called next.
func (c *Core) Wake() time.Duration {
	at := c.now + c.t.Announce/4
	if c.alone {
		return at
	}
	if c.waking.stale {
		return c.now
	}
	if c.connected {
		at = min(at, c.reportDue)
		if c.whoDue {
			at = c.now
		}
	}
	if c.leading() && c.lead.dirty {
		at = min(at, c.lead.stateSent+c.pace(c.lead.stateSize))
	}
	return max(at, c.now)
}

// pace is the least time between two messages of that many bytes.
func (c *Core) pace(size int) time.Duration {
	return c.t.Coalesce + time.Duration(size/4096)*time.Millisecond
}

// sendReport tells everybody what this proxy has and wants.
func (c *Core) sendReport() {
	c.reportSent = c.now
	c.reportDue = c.now + c.t.Announce
	if c.alone {
		return
	}
	c.seq++
	body := encode(&Message{
		Kind: ReportKind, From: c.id, Seq: c.seq, Promised: c.promised, Applied: c.applied, Bye: c.bye, Local: c.helpsItself(), Waking: c.waking.seq > 0,
		Exchanges: c.self.report, Own: c.local.own,
	})
	c.reportSize = len(body)
	c.emit(Output{Kind: SendOutput, Slot: ReportKind, Body: body})
}

// Receive takes a message in.
func (c *Core) Receive(now time.Duration, m *Message) {
	c.at(now)
	switch m.Kind {
	case WhoKind:
		c.reportSoon()
		c.asked(m.From)
	case ReportKind:
		c.heardReport(m)
	case BeatKind:
		c.heardBeat(m)
	case StateKind:
		c.heardState(m.State)
	}
}

// ownConsumers returns how many consumers this proxy has on an exchange.
func (c *Core) ownConsumers(exchange string) int { return len(c.self.report[exchange].Consumers) }
