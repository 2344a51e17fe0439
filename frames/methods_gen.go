// Code generated from spec/amqp091.txt by internal/gen; DO NOT EDIT.

package frames

// Method ids: class in the upper, method in the lower 16 bits.
const (
	ConnectionStartID          MethodID = 10<<16 | 10
	ConnectionStartOkID        MethodID = 10<<16 | 11
	ConnectionSecureID         MethodID = 10<<16 | 20
	ConnectionSecureOkID       MethodID = 10<<16 | 21
	ConnectionTuneID           MethodID = 10<<16 | 30
	ConnectionTuneOkID         MethodID = 10<<16 | 31
	ConnectionOpenID           MethodID = 10<<16 | 40
	ConnectionOpenOkID         MethodID = 10<<16 | 41
	ConnectionCloseID          MethodID = 10<<16 | 50
	ConnectionCloseOkID        MethodID = 10<<16 | 51
	ConnectionBlockedID        MethodID = 10<<16 | 60
	ConnectionUnblockedID      MethodID = 10<<16 | 61
	ConnectionUpdateSecretID   MethodID = 10<<16 | 70
	ConnectionUpdateSecretOkID MethodID = 10<<16 | 71
	ChannelOpenID              MethodID = 20<<16 | 10
	ChannelOpenOkID            MethodID = 20<<16 | 11
	ChannelFlowID              MethodID = 20<<16 | 20
	ChannelFlowOkID            MethodID = 20<<16 | 21
	ChannelCloseID             MethodID = 20<<16 | 40
	ChannelCloseOkID           MethodID = 20<<16 | 41
	AccessRequestID            MethodID = 30<<16 | 10
	AccessRequestOkID          MethodID = 30<<16 | 11
	ExchangeDeclareID          MethodID = 40<<16 | 10
	ExchangeDeclareOkID        MethodID = 40<<16 | 11
	ExchangeDeleteID           MethodID = 40<<16 | 20
	ExchangeDeleteOkID         MethodID = 40<<16 | 21
	ExchangeBindID             MethodID = 40<<16 | 30
	ExchangeBindOkID           MethodID = 40<<16 | 31
	ExchangeUnbindID           MethodID = 40<<16 | 40
	ExchangeUnbindOkID         MethodID = 40<<16 | 51
	QueueDeclareID             MethodID = 50<<16 | 10
	QueueDeclareOkID           MethodID = 50<<16 | 11
	QueueBindID                MethodID = 50<<16 | 20
	QueueBindOkID              MethodID = 50<<16 | 21
	QueuePurgeID               MethodID = 50<<16 | 30
	QueuePurgeOkID             MethodID = 50<<16 | 31
	QueueDeleteID              MethodID = 50<<16 | 40
	QueueDeleteOkID            MethodID = 50<<16 | 41
	QueueUnbindID              MethodID = 50<<16 | 50
	QueueUnbindOkID            MethodID = 50<<16 | 51
	BasicQosID                 MethodID = 60<<16 | 10
	BasicQosOkID               MethodID = 60<<16 | 11
	BasicConsumeID             MethodID = 60<<16 | 20
	BasicConsumeOkID           MethodID = 60<<16 | 21
	BasicCancelID              MethodID = 60<<16 | 30
	BasicCancelOkID            MethodID = 60<<16 | 31
	BasicPublishID             MethodID = 60<<16 | 40
	BasicReturnID              MethodID = 60<<16 | 50
	BasicDeliverID             MethodID = 60<<16 | 60
	BasicGetID                 MethodID = 60<<16 | 70
	BasicGetOkID               MethodID = 60<<16 | 71
	BasicGetEmptyID            MethodID = 60<<16 | 72
	BasicAckID                 MethodID = 60<<16 | 80
	BasicRejectID              MethodID = 60<<16 | 90
	BasicRecoverAsyncID        MethodID = 60<<16 | 100
	BasicRecoverID             MethodID = 60<<16 | 110
	BasicRecoverOkID           MethodID = 60<<16 | 111
	BasicNackID                MethodID = 60<<16 | 120
	ConfirmSelectID            MethodID = 85<<16 | 10
	ConfirmSelectOkID          MethodID = 85<<16 | 11
	TxSelectID                 MethodID = 90<<16 | 10
	TxSelectOkID               MethodID = 90<<16 | 11
	TxCommitID                 MethodID = 90<<16 | 20
	TxCommitOkID               MethodID = 90<<16 | 21
	TxRollbackID               MethodID = 90<<16 | 30
	TxRollbackOkID             MethodID = 90<<16 | 31
)

