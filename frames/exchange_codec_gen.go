// Code generated from spec/amqp091.txt by internal/gen; DO NOT EDIT.

package frames

// Decode implements Method.
func (m *ExchangeDeclare) Decode(args []byte) error {
	r := reader{b: args}
	m.Ticket = r.short()
	m.Exchange = r.shortstr()
	m.Type = r.shortstr()
	bits := r.octet()
	m.Passive = bits&1 != 0
	m.Durable = bits&2 != 0
	m.AutoDelete = bits&4 != 0
	m.Internal = bits&8 != 0
	m.NoWait = bits&16 != 0
	m.Arguments = r.table()
	return r.done(ExchangeDeclareID)
}

// AppendArgs implements Method.
func (m *ExchangeDeclare) AppendArgs(dst []byte) []byte {
	dst = appendShort(dst, m.Ticket)
	dst = appendShortstr(dst, m.Exchange)
	dst = appendShortstr(dst, m.Type)
	dst = append(dst, bit(m.Passive)|bit(m.Durable)<<1|bit(m.AutoDelete)<<2|bit(m.Internal)<<3|bit(m.NoWait)<<4)
	dst = appendTable(dst, m.Arguments)
	return dst
}

// Decode implements Method.
func (*ExchangeDeclareOk) Decode(args []byte) error {
	r := reader{b: args}
	return r.done(ExchangeDeclareOkID)
}

// AppendArgs implements Method.
func (*ExchangeDeclareOk) AppendArgs(dst []byte) []byte {
	return dst
}

// Decode implements Method.
func (m *ExchangeDelete) Decode(args []byte) error {
	r := reader{b: args}
	m.Ticket = r.short()
	m.Exchange = r.shortstr()
	bits := r.octet()
	m.IfUnused = bits&1 != 0
	m.NoWait = bits&2 != 0
	return r.done(ExchangeDeleteID)
}

// AppendArgs implements Method.
func (m *ExchangeDelete) AppendArgs(dst []byte) []byte {
	dst = appendShort(dst, m.Ticket)
	dst = appendShortstr(dst, m.Exchange)
	dst = append(dst, bit(m.IfUnused)|bit(m.NoWait)<<1)
	return dst
}

// Decode implements Method.
func (*ExchangeDeleteOk) Decode(args []byte) error {
	r := reader{b: args}
	return r.done(ExchangeDeleteOkID)
}

// AppendArgs implements Method.
func (*ExchangeDeleteOk) AppendArgs(dst []byte) []byte {
	return dst
}

// Decode implements Method.
func (m *ExchangeBind) Decode(args []byte) error {
	r := reader{b: args}
	m.Ticket = r.short()
	m.Destination = r.shortstr()
	m.Source = r.shortstr()
	m.RoutingKey = r.shortstr()
	m.NoWait = r.octet()&1 != 0
	m.Arguments = r.table()
	return r.done(ExchangeBindID)
}

// AppendArgs implements Method.
func (m *ExchangeBind) AppendArgs(dst []byte) []byte {
	dst = appendShort(dst, m.Ticket)
	dst = appendShortstr(dst, m.Destination)
	dst = appendShortstr(dst, m.Source)
	dst = appendShortstr(dst, m.RoutingKey)
	dst = append(dst, bit(m.NoWait))
	dst = appendTable(dst, m.Arguments)
	return dst
}

// Decode implements Method.
func (*ExchangeBindOk) Decode(args []byte) error {
	r := reader{b: args}
	return r.done(ExchangeBindOkID)
}

// AppendArgs implements Method.
func (*ExchangeBindOk) AppendArgs(dst []byte) []byte {
	return dst
}

// Decode implements Method.
func (m *ExchangeUnbind) Decode(args []byte) error {
	r := reader{b: args}
	m.Ticket = r.short()
	m.Destination = r.shortstr()
	m.Source = r.shortstr()
	m.RoutingKey = r.shortstr()
	m.NoWait = r.octet()&1 != 0
	m.Arguments = r.table()
	return r.done(ExchangeUnbindID)
}

// AppendArgs implements Method.
func (m *ExchangeUnbind) AppendArgs(dst []byte) []byte {
	dst = appendShort(dst, m.Ticket)
	dst = appendShortstr(dst, m.Destination)
	dst = appendShortstr(dst, m.Source)
	dst = appendShortstr(dst, m.RoutingKey)
	dst = append(dst, bit(m.NoWait))
	dst = appendTable(dst, m.Arguments)
	return dst
}

// Decode implements Method.
func (*ExchangeUnbindOk) Decode(args []byte) error {
	r := reader{b: args}
	return r.done(ExchangeUnbindOkID)
}

// AppendArgs implements Method.
func (*ExchangeUnbindOk) AppendArgs(dst []byte) []byte {
	return dst
}
