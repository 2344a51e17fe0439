// Code generated from spec/amqp091.txt by internal/gen; DO NOT EDIT.

package frames

// Decode implements Method.
func (m *ConnectionStart) Decode(args []byte) error {
	r := reader{b: args}
	m.VersionMajor = r.octet()
	m.VersionMinor = r.octet()
	m.ServerProperties = r.table()
	m.Mechanisms = r.longstr()
	m.Locales = r.longstr()
	return r.done(ConnectionStartID)
}

// AppendArgs implements Method.
func (m *ConnectionStart) AppendArgs(dst []byte) []byte {
	dst = appendOctet(dst, m.VersionMajor)
	dst = appendOctet(dst, m.VersionMinor)
	dst = appendTable(dst, m.ServerProperties)
	dst = appendLongstr(dst, m.Mechanisms)
	dst = appendLongstr(dst, m.Locales)
	return dst
}

// Decode implements Method.
func (m *ConnectionStartOk) Decode(args []byte) error {
	r := reader{b: args}
	m.ClientProperties = r.table()
	m.Mechanism = r.shortstr()
	m.Response = r.longstr()
	m.Locale = r.shortstr()
	return r.done(ConnectionStartOkID)
}

// AppendArgs implements Method.
func (m *ConnectionStartOk) AppendArgs(dst []byte) []byte {
	dst = appendTable(dst, m.ClientProperties)
	dst = appendShortstr(dst, m.Mechanism)
	dst = appendLongstr(dst, m.Response)
	dst = appendShortstr(dst, m.Locale)
	return dst
}

// Decode implements Method.
func (m *ConnectionSecure) Decode(args []byte) error {
	r := reader{b: args}
	m.Challenge = r.longstr()
	return r.done(ConnectionSecureID)
}

// AppendArgs implements Method.
func (m *ConnectionSecure) AppendArgs(dst []byte) []byte {
	dst = appendLongstr(dst, m.Challenge)
	return dst
}

// Decode implements Method.
func (m *ConnectionSecureOk) Decode(args []byte) error {
	r := reader{b: args}
	m.Response = r.longstr()
	return r.done(ConnectionSecureOkID)
}

// AppendArgs implements Method.
func (m *ConnectionSecureOk) AppendArgs(dst []byte) []byte {
	dst = appendLongstr(dst, m.Response)
	return dst
}

// Decode implements Method.
func (m *ConnectionTune) Decode(args []byte) error {
	r := reader{b: args}
	m.ChannelMax = r.short()
	m.FrameMax = r.long()
	m.Heartbeat = r.short()
	return r.done(ConnectionTuneID)
}

// AppendArgs implements Method.
func (m *ConnectionTune) AppendArgs(dst []byte) []byte {
	dst = appendShort(dst, m.ChannelMax)
	dst = appendLong(dst, m.FrameMax)
	dst = appendShort(dst, m.Heartbeat)
	return dst
}

// Decode implements Method.
func (m *ConnectionTuneOk) Decode(args []byte) error {
	r := reader{b: args}
	m.ChannelMax = r.short()
	m.FrameMax = r.long()
	m.Heartbeat = r.short()
	return r.done(ConnectionTuneOkID)
}

// AppendArgs implements Method.
func (m *ConnectionTuneOk) AppendArgs(dst []byte) []byte {
	dst = appendShort(dst, m.ChannelMax)
	dst = appendLong(dst, m.FrameMax)
	dst = appendShort(dst, m.Heartbeat)
	return dst
}

// Decode implements Method.
func (m *ConnectionOpen) Decode(args []byte) error {
	r := reader{b: args}
	m.VirtualHost = r.shortstr()
	m.Reserved1 = r.shortstr()
	m.Reserved2 = r.octet()&1 != 0
	return r.done(ConnectionOpenID)
}

// AppendArgs implements Method.
func (m *ConnectionOpen) AppendArgs(dst []byte) []byte {
	dst = appendShortstr(dst, m.VirtualHost)
	dst = appendShortstr(dst, m.Reserved1)
	dst = append(dst, bit(m.Reserved2))
	return dst
}

// Decode implements Method.
func (m *ConnectionOpenOk) Decode(args []byte) error {
	r := reader{b: args}
	m.Reserved1 = r.shortstr()
	return r.done(ConnectionOpenOkID)
}

// AppendArgs implements Method.
func (m *ConnectionOpenOk) AppendArgs(dst []byte) []byte {
	dst = appendShortstr(dst, m.Reserved1)
	return dst
}

// Decode implements Method.
func (m *ConnectionClose) Decode(args []byte) error {
	r := reader{b: args}
	m.ReplyCode = r.short()
	m.ReplyText = r.shortstr()
	m.ClassID = r.short()
	m.MethodID = r.short()
	return r.done(ConnectionCloseID)
}

// AppendArgs implements Method.
func (m *ConnectionClose) AppendArgs(dst []byte) []byte {
	dst = appendShort(dst, m.ReplyCode)
	dst = appendShortstr(dst, m.ReplyText)
	dst = appendShort(dst, m.ClassID)
	dst = appendShort(dst, m.MethodID)
	return dst
}

// Decode implements Method.
func (*ConnectionCloseOk) Decode(args []byte) error {
	r := reader{b: args}
	return r.done(ConnectionCloseOkID)
}

// AppendArgs implements Method.
func (*ConnectionCloseOk) AppendArgs(dst []byte) []byte {
	return dst
}

// Decode implements Method.
func (m *ConnectionBlocked) Decode(args []byte) error {
	r := reader{b: args}
	m.Reason = r.shortstr()
	return r.done(ConnectionBlockedID)
}

// AppendArgs implements Method.
func (m *ConnectionBlocked) AppendArgs(dst []byte) []byte {
	dst = appendShortstr(dst, m.Reason)
	return dst
}

// Decode implements Method.
func (*ConnectionUnblocked) Decode(args []byte) error {
	r := reader{b: args}
	return r.done(ConnectionUnblockedID)
}

// AppendArgs implements Method.
func (*ConnectionUnblocked) AppendArgs(dst []byte) []byte {
	return dst
}

// Decode implements Method.
func (m *ConnectionUpdateSecret) Decode(args []byte) error {
	r := reader{b: args}
	m.NewSecret = r.longstr()
	m.Reason = r.shortstr()
	return r.done(ConnectionUpdateSecretID)
}

// AppendArgs implements Method.
func (m *ConnectionUpdateSecret) AppendArgs(dst []byte) []byte {
	dst = appendLongstr(dst, m.NewSecret)
	dst = appendShortstr(dst, m.Reason)
	return dst
}

// Decode implements Method.
func (*ConnectionUpdateSecretOk) Decode(args []byte) error {
	r := reader{b: args}
	return r.done(ConnectionUpdateSecretOkID)
}

// AppendArgs implements Method.
func (*ConnectionUpdateSecretOk) AppendArgs(dst []byte) []byte {
	return dst
}
