// Code generated from spec/amqp091.txt by internal/gen; DO NOT EDIT.

package frames

// Decode implements Method.
func (m *QueueDeclare) Decode(args []byte) error {
	r := reader{b: args}
	m.Ticket = r.short()
	m.Queue = r.shortstr()
	bits := r.octet()
	m.Passive = bits&1 != 0
	m.Durable = bits&2 != 0
	m.Exclusive = bits&4 != 0
	m.AutoDelete = bits&8 != 0
	m.NoWait = bits&16 != 0
	m.Arguments = r.table()
	return r.done(QueueDeclareID)
}

// AppendArgs implements Method.
func (m *QueueDeclare) AppendArgs(dst []byte) []byte {
	dst = appendShort(dst, m.Ticket)
	dst = appendShortstr(dst, m.Queue)
	dst = append(dst, bit(m.Passive)|bit(m.Durable)<<1|bit(m.Exclusive)<<2|bit(m.AutoDelete)<<3|bit(m.NoWait)<<4)
	dst = appendTable(dst, m.Arguments)
	return dst
}

// Decode implements Method.
func (m *QueueDeclareOk) Decode(args []byte) error {
	r := reader{b: args}
	m.Queue = r.shortstr()
	m.MessageCount = r.long()
	m.ConsumerCount = r.long()
	return r.done(QueueDeclareOkID)
}

// AppendArgs implements Method.
func (m *QueueDeclareOk) AppendArgs(dst []byte) []byte {
	dst = appendShortstr(dst, m.Queue)
	dst = appendLong(dst, m.MessageCount)
	dst = appendLong(dst, m.ConsumerCount)
	return dst
}

// Decode implements Method.
func (m *QueueBind) Decode(args []byte) error {
	r := reader{b: args}
	m.Ticket = r.short()
	m.Queue = r.shortstr()
	m.Exchange = r.shortstr()
	m.RoutingKey = r.shortstr()
	m.NoWait = r.octet()&1 != 0
	m.Arguments = r.table()
	return r.done(QueueBindID)
}

// AppendArgs implements Method.
func (m *QueueBind) AppendArgs(dst []byte) []byte {
	dst = appendShort(dst, m.Ticket)
	dst = appendShortstr(dst, m.Queue)
	dst = appendShortstr(dst, m.Exchange)
	dst = appendShortstr(dst, m.RoutingKey)
	dst = append(dst, bit(m.NoWait))
	dst = appendTable(dst, m.Arguments)
	return dst
}

// Decode implements Method.
func (*QueueBindOk) Decode(args []byte) error {
	r := reader{b: args}
	return r.done(QueueBindOkID)
}

// AppendArgs implements Method.
func (*QueueBindOk) AppendArgs(dst []byte) []byte {
	return dst
}

// Decode implements Method.
func (m *QueuePurge) Decode(args []byte) error {
	r := reader{b: args}
	m.Ticket = r.short()
	m.Queue = r.shortstr()
	m.NoWait = r.octet()&1 != 0
	return r.done(QueuePurgeID)
}

// AppendArgs implements Method.
func (m *QueuePurge) AppendArgs(dst []byte) []byte {
	dst = appendShort(dst, m.Ticket)
	dst = appendShortstr(dst, m.Queue)
	dst = append(dst, bit(m.NoWait))
	return dst
}

// Decode implements Method.
func (m *QueuePurgeOk) Decode(args []byte) error {
	r := reader{b: args}
	m.MessageCount = r.long()
	return r.done(QueuePurgeOkID)
}

// AppendArgs implements Method.
func (m *QueuePurgeOk) AppendArgs(dst []byte) []byte {
	dst = appendLong(dst, m.MessageCount)
	return dst
}

// Decode implements Method.
func (m *QueueDelete) Decode(args []byte) error {
	r := reader{b: args}
	m.Ticket = r.short()
	m.Queue = r.shortstr()
	bits := r.octet()
	m.IfUnused = bits&1 != 0
	m.IfEmpty = bits&2 != 0
	m.NoWait = bits&4 != 0
	return r.done(QueueDeleteID)
}

// AppendArgs implements Method.
func (m *QueueDelete) AppendArgs(dst []byte) []byte {
	dst = appendShort(dst, m.Ticket)
	dst = appendShortstr(dst, m.Queue)
	dst = append(dst, bit(m.IfUnused)|bit(m.IfEmpty)<<1|bit(m.NoWait)<<2)
	return dst
}

// Decode implements Method.
func (m *QueueDeleteOk) Decode(args []byte) error {
	r := reader{b: args}
	m.MessageCount = r.long()
	return r.done(QueueDeleteOkID)
}

// AppendArgs implements Method.
func (m *QueueDeleteOk) AppendArgs(dst []byte) []byte {
	dst = appendLong(dst, m.MessageCount)
	return dst
}

// Decode implements Method.
func (m *QueueUnbind) Decode(args []byte) error {
	r := reader{b: args}
	m.Ticket = r.short()
	m.Queue = r.shortstr()
	m.Exchange = r.shortstr()
	m.RoutingKey = r.shortstr()
	m.Arguments = r.table()
	return r.done(QueueUnbindID)
}

// AppendArgs implements Method.
func (m *QueueUnbind) AppendArgs(dst []byte) []byte {
	dst = appendShort(dst, m.Ticket)
	dst = appendShortstr(dst, m.Queue)
	dst = appendShortstr(dst, m.Exchange)
	dst = appendShortstr(dst, m.RoutingKey)
	dst = appendTable(dst, m.Arguments)
	return dst
}

// Decode implements Method.
func (*QueueUnbindOk) Decode(args []byte) error {
	r := reader{b: args}
	return r.done(QueueUnbindOkID)
}

// AppendArgs implements Method.
func (*QueueUnbindOk) AppendArgs(dst []byte) []byte {
	return dst
}
