// Code generated from spec/amqp091.txt by internal/gen; DO NOT EDIT.

package frames

// Decode implements Method.
func (m *ChannelOpen) Decode(args []byte) error {
	r := reader{b: args}
	m.Reserved1 = r.shortstr()
	return r.done(ChannelOpenID)
}

// AppendArgs implements Method.
func (m *ChannelOpen) AppendArgs(dst []byte) []byte {
	dst = appendShortstr(dst, m.Reserved1)
	return dst
}

// Decode implements Method.
func (m *ChannelOpenOk) Decode(args []byte) error {
	r := reader{b: args}
	m.Reserved1 = r.longstr()
	return r.done(ChannelOpenOkID)
}

// AppendArgs implements Method.
func (m *ChannelOpenOk) AppendArgs(dst []byte) []byte {
	dst = appendLongstr(dst, m.Reserved1)
	return dst
}

// Decode implements Method.
func (m *ChannelFlow) Decode(args []byte) error {
	r := reader{b: args}
	m.Active = r.octet()&1 != 0
	return r.done(ChannelFlowID)
}

// AppendArgs implements Method.
func (m *ChannelFlow) AppendArgs(dst []byte) []byte {
	dst = append(dst, bit(m.Active))
	return dst
}

// Decode implements Method.
func (m *ChannelFlowOk) Decode(args []byte) error {
	r := reader{b: args}
	m.Active = r.octet()&1 != 0
	return r.done(ChannelFlowOkID)
}

// AppendArgs implements Method.
func (m *ChannelFlowOk) AppendArgs(dst []byte) []byte {
	dst = append(dst, bit(m.Active))
	return dst
}

// Decode implements Method.
func (m *ChannelClose) Decode(args []byte) error {
	r := reader{b: args}
	m.ReplyCode = r.short()
	m.ReplyText = r.shortstr()
	m.ClassID = r.short()
	m.MethodID = r.short()
	return r.done(ChannelCloseID)
}

// AppendArgs implements Method.
func (m *ChannelClose) AppendArgs(dst []byte) []byte {
	dst = appendShort(dst, m.ReplyCode)
	dst = appendShortstr(dst, m.ReplyText)
	dst = appendShort(dst, m.ClassID)
	dst = appendShort(dst, m.MethodID)
	return dst
}

// Decode implements Method.
func (*ChannelCloseOk) Decode(args []byte) error {
	r := reader{b: args}
	return r.done(ChannelCloseOkID)
}

// AppendArgs implements Method.
func (*ChannelCloseOk) AppendArgs(dst []byte) []byte {
	return dst
}

// Decode implements Method.
func (m *AccessRequest) Decode(args []byte) error {
	r := reader{b: args}
	m.Realm = r.shortstr()
	bits := r.octet()
	m.Exclusive = bits&1 != 0
	m.Passive = bits&2 != 0
	m.Active = bits&4 != 0
	m.Write = bits&8 != 0
	m.Read = bits&16 != 0
	return r.done(AccessRequestID)
}

// AppendArgs implements Method.
func (m *AccessRequest) AppendArgs(dst []byte) []byte {
	dst = appendShortstr(dst, m.Realm)
	dst = append(dst, bit(m.Exclusive)|bit(m.Passive)<<1|bit(m.Active)<<2|bit(m.Write)<<3|bit(m.Read)<<4)
	return dst
}

// Decode implements Method.
func (m *AccessRequestOk) Decode(args []byte) error {
	r := reader{b: args}
	m.Ticket = r.short()
	return r.done(AccessRequestOkID)
}

// AppendArgs implements Method.
func (m *AccessRequestOk) AppendArgs(dst []byte) []byte {
	dst = appendShort(dst, m.Ticket)
	return dst
}

// Decode implements Method.
func (m *ConfirmSelect) Decode(args []byte) error {
	r := reader{b: args}
	m.NoWait = r.octet()&1 != 0
	return r.done(ConfirmSelectID)
}

// AppendArgs implements Method.
func (m *ConfirmSelect) AppendArgs(dst []byte) []byte {
	dst = append(dst, bit(m.NoWait))
	return dst
}

// Decode implements Method.
func (*ConfirmSelectOk) Decode(args []byte) error {
	r := reader{b: args}
	return r.done(ConfirmSelectOkID)
}

// AppendArgs implements Method.
func (*ConfirmSelectOk) AppendArgs(dst []byte) []byte {
	return dst
}

// Decode implements Method.
func (*TxSelect) Decode(args []byte) error {
	r := reader{b: args}
	return r.done(TxSelectID)
}

// AppendArgs implements Method.
func (*TxSelect) AppendArgs(dst []byte) []byte {
	return dst
}

// Decode implements Method.
func (*TxSelectOk) Decode(args []byte) error {
	r := reader{b: args}
	return r.done(TxSelectOkID)
}

// AppendArgs implements Method.
func (*TxSelectOk) AppendArgs(dst []byte) []byte {
	return dst
}

// Decode implements Method.
func (*TxCommit) Decode(args []byte) error {
	r := reader{b: args}
	return r.done(TxCommitID)
}

// AppendArgs implements Method.
func (*TxCommit) AppendArgs(dst []byte) []byte {
	return dst
}

// Decode implements Method.
func (*TxCommitOk) Decode(args []byte) error {
	r := reader{b: args}
	return r.done(TxCommitOkID)
}

// AppendArgs implements Method.
func (*TxCommitOk) AppendArgs(dst []byte) []byte {
	return dst
}

// Decode implements Method.
func (*TxRollback) Decode(args []byte) error {
	r := reader{b: args}
	return r.done(TxRollbackID)
}

// AppendArgs implements Method.
func (*TxRollback) AppendArgs(dst []byte) []byte {
	return dst
}

// Decode implements Method.
func (*TxRollbackOk) Decode(args []byte) error {
	r := reader{b: args}
	return r.done(TxRollbackOkID)
}

// AppendArgs implements Method.
func (*TxRollbackOk) AppendArgs(dst []byte) []byte {
	return dst
}
