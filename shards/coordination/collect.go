package coordination

import "time"

// collect begins to wait for every proxy's report. Reports that promise this
// ballot count: what a proxy holds by an earlier one can then only become less.
func (c *Core) collect() {
	l := c.lead
	l.phase, l.since, l.echoAt, l.startSeq = collecting, c.now, c.now, c.seq+1
	for _, m := range c.peers() {
		m.collected, m.echoes, m.heardAfter = false, 0, c.seq
	}
	c.sendBeat()
	c.emit(Output{Kind: SendOutput, Slot: WhoKind, Body: Who(c.id)})
}

// tickCollect begins to decide when all that count have reported.
func (c *Core) tickCollect() {
	l := c.lead
	if l.suspended || l.echoSeq < l.startSeq || c.now-l.since < c.t.Newcomers {
		return
	}
	for _, m := range c.peers() {
		if !m.collected {
			return
		}
	}
	l.phase = deciding
	c.begin()
}

// begin takes over: a new ballot starts with what proxies hold by their reports;
// former grants only say what should stay where it is.
func (c *Core) begin() {
	names := make(map[string]struct{})
	for name, entry := range c.known.Exchanges {
		names[name] = struct{}{}
		if c.lead.works[name] == nil {
			c.work(name).inherit(entry.Grants)
			entry.Grants = make(Grants)
		}
	}
	for _, m := range c.live() {
		for name := range m.report {
			names[name] = struct{}{}
		}
	}
	c.local.leave()
	c.waking = waking{}
	c.changed()
	c.lead.lostAt = c.known.Version // who comes from now on may have been given up by anybody
	if c.lead.store.stored {
		for _, name := range c.relaid() {
			names[name] = struct{}{}
		}
	}
	c.decide(sortedKeys(names))
}

// echoed: a beat of this leader has come back.
func (c *Core) echoed(seq uint64) {
	l := c.lead
	if l == nil || l.phase == storing || seq <= l.echoSeq || seq > c.seq {
		return // c.seq: it is none that was sent
	}
	l.echoSeq, l.echoAt = seq, c.now
	for _, m := range c.peers() {
		if seq > m.heardAfter {
			m.echoes++
		}
	}
	if l.suspended {
		l.suspended = false
		c.log("own messages come back, collecting reports")
		c.collect()
	}
}

// expire gives up proxies that are silent although the leader's own messages come
// back.
func (c *Core) expire() {
	l := c.lead
	alone := true // nobody but what a former leader has named
	for _, m := range c.peers() {
		alone = alone && m.stranger
	}
	for _, m := range c.peers() {
		silent := c.now - m.heard
		suspect := silent >= c.t.Suspect
		if l.phase == collecting && alone {
			suspect = c.now-l.since >= c.t.Newcomers
		}
		switch {
		case silent >= c.t.Silent && c.now-l.since >= c.t.Silent && m.echoes >= 3:
			c.lose(m, "silent")
		case suspect && m.absent && m.echoes > 0:
			c.lose(m, "not connected")
		case (suspect || m.stranger) && (m.asked == 0 || c.now-m.asked >= c.t.Announce/2):
			m.asked = c.now
			c.emit(Output{Kind: AliveOutput, Proxy: m.id})
		}
	}
}

// Alive is the broker's answer to whether a proxy is connected.
func (c *Core) Alive(now time.Duration, proxy string, connected bool, err error) {
	c.at(now)
	if m := c.members[proxy]; m != nil && m.heard < m.asked {
		m.absent = err == nil && !connected
	}
}
