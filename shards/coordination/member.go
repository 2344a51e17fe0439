package coordination

import (
	"maps"
	"slices"
	"time"
)

// maxMembers bounds the proxies that are remembered, for anybody who may write to
// the exchange can make any number of them up.
const maxMembers = 1000

// consumerKey names a consumer among all proxies'.
type consumerKey struct {
	proxy string
	id    uint64
}

// member is one proxy as another sees it.
type member struct {
	id     string
	report map[string]ExchangeReport
	own    map[string][]Shard
	seq    uint64
	// heard is when its last report came; promised and applied are what that said.
	heard    time.Duration
	promised Ballot
	applied  Stamp
	// echoes counts this leader's beats that were sent and came back since then;
	// they are numbered above heardAfter.
	echoes     int
	heardAfter uint64
	// asked is when the broker was asked last whether it is connected, absent that
	// it said no.
	asked  time.Duration
	absent bool
	// collected: it has reported to this leader since that began to collect.
	collected bool
	// local is what its last report said of helping itself. floor is the version it
	// must have applied before this leader counts on it, see countsOn.
	local bool
	floor uint64
	// sight orders consumers by when they were seen first, per exchange.
	sight map[string]map[uint64]uint64
	// keys are those of the specs it wants, judged of those that were decided on.
	keys, judged map[string]string
	// contrary is since when it has wanted something else than was adopted, by
	// exchange.
	contrary map[string]time.Duration
	// stranger: it has only been named by a state, and not been heard.
	stranger bool
	bye      bool
}

func newMember(id string) *member {
	return &member{
		id: id, report: make(map[string]ExchangeReport),
		sight: make(map[string]map[uint64]uint64), keys: make(map[string]string), judged: make(map[string]string),
		contrary: make(map[string]time.Duration),
	}
}

// see replaces a member's report, and returns the exchanges on which it differs.
func (c *Core) see(m *member, report map[string]ExchangeReport) []string {
	var changed []string
	for _, name := range sortedKeys(report) {
		if c.seeExchange(m, name, report[name], true) {
			changed = append(changed, name)
		}
	}
	if len(m.report) == len(report) {
		return changed
	}
	for _, name := range sortedKeys(m.report) {
		if _, there := report[name]; !there {
			c.seeExchange(m, name, ExchangeReport{}, false)
			changed = append(changed, name)
		}
	}
	return changed
}

// seeExchange replaces a member's report on one exchange; ok is false when there
// is none any more. It reports whether it differs.
func (c *Core) seeExchange(m *member, exchange string, report ExchangeReport, ok bool) bool {
	former, had := m.report[exchange]
	if !ok {
		delete(m.report, exchange)
		delete(m.sight, exchange)
		delete(m.keys, exchange)
		delete(m.judged, exchange)
		delete(m.contrary, exchange)
		return had
	}
	if had && former.equal(report) {
		return false
	}
	if !had || !former.Want.equal(report.Want) {
		m.keys[exchange] = report.Want.Key()
	}
	m.report[exchange] = report
	was := m.sight[exchange]
	is := make(map[uint64]uint64, len(report.Consumers))
	for _, consumer := range report.Consumers {
		at, seen := was[consumer.ID]
		if !seen {
			c.sights++
			at = c.sights
		}
		is[consumer.ID] = at
	}
	m.sight[exchange] = is
	return true
}

