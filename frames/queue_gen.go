// Code generated from spec/amqp091.txt by internal/gen; DO NOT EDIT.

package frames

// QueueDeclare is queue.declare (50, 10), sent by the client, answered by declare-ok.
type QueueDeclare struct {
	Ticket     uint16
	Queue      string
	Passive    bool
	Durable    bool
	Exclusive  bool
	AutoDelete bool
	NoWait     bool
	Arguments  Table
}

// ID returns QueueDeclareID.
func (*QueueDeclare) ID() MethodID { return QueueDeclareID }

// QueueDeclareOk is queue.declare-ok (50, 11), sent by the server.
type QueueDeclareOk struct {
	Queue         string
	MessageCount  uint32
	ConsumerCount uint32
}

// ID returns QueueDeclareOkID.
func (*QueueDeclareOk) ID() MethodID { return QueueDeclareOkID }

// QueueBind is queue.bind (50, 20), sent by the client, answered by bind-ok.
type QueueBind struct {
	Ticket     uint16
	Queue      string
	Exchange   string
	RoutingKey string
	NoWait     bool
	Arguments  Table
}

// ID returns QueueBindID.
func (*QueueBind) ID() MethodID { return QueueBindID }

// QueueBindOk is queue.bind-ok (50, 21), sent by the server.
type QueueBindOk struct {
}

// ID returns QueueBindOkID.
func (*QueueBindOk) ID() MethodID { return QueueBindOkID }

// QueuePurge is queue.purge (50, 30), sent by the client, answered by purge-ok.
type QueuePurge struct {
	Ticket uint16
	Queue  string
	NoWait bool
}

// ID returns QueuePurgeID.
func (*QueuePurge) ID() MethodID { return QueuePurgeID }

// QueuePurgeOk is queue.purge-ok (50, 31), sent by the server.
type QueuePurgeOk struct {
	MessageCount uint32
}

// ID returns QueuePurgeOkID.
func (*QueuePurgeOk) ID() MethodID { return QueuePurgeOkID }

// QueueDelete is queue.delete (50, 40), sent by the client, answered by delete-ok.
type QueueDelete struct {
	Ticket   uint16
	Queue    string
	IfUnused bool
	IfEmpty  bool
	NoWait   bool
}

// ID returns QueueDeleteID.
func (*QueueDelete) ID() MethodID { return QueueDeleteID }

// QueueDeleteOk is queue.delete-ok (50, 41), sent by the server.
type QueueDeleteOk struct {
	MessageCount uint32
}

// ID returns QueueDeleteOkID.
func (*QueueDeleteOk) ID() MethodID { return QueueDeleteOkID }

// QueueUnbind is queue.unbind (50, 50), sent by the client, answered by unbind-ok.
type QueueUnbind struct {
	Ticket     uint16
	Queue      string
	Exchange   string
	RoutingKey string
	Arguments  Table
}

// ID returns QueueUnbindID.
func (*QueueUnbind) ID() MethodID { return QueueUnbindID }

// QueueUnbindOk is queue.unbind-ok (50, 51), sent by the server.
type QueueUnbindOk struct {
}

// ID returns QueueUnbindOkID.
func (*QueueUnbindOk) ID() MethodID { return QueueUnbindOkID }