// methods is everything known about each method, by class id, then in the definitions' order.
var methods = [...]methodInfo{
	{ConnectionStartID, "connection.start", byServer, []MethodID{ConnectionStartOkID}, func() Method { return new(ConnectionStart) }},
	{ConnectionStartOkID, "connection.start-ok", byClient, nil, func() Method { return new(ConnectionStartOk) }},
	{ConnectionSecureID, "connection.secure", byServer, []MethodID{ConnectionSecureOkID}, func() Method { return new(ConnectionSecure) }},
	{ConnectionSecureOkID, "connection.secure-ok", byClient, nil, func() Method { return new(ConnectionSecureOk) }},
	{ConnectionTuneID, "connection.tune", byServer, []MethodID{ConnectionTuneOkID}, func() Method { return new(ConnectionTune) }},
	{ConnectionTuneOkID, "connection.tune-ok", byClient, nil, func() Method { return new(ConnectionTuneOk) }},
	{ConnectionOpenID, "connection.open", byClient, []MethodID{ConnectionOpenOkID}, func() Method { return new(ConnectionOpen) }},
	{ConnectionOpenOkID, "connection.open-ok", byServer, nil, func() Method { return new(ConnectionOpenOk) }},
	{ConnectionCloseID, "connection.close", byBoth, []MethodID{ConnectionCloseOkID}, func() Method { return new(ConnectionClose) }},
	{ConnectionCloseOkID, "connection.close-ok", byBoth, nil, func() Method { return new(ConnectionCloseOk) }},
	{ConnectionBlockedID, "connection.blocked", byServer, nil, func() Method { return new(ConnectionBlocked) }},
	{ConnectionUnblockedID, "connection.unblocked", byServer, nil, func() Method { return new(ConnectionUnblocked) }},
	{ConnectionUpdateSecretID, "connection.update-secret", byClient, []MethodID{ConnectionUpdateSecretOkID}, func() Method { return new(ConnectionUpdateSecret) }},
	{ConnectionUpdateSecretOkID, "connection.update-secret-ok", byServer, nil, func() Method { return new(ConnectionUpdateSecretOk) }},
	{ChannelOpenID, "channel.open", byClient, []MethodID{ChannelOpenOkID}, func() Method { return new(ChannelOpen) }},
	{ChannelOpenOkID, "channel.open-ok", byServer, nil, func() Method { return new(ChannelOpenOk) }},
	{ChannelFlowID, "channel.flow", byBoth, []MethodID{ChannelFlowOkID}, func() Method { return new(ChannelFlow) }},
	{ChannelFlowOkID, "channel.flow-ok", byBoth, nil, func() Method { return new(ChannelFlowOk) }},
	{ChannelCloseID, "channel.close", byBoth, []MethodID{ChannelCloseOkID}, func() Method { return new(ChannelClose) }},
	{ChannelCloseOkID, "channel.close-ok", byBoth, nil, func() Method { return new(ChannelCloseOk) }},
	{AccessRequestID, "access.request", byClient, []MethodID{AccessRequestOkID}, func() Method { return new(AccessRequest) }},
	{AccessRequestOkID, "access.request-ok", byServer, nil, func() Method { return new(AccessRequestOk) }},
	{ExchangeDeclareID, "exchange.declare", byClient, []MethodID{ExchangeDeclareOkID}, func() Method { return new(ExchangeDeclare) }},
	{ExchangeDeclareOkID, "exchange.declare-ok", byServer, nil, func() Method { return new(ExchangeDeclareOk) }},
	{ExchangeDeleteID, "exchange.delete", byClient, []MethodID{ExchangeDeleteOkID}, func() Method { return new(ExchangeDelete) }},
	{ExchangeDeleteOkID, "exchange.delete-ok", byServer, nil, func() Method { return new(ExchangeDeleteOk) }},
	{ExchangeBindID, "exchange.bind", byClient, []MethodID{ExchangeBindOkID}, func() Method { return new(ExchangeBind) }},
	{ExchangeBindOkID, "exchange.bind-ok", byServer, nil, func() Method { return new(ExchangeBindOk) }},
	{ExchangeUnbindID, "exchange.unbind", byClient, []MethodID{ExchangeUnbindOkID}, func() Method { return new(ExchangeUnbind) }},
	{ExchangeUnbindOkID, "exchange.unbind-ok", byServer, nil, func() Method { return new(ExchangeUnbindOk) }},
	{QueueDeclareID, "queue.declare", byClient, []MethodID{QueueDeclareOkID}, func() Method { return new(QueueDeclare) }},
	{QueueDeclareOkID, "queue.declare-ok", byServer, nil, func() Method { return new(QueueDeclareOk) }},
	{QueueBindID, "queue.bind", byClient, []MethodID{QueueBindOkID}, func() Method { return new(QueueBind) }},
	{QueueBindOkID, "queue.bind-ok", byServer, nil, func() Method { return new(QueueBindOk) }},
	{QueuePurgeID, "queue.purge", byClient, []MethodID{QueuePurgeOkID}, func() Method { return new(QueuePurge) }},
	{QueuePurgeOkID, "queue.purge-ok", byServer, nil, func() Method { return new(QueuePurgeOk) }},
	{QueueDeleteID, "queue.delete", byClient, []MethodID{QueueDeleteOkID}, func() Method { return new(QueueDelete) }},
	{QueueDeleteOkID, "queue.delete-ok", byServer, nil, func() Method { return new(QueueDeleteOk) }},
	{QueueUnbindID, "queue.unbind", byClient, []MethodID{QueueUnbindOkID}, func() Method { return new(QueueUnbind) }},
	{QueueUnbindOkID, "queue.unbind-ok", byServer, nil, func() Method { return new(QueueUnbindOk) }},
	{BasicQosID, "basic.qos", byClient, []MethodID{BasicQosOkID}, func() Method { return new(BasicQos) }},
	{BasicQosOkID, "basic.qos-ok", byServer, nil, func() Method { return new(BasicQosOk) }},
	{BasicConsumeID, "basic.consume", byClient, []MethodID{BasicConsumeOkID}, func() Method { return new(BasicConsume) }},
	{BasicConsumeOkID, "basic.consume-ok", byServer, nil, func() Method { return new(BasicConsumeOk) }},
	{BasicCancelID, "basic.cancel", byBoth, []MethodID{BasicCancelOkID}, func() Method { return new(BasicCancel) }},
	{BasicCancelOkID, "basic.cancel-ok", byBoth, nil, func() Method { return new(BasicCancelOk) }},
	{BasicPublishID, "basic.publish", byClient, nil, func() Method { return new(BasicPublish) }},
	{BasicReturnID, "basic.return", byServer, nil, func() Method { return new(BasicReturn) }},
	{BasicDeliverID, "basic.deliver", byServer, nil, func() Method { return new(BasicDeliver) }},
	{BasicGetID, "basic.get", byClient, []MethodID{BasicGetOkID, BasicGetEmptyID}, func() Method { return new(BasicGet) }},
	{BasicGetOkID, "basic.get-ok", byServer, nil, func() Method { return new(BasicGetOk) }},
	{BasicGetEmptyID, "basic.get-empty", byServer, nil, func() Method { return new(BasicGetEmpty) }},
	{BasicAckID, "basic.ack", byBoth, nil, func() Method { return new(BasicAck) }},
	{BasicRejectID, "basic.reject", byClient, nil, func() Method { return new(BasicReject) }},
	{BasicRecoverAsyncID, "basic.recover-async", byClient, nil, func() Method { return new(BasicRecoverAsync) }},
	{BasicRecoverID, "basic.recover", byClient, []MethodID{BasicRecoverOkID}, func() Method { return new(BasicRecover) }},
	{BasicRecoverOkID, "basic.recover-ok", byServer, nil, func() Method { return new(BasicRecoverOk) }},
	{BasicNackID, "basic.nack", byBoth, nil, func() Method { return new(BasicNack) }},
	{ConfirmSelectID, "confirm.select", byClient, []MethodID{ConfirmSelectOkID}, func() Method { return new(ConfirmSelect) }},
	{ConfirmSelectOkID, "confirm.select-ok", byServer, nil, func() Method { return new(ConfirmSelectOk) }},
	{TxSelectID, "tx.select", byClient, []MethodID{TxSelectOkID}, func() Method { return new(TxSelect) }},
	{TxSelectOkID, "tx.select-ok", byServer, nil, func() Method { return new(TxSelectOk) }},
	{TxCommitID, "tx.commit", byClient, []MethodID{TxCommitOkID}, func() Method { return new(TxCommit) }},
	{TxCommitOkID, "tx.commit-ok", byServer, nil, func() Method { return new(TxCommitOk) }},
	{TxRollbackID, "tx.rollback", byClient, []MethodID{TxRollbackOkID}, func() Method { return new(TxRollback) }},
	{TxRollbackOkID, "tx.rollback-ok", byServer, nil, func() Method { return new(TxRollbackOk) }},
}

