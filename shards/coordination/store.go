package coordination

import "time"

// layoutOf returns what an exchange's layout is or is about to be, nil if nothing
// was decided.
func (c *Core) layoutOf(exchange string) *Layout {
	s := &c.lead.store
	if l := s.pending[exchange]; l != nil {
		return l
	}
	if l := s.layouts[exchange]; l != nil {
		return l
	}
	if e := c.known.Exchanges[exchange]; e != nil {
		return &e.Layout
	}
	return nil
}

// settled reports whether an exchange's layout is stored and told.
func (c *Core) settled(exchange string) bool {
	s := &c.lead.store
	return s.pending[exchange] == nil && s.layouts[exchange] == nil
}

// relayout has an exchange's layout replaced, once that is stored: a leader that
// comes after must know of every generation that anybody goes by.
func (c *Core) relayout(exchange string, l Layout) {
	c.lead.store.pending[exchange] = &l
}

// flushStore stores what is pending, unless a store is under way; alone, it takes
// effect at once.
func (c *Core) flushStore() {
	s := &c.lead.store
	if c.alone {
		s.layouts, s.pending = s.pending, make(map[string]*Layout)
		c.commit()
		return
	}
	if s.id != 0 || c.now < s.retry {
		return
	}
	if c.lead.phase != storing && len(s.pending) == 0 && (s.layouts == nil || s.stored) {
		return
	}
	c.startStore()
}

// startStore stores the present state, with what is pending in it.
func (c *Core) startStore() {
	s := &c.lead.store
	if s.layouts == nil {
		s.layouts = make(map[string]*Layout)
	}
	for name, l := range s.pending {
		s.layouts[name] = l
	}
	s.pending = make(map[string]*Layout)
	if len(s.layouts) > 0 {
		c.known.Version++
	}
	state := c.known.clone()
	for name, l := range s.layouts {
		if state.Exchanges[name] == nil {
			state.Exchanges[name] = &Entry{}
		}
		state.Exchanges[name].Layout = *l
	}
	s.stored = false
	s.id, s.at, s.version = c.nextID(), c.now, c.known.Version
	c.emit(Output{Kind: StoreOutput, ID: s.id, Body: encodeState(state)})
}

// Stored says what came of a StoreOutput.
func (c *Core) Stored(now time.Duration, id uint64, err error) {
	c.at(now)
	if c.lead == nil || c.lead.store.id != id {
		return
	}
	s := &c.lead.store
	s.id = 0
	if err != nil {
		s.version = 0
		if s.retry == 0 {
			c.log("cannot store the state", "error", err)
		}
		s.retry = now + c.t.Announce/2
		return
	}
	s.retry = 0
	if c.lead.phase == storing {
		s.layouts = nil
		c.promise(c.known.Ballot)
		c.collect()
		return
	}
	if s.stored = true; !c.leading() {
		return // begin puts them into effect: until then it knows too little to say anything
	}
	c.commit()
	c.sendState(false)
}

// commit puts stored layouts into effect.
func (c *Core) commit() {
	for _, name := range c.relaid() {
		c.balance(name)
	}
}

// relaid takes stored layouts over and returns their exchanges.
func (c *Core) relaid() []string {
	s := &c.lead.store
	names := sortedKeys(s.layouts)
	if len(names) == 0 {
		s.layouts = nil
		return nil
	}
	c.changed()
	for _, name := range names {
		e := c.known.Exchanges[name]
		if e == nil {
			e = &Entry{Grants: make(Grants)}
			c.known.Exchanges[name] = e
		}
		e.Layout = *s.layouts[name]
		c.work(name).layoutChanged(e, c.known.Version)
	}
	s.layouts = nil
	return names
}

// tickStore tries again what failed, and stores assignments now and then: they
// can be told from reports, so a store each time would only cost.
func (c *Core) tickStore() {
	s := &c.lead.store
	c.flushStore()
	if c.leading() && s.id == 0 && s.version != c.known.Version &&
		c.now-s.at >= c.t.Announce && c.now >= s.retry {
		c.startStore()
	}
}
