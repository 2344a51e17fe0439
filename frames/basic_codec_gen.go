// Code generated from spec/amqp091.txt by internal/gen; DO NOT EDIT.

package frames

// Decode implements Method.
func (m *BasicQos) Decode(args []byte) error {
	r := reader{b: args}
	m.PrefetchSize = r.long()
	m.PrefetchCount = r.short()
	m.Global = r.octet()&1 != 0
	return r.done(BasicQosID)
}

// AppendArgs implements Method.
func (m *BasicQos) AppendArgs(dst []byte) []byte {
	dst = appendLong(dst, m.PrefetchSize)
	dst = appendShort(dst, m.PrefetchCount)
	dst = append(dst, bit(m.Global))
	return dst
}

// Decode implements Method.
func (*BasicQosOk) Decode(args []byte) error {
	r := reader{b: args}
	return r.done(BasicQosOkID)
}

// AppendArgs implements Method.
func (*BasicQosOk) AppendArgs(dst []byte) []byte {
	return dst
}

// Decode implements Method.
func (m *BasicConsume) Decode(args []byte) error {
	r := reader{b: args}
	m.Ticket = r.short()
	m.Queue = r.shortstr()
	m.ConsumerTag = r.shortstr()
	bits := r.octet()
	m.NoLocal = bits&1 != 0
	m.NoAck = bits&2 != 0
	m.Exclusive = bits&4 != 0
	m.NoWait = bits&8 != 0
	m.Arguments = r.table()
	return r.done(BasicConsumeID)
}

// AppendArgs implements Method.
func (m *BasicConsume) AppendArgs(dst []byte) []byte {
	dst = appendShort(dst, m.Ticket)
	dst = appendShortstr(dst, m.Queue)
	dst = appendShortstr(dst, m.ConsumerTag)
	dst = append(dst, bit(m.NoLocal)|bit(m.NoAck)<<1|bit(m.Exclusive)<<2|bit(m.NoWait)<<3)
	dst = appendTable(dst, m.Arguments)
	return dst
}

// Decode implements Method.
func (m *BasicConsumeOk) Decode(args []byte) error {
	r := reader{b: args}
	m.ConsumerTag = r.shortstr()
	return r.done(BasicConsumeOkID)
}

// AppendArgs implements Method.
func (m *BasicConsumeOk) AppendArgs(dst []byte) []byte {
	dst = appendShortstr(dst, m.ConsumerTag)
	return dst
}

// Decode implements Method.
func (m *BasicCancel) Decode(args []byte) error {
	r := reader{b: args}
	m.ConsumerTag = r.shortstr()
	m.NoWait = r.octet()&1 != 0
	return r.done(BasicCancelID)
}

// AppendArgs implements Method.
func (m *BasicCancel) AppendArgs(dst []byte) []byte {
	dst = appendShortstr(dst, m.ConsumerTag)
	dst = append(dst, bit(m.NoWait))
	return dst
}

// Decode implements Method.
func (m *BasicCancelOk) Decode(args []byte) error {
	r := reader{b: args}
	m.ConsumerTag = r.shortstr()
	return r.done(BasicCancelOkID)
}

// AppendArgs implements Method.
func (m *BasicCancelOk) AppendArgs(dst []byte) []byte {
	dst = appendShortstr(dst, m.ConsumerTag)
	return dst
}

// Decode implements Method.
func (m *BasicPublish) Decode(args []byte) error {
	r := reader{b: args}
	m.Ticket = r.short()
	m.Exchange = r.shortstr()
	m.RoutingKey = r.shortstr()
	bits := r.octet()
	m.Mandatory = bits&1 != 0
	m.Immediate = bits&2 != 0
	return r.done(BasicPublishID)
}

// AppendArgs implements Method.
func (m *BasicPublish) AppendArgs(dst []byte) []byte {
	dst = appendShort(dst, m.Ticket)
	dst = appendShortstr(dst, m.Exchange)
	dst = appendShortstr(dst, m.RoutingKey)
	dst = append(dst, bit(m.Mandatory)|bit(m.Immediate)<<1)
	return dst
}

// Decode implements Method.
func (m *BasicReturn) Decode(args []byte) error {
	r := reader{b: args}
	m.ReplyCode = r.short()
	m.ReplyText = r.shortstr()
	m.Exchange = r.shortstr()
	m.RoutingKey = r.shortstr()
	return r.done(BasicReturnID)
}

// AppendArgs implements Method.
func (m *BasicReturn) AppendArgs(dst []byte) []byte {
	dst = appendShort(dst, m.ReplyCode)
	dst = appendShortstr(dst, m.ReplyText)
	dst = appendShortstr(dst, m.Exchange)
	dst = appendShortstr(dst, m.RoutingKey)
	return dst
}

// Decode implements Method.
func (m *BasicDeliver) Decode(args []byte) error {
	r := reader{b: args}
	m.ConsumerTag = r.shortstr()
	m.DeliveryTag = r.longlong()
	m.Redelivered = r.octet()&1 != 0
	m.Exchange = r.shortstr()
	m.RoutingKey = r.shortstr()
	return r.done(BasicDeliverID)
}

