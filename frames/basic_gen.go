// Code generated from spec/amqp091.txt by internal/gen; DO NOT EDIT.

package frames

// BasicQos is basic.qos (60, 10), sent by the client, answered by qos-ok.
type BasicQos struct {
	PrefetchSize  uint32
	PrefetchCount uint16
	Global        bool
}

// ID returns BasicQosID.
func (*BasicQos) ID() MethodID { return BasicQosID }

// BasicQosOk is basic.qos-ok (60, 11), sent by the server.
type BasicQosOk struct {
}

// ID returns BasicQosOkID.
func (*BasicQosOk) ID() MethodID { return BasicQosOkID }

// BasicConsume is basic.consume (60, 20), sent by the client, answered by consume-ok.
type BasicConsume struct {
	Ticket      uint16
	Queue       string
	ConsumerTag string
	NoLocal     bool
	NoAck       bool
	Exclusive   bool
	NoWait      bool
	Arguments   Table
}

// ID returns BasicConsumeID.
func (*BasicConsume) ID() MethodID { return BasicConsumeID }

// BasicConsumeOk is basic.consume-ok (60, 21), sent by the server.
type BasicConsumeOk struct {
	ConsumerTag string
}

// ID returns BasicConsumeOkID.
func (*BasicConsumeOk) ID() MethodID { return BasicConsumeOkID }

// BasicCancel is basic.cancel (60, 30), sent by either side, answered by cancel-ok.
type BasicCancel struct {
	ConsumerTag string
	NoWait      bool
}

// ID returns BasicCancelID.
func (*BasicCancel) ID() MethodID { return BasicCancelID }

// BasicCancelOk is basic.cancel-ok (60, 31), sent by either side.
type BasicCancelOk struct {
	ConsumerTag string
}

// ID returns BasicCancelOkID.
func (*BasicCancelOk) ID() MethodID { return BasicCancelOkID }

// BasicPublish is basic.publish (60, 40), sent by the client, followed by content.
type BasicPublish struct {
	Ticket     uint16
	Exchange   string
	RoutingKey string
	Mandatory  bool
	Immediate  bool
}

// ID returns BasicPublishID.
func (*BasicPublish) ID() MethodID { return BasicPublishID }

// BasicReturn is basic.return (60, 50), sent by the server, followed by content.
type BasicReturn struct {
	ReplyCode  uint16
	ReplyText  string
	Exchange   string
	RoutingKey string
}

// ID returns BasicReturnID.
func (*BasicReturn) ID() MethodID { return BasicReturnID }

// BasicDeliver is basic.deliver (60, 60), sent by the server, followed by content.
type BasicDeliver struct {
	ConsumerTag string
	DeliveryTag uint64
	Redelivered bool
	Exchange    string
	RoutingKey  string
}

// ID returns BasicDeliverID.
func (*BasicDeliver) ID() MethodID { return BasicDeliverID }

// BasicGet is basic.get (60, 70), sent by the client, answered by get-ok or get-empty.
type BasicGet struct {
	Ticket uint16
	Queue  string
	NoAck  bool
}

// ID returns BasicGetID.
func (*BasicGet) ID() MethodID { return BasicGetID }

// BasicGetOk is basic.get-ok (60, 71), sent by the server, followed by content.
type BasicGetOk struct {
	DeliveryTag  uint64
	Redelivered  bool
	Exchange     string
	RoutingKey   string
	MessageCount uint32
}

// ID returns BasicGetOkID.
func (*BasicGetOk) ID() MethodID { return BasicGetOkID }

// BasicGetEmpty is basic.get-empty (60, 72), sent by the server.
type BasicGetEmpty struct {
	Reserved1 string
}

// ID returns BasicGetEmptyID.
func (*BasicGetEmpty) ID() MethodID { return BasicGetEmptyID }

// BasicAck is basic.ack (60, 80), sent by either side.
type BasicAck struct {
	DeliveryTag uint64
	Multiple    bool
}

// ID returns BasicAckID.
func (*BasicAck) ID() MethodID { return BasicAckID }

// BasicReject is basic.reject (60, 90), sent by the client.
type BasicReject struct {
	DeliveryTag uint64
	Requeue     bool
}

// ID returns BasicRejectID.
func (*BasicReject) ID() MethodID { return BasicRejectID }

// BasicRecoverAsync is basic.recover-async (60, 100), sent by the client.
type BasicRecoverAsync struct {
	Requeue bool
}

// ID returns BasicRecoverAsyncID.
func (*BasicRecoverAsync) ID() MethodID { return BasicRecoverAsyncID }

// BasicRecover is basic.recover (60, 110), sent by the client, answered by recover-ok.
type BasicRecover struct {
	Requeue bool
}

// ID returns BasicRecoverID.
func (*BasicRecover) ID() MethodID { return BasicRecoverID }

// BasicRecoverOk is basic.recover-ok (60, 111), sent by the server.
type BasicRecoverOk struct {
}

// ID returns BasicRecoverOkID.
func (*BasicRecoverOk) ID() MethodID { return BasicRecoverOkID }

// BasicNack is basic.nack (60, 120), sent by either side.
type BasicNack struct {
	DeliveryTag uint64
	Multiple    bool
	Requeue     bool
}

// ID returns BasicNackID.
func (*BasicNack) ID() MethodID { return BasicNackID }
