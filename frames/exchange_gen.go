// Code generated from spec/amqp091.txt by internal/gen; DO NOT EDIT.

package frames

// ExchangeDeclare is exchange.declare (40, 10), sent by the client, answered by declare-ok.
type ExchangeDeclare struct {
	Ticket     uint16
	Exchange   string
	Type       string
	Passive    bool
	Durable    bool
	AutoDelete bool
	Internal   bool
	NoWait     bool
	Arguments  Table
}

// ID returns ExchangeDeclareID.
func (*ExchangeDeclare) ID() MethodID { return ExchangeDeclareID }

// ExchangeDeclareOk is exchange.declare-ok (40, 11), sent by the server.
type ExchangeDeclareOk struct {
}

// ID returns ExchangeDeclareOkID.
func (*ExchangeDeclareOk) ID() MethodID { return ExchangeDeclareOkID }

// ExchangeDelete is exchange.delete (40, 20), sent by the client, answered by delete-ok.
type ExchangeDelete struct {
	Ticket   uint16
	Exchange string
	IfUnused bool
	NoWait   bool
}

// ID returns ExchangeDeleteID.
func (*ExchangeDelete) ID() MethodID { return ExchangeDeleteID }

// ExchangeDeleteOk is exchange.delete-ok (40, 21), sent by the server.
type ExchangeDeleteOk struct {
}

// ID returns ExchangeDeleteOkID.
func (*ExchangeDeleteOk) ID() MethodID { return ExchangeDeleteOkID }

// ExchangeBind is exchange.bind (40, 30), sent by the client, answered by bind-ok.
type ExchangeBind struct {
	Ticket      uint16
	Destination string
	Source      string
	RoutingKey  string
	NoWait      bool
	Arguments   Table
}

// ID returns ExchangeBindID.
func (*ExchangeBind) ID() MethodID { return ExchangeBindID }

// ExchangeBindOk is exchange.bind-ok (40, 31), sent by the server.
type ExchangeBindOk struct {
}

// ID returns ExchangeBindOkID.
func (*ExchangeBindOk) ID() MethodID { return ExchangeBindOkID }

// ExchangeUnbind is exchange.unbind (40, 40), sent by the client, answered by unbind-ok.
type ExchangeUnbind struct {
	Ticket      uint16
	Destination string
	Source      string
	RoutingKey  string
	NoWait      bool
	Arguments   Table
}

// ID returns ExchangeUnbindID.
func (*ExchangeUnbind) ID() MethodID { return ExchangeUnbindID }

// ExchangeUnbindOk is exchange.unbind-ok (40, 51), sent by the server.
type ExchangeUnbindOk struct {
}

// ID returns ExchangeUnbindOkID.
func (*ExchangeUnbindOk) ID() MethodID { return ExchangeUnbindOkID }