// heardReport takes the report of another proxy.
func (c *Core) heardReport(r *Message) {
	if r.From == c.id || r.From == "" {
		return
	}
	m := c.members[r.From]
	if m == nil {
		if len(c.members) >= maxMembers {
			return
		}
		m = newMember(r.From)
		if c.lead != nil {
			m.floor = c.lead.lostAt
		}
		c.setMember(r.From, m)
	}
	if m.bye || r.Seq <= m.seq {
		return
	}
	counted := c.countsOn(m)
	progress := m.applied != r.Applied || m.promised != r.Promised
	m.stranger, m.absent, m.echoes, m.heardAfter = false, false, 0, c.seq
	m.seq, m.heard = r.Seq, c.now
	m.promised, m.applied, m.own, m.local = r.Promised, r.Applied, r.Own, r.Local
	if r.Promised.compare(c.promised) > 0 {
		c.promise(r.Promised)
	}
	c.imitated(r.Applied)
	for _, name := range sortedKeys(r.Exchanges) {
		if _, knew := m.report[name]; !knew {
			c.emit(Output{Kind: SeenOutput, Exchange: name})
		}
	}
	changed := c.see(m, r.Exchanges)
	if r.Bye {
		c.lose(m, "it said good-bye")
		// Remembered for a while, lest a report that comes late revive it.
		c.setMember(r.From, &member{id: r.From, heard: c.now, bye: true})
		return
	}
	if c.lead == nil {
		return
	}
	m.collected = m.collected || m.promised == c.known.Ballot && !r.Local
	if c.leading() {
		c.lead.dirty = c.lead.dirty || r.Waking
		if progress {
			changed = append(changed, c.lead.open(m.id)...)
		}
		if !counted && c.countsOn(m) {
			changed = slices.AppendSeq(changed, maps.Keys(m.report))
		}
		c.decide(changed)
	}
}

// lose forgets a member; a leader shares out what it had.
func (c *Core) lose(m *member, why string) {
	c.setMember(m.id, nil)
	if c.lead == nil {
		return
	}
	c.log("proxy is gone", "proxy", m.id, "why", why)
	c.lead.drop(m.id)
	var changed []string
	for name, entry := range c.known.Exchanges {
		_, granted := entry.Grants[m.id]
		_, reported := m.report[name]
		delete(entry.Grants, m.id)
		if granted || reported {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	if !c.leading() {
		c.lead.lostAt = c.known.Version + 1
		return
	}
	c.changed()
	c.lead.lostAt = c.known.Version
	c.decide(changed)
}

// forgetSilent drops what a follower remembers of proxies it no longer hears. A
// leader has stricter rules, see expire.
func (c *Core) forgetSilent() {
	for _, id := range sortedKeys(c.members) {
		m := c.members[id]
		if m == c.self || c.now-m.heard < time.Minute {
			continue
		}
		if c.lead == nil || m.bye {
			c.setMember(id, nil)
		}
	}
}

// countsOn reports whether this leader goes by what a proxy says it holds: that
// can only become less, but for what this leader grants. One that was given up, and
// is heard again, may not yet have got what it was granted before: it counts once it
// goes by a state that gives it up.
func (c *Core) countsOn(m *member) bool {
	if c.lead == nil || m == c.self {
		return m == c.self
	}
	return !m.stranger && !m.bye && !m.local && m.promised == c.known.Ballot &&
		(m.floor == 0 || c.hasApplied(m, m.floor))
}

// nameProxies has the state say whom this leader counts on, if these are others than
// it says.
func (c *Core) nameProxies() {
	n, same := 0, true
	for _, m := range c.live() {
		if c.countsOn(m) {
			_, named := c.known.Proxies[m.id]
			n, same = n+1, same && named
		}
	}
	if !same || n != len(c.known.Proxies) {
		c.changed()
		c.known.Proxies = c.counted()
	}
}

// counted returns the proxies this leader counts on, with their last reports' numbers.
func (c *Core) counted() map[string]uint64 {
	counted := make(map[string]uint64, len(c.members))
	for _, m := range c.live() {
		if c.countsOn(m) {
			counted[m.id] = m.seq
		}
	}
	return counted
}

// peers returns the other proxies that count, in order.
func (c *Core) peers() []*member {
	return slices.DeleteFunc(slices.Clone(c.live()), func(m *member) bool { return m == c.self })
}

// live returns all proxies that count, in order, this one included. It is not to
// be modified.
func (c *Core) live() []*member {
	if c.order == nil {
		for _, id := range sortedKeys(c.members) {
			if m := c.members[id]; !m.bye {
				c.order = append(c.order, m)
			}
		}
	}
	return c.order
}

// setMember puts a member into the table, or takes what is there under its ID out.
func (c *Core) setMember(id string, m *member) {
	c.order = nil
	if m == nil {
		delete(c.members, id)
		return
	}
	c.members[id] = m
}
