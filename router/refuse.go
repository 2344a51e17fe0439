package router

import "github.com/shardmq/shardmq/frames"

// Refuse closes the connection for octets of the client's that cannot be read, as RabbitMQ does it: all that came before is carried out,
// and its answers go out, and then the client hears why. The broker is asked to close the connection for that, unless inFrame says that
// it has been sent the octets itself, in a frame that has begun; then it may refuse them in its own words. Until Refusing is false nothing
// more of the client's is to be read.
func (c *Conn) Refuse(e *frames.Exception, inFrame bool) {
	switch {
	case c.Closing() || c.closing != nil: // in due form, and the answer comes
		return
	case c.state != connOpen:
		c.RaiseConnection(e)
		return
	}
	c.refused = e
	if inFrame {
		return
	}
	f := frames.AppendMethod(nil, 0, &frames.ConnectionClose{ReplyCode: uint16(frames.ReplySuccess), ReplyText: closedBy})
	if c.clientControl(f) == Forward {
		c.up = append(c.up, f...)
	}
}

// Refusing reports whether the broker still has to deal with what came before that which is refused.
func (c *Conn) Refusing() bool {
	return c.refused != nil && c.raised == nil && c.state < connClosingBroker
}

// RefuseNow tells the client what is wrong without waiting for the broker any longer.
func (c *Conn) RefuseNow() {
	switch {
	case !c.Refusing():
	case c.state == connClosingClient: // the broker has been asked
		c.tellClose(c.refused)
	default:
		c.RaiseConnection(c.refused)
	}
}
