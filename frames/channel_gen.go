// Code generated from spec/amqp091.txt by internal/gen; DO NOT EDIT.

package frames

// ChannelOpen is channel.open (20, 10), sent by the client, answered by open-ok.
type ChannelOpen struct {
	Reserved1 string
}

// ID returns ChannelOpenID.
func (*ChannelOpen) ID() MethodID { return ChannelOpenID }

// ChannelOpenOk is channel.open-ok (20, 11), sent by the server.
type ChannelOpenOk struct {
	Reserved1 []byte
}

// ID returns ChannelOpenOkID.
func (*ChannelOpenOk) ID() MethodID { return ChannelOpenOkID }

// ChannelFlow is channel.flow (20, 20), sent by either side, answered by flow-ok.
type ChannelFlow struct {
	Active bool
}

// ID returns ChannelFlowID.
func (*ChannelFlow) ID() MethodID { return ChannelFlowID }

// ChannelFlowOk is channel.flow-ok (20, 21), sent by either side.
type ChannelFlowOk struct {
	Active bool
}

// ID returns ChannelFlowOkID.
func (*ChannelFlowOk) ID() MethodID { return ChannelFlowOkID }

// ChannelClose is channel.close (20, 40), sent by either side, answered by close-ok.
type ChannelClose struct {
	ReplyCode uint16
	ReplyText string
	ClassID   uint16
	MethodID  uint16
}

// ID returns ChannelCloseID.
func (*ChannelClose) ID() MethodID { return ChannelCloseID }

// ChannelCloseOk is channel.close-ok (20, 41), sent by either side.
type ChannelCloseOk struct {
}

// ID returns ChannelCloseOkID.
func (*ChannelCloseOk) ID() MethodID { return ChannelCloseOkID }

// AccessRequest is access.request (30, 10), sent by the client, answered by request-ok.
type AccessRequest struct {
	Realm     string
	Exclusive bool
	Passive   bool
	Active    bool
	Write     bool
	Read      bool
}

// ID returns AccessRequestID.
func (*AccessRequest) ID() MethodID { return AccessRequestID }

// AccessRequestOk is access.request-ok (30, 11), sent by the server.
type AccessRequestOk struct {
	Ticket uint16
}

// ID returns AccessRequestOkID.
func (*AccessRequestOk) ID() MethodID { return AccessRequestOkID }

// ConfirmSelect is confirm.select (85, 10), sent by the client, answered by select-ok.
type ConfirmSelect struct {
	NoWait bool
}

// ID returns ConfirmSelectID.
func (*ConfirmSelect) ID() MethodID { return ConfirmSelectID }

// ConfirmSelectOk is confirm.select-ok (85, 11), sent by the server.
type ConfirmSelectOk struct {
}

// ID returns ConfirmSelectOkID.
func (*ConfirmSelectOk) ID() MethodID { return ConfirmSelectOkID }

// TxSelect is tx.select (90, 10), sent by the client, answered by select-ok.
type TxSelect struct {
}

// ID returns TxSelectID.
func (*TxSelect) ID() MethodID { return TxSelectID }

// TxSelectOk is tx.select-ok (90, 11), sent by the server.
type TxSelectOk struct {
}

// ID returns TxSelectOkID.
func (*TxSelectOk) ID() MethodID { return TxSelectOkID }

// TxCommit is tx.commit (90, 20), sent by the client, answered by commit-ok.
type TxCommit struct {
}

// ID returns TxCommitID.
func (*TxCommit) ID() MethodID { return TxCommitID }

// TxCommitOk is tx.commit-ok (90, 21), sent by the server.
type TxCommitOk struct {
}

// ID returns TxCommitOkID.
func (*TxCommitOk) ID() MethodID { return TxCommitOkID }

// TxRollback is tx.rollback (90, 30), sent by the client, answered by rollback-ok.
type TxRollback struct {
}

// ID returns TxRollbackID.
func (*TxRollback) ID() MethodID { return TxRollbackID }

// TxRollbackOk is tx.rollback-ok (90, 31), sent by the server.
type TxRollbackOk struct {
}

// ID returns TxRollbackOkID.
func (*TxRollbackOk) ID() MethodID { return TxRollbackOkID }
