package router

import "github.com/shardmq/shardmq/frames"

// external is the SASL mechanism that RabbitMQ answers by the certificate of the connection it sees.
const external = "EXTERNAL"

// Certificate says whose certificate the broker sees on the upstream connection. EXTERNAL logs in whoever that names.
type Certificate uint8

const (
	// ProxyCertificate is the proxy's own, or not known yet: EXTERNAL is not offered, and a client that asks for it all the same is refused
	// before the broker hears of it.
	ProxyCertificate Certificate = iota
	// NoCertificate: EXTERNAL is not offered. A client that asks for it is refused by the broker. If the broker offers it all the same it sees
	// one, of whoever speaks TLS for the proxy (a tunnel): that is as good as the proxy's own.
	NoCertificate
	// ClientCertificate is one that the client may log in with: EXTERNAL is offered if the broker offers it.
	ClientCertificate
)

// Introduce says who the client is. The owner calls it before the first frame; address replaces Options.ClientAddress.
func (c *Conn) Introduce(address string) { c.o.ClientAddress = address }

// Present says whose certificate the broker sees. The owner calls it before the first frame.
func (c *Conn) Present(certificate Certificate) { c.certificate = certificate }

// barsExternal reports whether EXTERNAL might log in as the proxy.
func (c *Conn) barsExternal() bool {
	return c.certificate == ProxyCertificate || c.certificate == NoCertificate && !c.started
}

// refuseExternal ends a connection whose client wants to log in as the proxy, in RabbitMQ's way: a client that has announced
// authentication_failure_close is told, for others the connection just ends, which it does once the broker has given it up.
func (c *Conn) refuseExternal() {
	e := &frames.Exception{Code: frames.AccessRefused,
		Text: "Login was refused using authentication mechanism EXTERNAL: shardmq has no certificate of this client's to show to the broker"}
	if c.authFail {
		c.RaiseConnection(e)
		return
	}
	c.state, c.raised = connClosed, e
	c.up = frames.AppendMethod(c.up, 0, &frames.ConnectionClose{ReplyCode: uint16(frames.ReplySuccess), ReplyText: "closed by shardmq"})
}
