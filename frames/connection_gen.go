// Code generated from spec/amqp091.txt by internal/gen; DO NOT EDIT.

package frames

// ConnectionStart is connection.start (10, 10), sent by the server, answered by start-ok.
type ConnectionStart struct {
	VersionMajor     byte
	VersionMinor     byte
	ServerProperties Table
	Mechanisms       []byte
	Locales          []byte
}

// ID returns ConnectionStartID.
func (*ConnectionStart) ID() MethodID { return ConnectionStartID }

// ConnectionStartOk is connection.start-ok (10, 11), sent by the client.
type ConnectionStartOk struct {
	ClientProperties Table
	Mechanism        string
	Response         []byte
	Locale           string
}

// ID returns ConnectionStartOkID.
func (*ConnectionStartOk) ID() MethodID { return ConnectionStartOkID }

// ConnectionSecure is connection.secure (10, 20), sent by the server, answered by secure-ok.
type ConnectionSecure struct {
	Challenge []byte
}

// ID returns ConnectionSecureID.
func (*ConnectionSecure) ID() MethodID { return ConnectionSecureID }

// ConnectionSecureOk is connection.secure-ok (10, 21), sent by the client.
type ConnectionSecureOk struct {
	Response []byte
}

// ID returns ConnectionSecureOkID.
func (*ConnectionSecureOk) ID() MethodID { return ConnectionSecureOkID }

// ConnectionTune is connection.tune (10, 30), sent by the server, answered by tune-ok.
type ConnectionTune struct {
	ChannelMax uint16
	FrameMax   uint32
	Heartbeat  uint16
}

// ID returns ConnectionTuneID.
func (*ConnectionTune) ID() MethodID { return ConnectionTuneID }

// ConnectionTuneOk is connection.tune-ok (10, 31), sent by the client.
type ConnectionTuneOk struct {
	ChannelMax uint16
	FrameMax   uint32
	Heartbeat  uint16
}

// ID returns ConnectionTuneOkID.
func (*ConnectionTuneOk) ID() MethodID { return ConnectionTuneOkID }

// ConnectionOpen is connection.open (10, 40), sent by the client, answered by open-ok.
type ConnectionOpen struct {
	VirtualHost string
	Reserved1   string
	Reserved2   bool
}

// ID returns ConnectionOpenID.
func (*ConnectionOpen) ID() MethodID { return ConnectionOpenID }

// ConnectionOpenOk is connection.open-ok (10, 41), sent by the server.
type ConnectionOpenOk struct {
	Reserved1 string
}

// ID returns ConnectionOpenOkID.
func (*ConnectionOpenOk) ID() MethodID { return ConnectionOpenOkID }

// ConnectionClose is connection.close (10, 50), sent by either side, answered by close-ok.
type ConnectionClose struct {
	ReplyCode uint16
	ReplyText string
	ClassID   uint16
	MethodID  uint16
}

// ID returns ConnectionCloseID.
func (*ConnectionClose) ID() MethodID { return ConnectionCloseID }

// ConnectionCloseOk is connection.close-ok (10, 51), sent by either side.
type ConnectionCloseOk struct {
}

// ID returns ConnectionCloseOkID.
func (*ConnectionCloseOk) ID() MethodID { return ConnectionCloseOkID }

// ConnectionBlocked is connection.blocked (10, 60), sent by the server.
type ConnectionBlocked struct {
	Reason string
}

// ID returns ConnectionBlockedID.
func (*ConnectionBlocked) ID() MethodID { return ConnectionBlockedID }

// ConnectionUnblocked is connection.unblocked (10, 61), sent by the server.
type ConnectionUnblocked struct {
}

// ID returns ConnectionUnblockedID.
func (*ConnectionUnblocked) ID() MethodID { return ConnectionUnblockedID }

// ConnectionUpdateSecret is connection.update-secret (10, 70), sent by the client, answered by update-secret-ok.
type ConnectionUpdateSecret struct {
	NewSecret []byte
	Reason    string
}

// ID returns ConnectionUpdateSecretID.
func (*ConnectionUpdateSecret) ID() MethodID { return ConnectionUpdateSecretID }

// ConnectionUpdateSecretOk is connection.update-secret-ok (10, 71), sent by the server.
type ConnectionUpdateSecretOk struct {
}

// ID returns ConnectionUpdateSecretOkID.
func (*ConnectionUpdateSecretOk) ID() MethodID { return ConnectionUpdateSecretOkID }