// HasContent says whether a content header frame and body frames follow the method.
func (m MethodID) HasContent() bool {
	switch m {
	case BasicPublishID, BasicReturnID, BasicDeliverID, BasicGetOkID:
		return true
	}
	return false
}

// Property flags of class basic, as in ContentHeader.Flags.
const (
	FlagContentType     uint16 = 1 << 15
	FlagContentEncoding uint16 = 1 << 14
	FlagHeaders         uint16 = 1 << 13
	FlagDeliveryMode    uint16 = 1 << 12
	FlagPriority        uint16 = 1 << 11
	FlagCorrelationID   uint16 = 1 << 10
	FlagReplyTo         uint16 = 1 << 9
	FlagExpiration      uint16 = 1 << 8
	FlagMessageID       uint16 = 1 << 7
	FlagTimestamp       uint16 = 1 << 6
	FlagType            uint16 = 1 << 5
	FlagUserID          uint16 = 1 << 4
	FlagAppID           uint16 = 1 << 3
	FlagReserved        uint16 = 1 << 2
)

// basicProperties are the kinds of the properties, the one with the highest flag first.
var basicProperties = [...]fieldKind{
	kindShortstr,
	kindShortstr,
	kindTable,
	kindOctet,
	kindOctet,
	kindShortstr,
	kindShortstr,
	kindShortstr,
	kindShortstr,
	kindTimestamp,
	kindShortstr,
	kindShortstr,
	kindShortstr,
	kindShortstr,
}