// AppendArgs implements Method.
func (m *BasicDeliver) AppendArgs(dst []byte) []byte {
	dst = appendShortstr(dst, m.ConsumerTag)
	dst = appendLonglong(dst, m.DeliveryTag)
	dst = append(dst, bit(m.Redelivered))
	dst = appendShortstr(dst, m.Exchange)
	dst = appendShortstr(dst, m.RoutingKey)
	return dst
}

// Decode implements Method.
func (m *BasicGet) Decode(args []byte) error {
	r := reader{b: args}
	m.Ticket = r.short()
	m.Queue = r.shortstr()
	m.NoAck = r.octet()&1 != 0
	return r.done(BasicGetID)
}

// AppendArgs implements Method.
func (m *BasicGet) AppendArgs(dst []byte) []byte {
	dst = appendShort(dst, m.Ticket)
	dst = appendShortstr(dst, m.Queue)
	dst = append(dst, bit(m.NoAck))
	return dst
}

// Decode implements Method.
func (m *BasicGetOk) Decode(args []byte) error {
	r := reader{b: args}
	m.DeliveryTag = r.longlong()
	m.Redelivered = r.octet()&1 != 0
	m.Exchange = r.shortstr()
	m.RoutingKey = r.shortstr()
	m.MessageCount = r.long()
	return r.done(BasicGetOkID)
}

// AppendArgs implements Method.
func (m *BasicGetOk) AppendArgs(dst []byte) []byte {
	dst = appendLonglong(dst, m.DeliveryTag)
	dst = append(dst, bit(m.Redelivered))
	dst = appendShortstr(dst, m.Exchange)
	dst = appendShortstr(dst, m.RoutingKey)
	dst = appendLong(dst, m.MessageCount)
	return dst
}

// Decode implements Method.
func (m *BasicGetEmpty) Decode(args []byte) error {
	r := reader{b: args}
	m.Reserved1 = r.shortstr()
	return r.done(BasicGetEmptyID)
}

// AppendArgs implements Method.
func (m *BasicGetEmpty) AppendArgs(dst []byte) []byte {
	dst = appendShortstr(dst, m.Reserved1)
	return dst
}

// Decode implements Method.
func (m *BasicAck) Decode(args []byte) error {
	r := reader{b: args}
	m.DeliveryTag = r.longlong()
	m.Multiple = r.octet()&1 != 0
	return r.done(BasicAckID)
}

// AppendArgs implements Method.
func (m *BasicAck) AppendArgs(dst []byte) []byte {
	dst = appendLonglong(dst, m.DeliveryTag)
	dst = append(dst, bit(m.Multiple))
	return dst
}

// Decode implements Method.
func (m *BasicReject) Decode(args []byte) error {
	r := reader{b: args}
	m.DeliveryTag = r.longlong()
	m.Requeue = r.octet()&1 != 0
	return r.done(BasicRejectID)
}

// AppendArgs implements Method.
func (m *BasicReject) AppendArgs(dst []byte) []byte {
	dst = appendLonglong(dst, m.DeliveryTag)
	dst = append(dst, bit(m.Requeue))
	return dst
}

// Decode implements Method.
func (m *BasicRecoverAsync) Decode(args []byte) error {
	r := reader{b: args}
	m.Requeue = r.octet()&1 != 0
	return r.done(BasicRecoverAsyncID)
}

// AppendArgs implements Method.
func (m *BasicRecoverAsync) AppendArgs(dst []byte) []byte {
	dst = append(dst, bit(m.Requeue))
	return dst
}

// Decode implements Method.
func (m *BasicRecover) Decode(args []byte) error {
	r := reader{b: args}
	m.Requeue = r.octet()&1 != 0
	return r.done(BasicRecoverID)
}

// AppendArgs implements Method.
func (m *BasicRecover) AppendArgs(dst []byte) []byte {
	dst = append(dst, bit(m.Requeue))
	return dst
}

// Decode implements Method.
func (*BasicRecoverOk) Decode(args []byte) error {
	r := reader{b: args}
	return r.done(BasicRecoverOkID)
}

// AppendArgs implements Method.
func (*BasicRecoverOk) AppendArgs(dst []byte) []byte {
	return dst
}

// Decode implements Method.
func (m *BasicNack) Decode(args []byte) error {
	r := reader{b: args}
	m.DeliveryTag = r.longlong()
	bits := r.octet()
	m.Multiple = bits&1 != 0
	m.Requeue = bits&2 != 0
	return r.done(BasicNackID)
}

// AppendArgs implements Method.
func (m *BasicNack) AppendArgs(dst []byte) []byte {
	dst = appendLonglong(dst, m.DeliveryTag)
	dst = append(dst, bit(m.Multiple)|bit(m.Requeue)<<1)
	return dst
}
