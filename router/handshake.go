package router

import (
	"fmt"
	"math"
	"strings"

	"github.com/shardmq/shardmq/frames"
)

// FrameRoom is how far the frame_max offered to clients stays below the broker's (AMQP 0-9-1, connection.tune), so that a content
// header as large as a client may send still fits in one frame with a shard key added.
const FrameRoom = 1024

// startOkLimit is the largest connection.start-ok frame all brokers accept: RabbitMQ 3.10 and 4.0 reset the connection beyond 4,096 octets.
const startOkLimit = 4096

// limits are the frame sizes of both sides, in octets, 0 for none.
type limits struct {
	offered uint32 // frame_max offered to the client
	max     uint32 // the broker's offer
	client  uint32 // agreed with the client
	broker  uint32 // agreed with the broker

	channels  uint16 // channel_max offered
	heartbeat uint16 // agreed, in seconds
}

// Heartbeat is the interval that client and broker have agreed on, in seconds; 0 before tune-ok and when there is none.
func (c *Conn) Heartbeat() uint16 { return c.limits.heartbeat }

// ClientFrameMax is the largest frame the client may send and should get, in octets; 0 before tune-ok and when unlimited.
func (c *Conn) ClientFrameMax() uint32 { return c.limits.client }

// clientControl decides on a frame on channel 0.
func (c *Conn) clientControl(f frames.Frame) Verdict {
	m := f.Method()
	if c.state == connClosingProxy {
		switch m {
		case frames.ConnectionCloseOkID:
			c.state = connClosed
		case frames.ConnectionCloseID:
			c.down = frames.AppendMethod(c.down, 0, &frames.ConnectionCloseOk{})
		}
		return Drop
	}
	if c.raised != nil {
		return Drop // and the connection is closed
	}
	switch m {
	case frames.ConnectionStartOkID:
		return c.startOk(f)
	case frames.ConnectionTuneOkID:
		return c.tuneOk(f)
	case frames.ConnectionOpenID:
		c.openVhost(f)
	case frames.ConnectionCloseID:
		if c.state != connClosingBroker {
			c.state = connClosingClient
			c.leaveGroups()
			if c.Holding() { // behind what is held
				c.state = connOpen
				c.closing = append([]byte(nil), f...)
				return Drop
			}
			c.giveUpAll()
		}
	case frames.ConnectionCloseOkID:
		if c.state == connClosingBroker { // else nobody has asked, and the broker says so
			c.state = connClosed
		}
	}
	return Forward
}

// brokerControl decides on a frame of the broker's on channel 0.
func (c *Conn) brokerControl(f frames.Frame) Verdict {
	if f.Method() == frames.ConnectionCloseOkID {
		c.leaveAll() // the broker has ended all channels, and taken back what they had
	}
	if c.state == connClosingProxy || c.state == connClosed {
		if f.Method() == frames.ConnectionCloseOkID && c.state == connClosed && c.raised == nil {
			return Forward // both sides had begun to close
		}
		return Drop
	}
	switch f.Method() {
	case frames.ConnectionStartID:
		return c.startMethod(f)
	case frames.ConnectionTuneID:
		return c.tune(f)
	case frames.ConnectionOpenOkID:
		if c.state == connHandshake {
			c.state = connOpen
		}
	case frames.ConnectionCloseID:
		c.state = connClosingBroker
		c.down = append(c.down, f...)
		c.answerClose()
		c.leaveAll()
		return Drop
	case frames.ConnectionCloseOkID:
		if c.Refusing() {
			c.RefuseNow()
			return Drop
		}
		c.state = connClosed
	case frames.ConnectionBlockedID:
		c.blocked = true
		return c.ifAnnounced(c.clientBl)
	case frames.ConnectionUnblockedID:
		c.blocked = false
		for _, ch := range c.chans {
			if ch != nil {
				c.kick(ch)
			}
		}
		return c.ifAnnounced(c.clientBl)
	}
	return Forward
}

func (c *Conn) ifAnnounced(capability bool) Verdict {
	if capability {
		return Forward
	}
	return Drop
}

// startMethod takes EXTERNAL out of the broker's mechanisms unless it has seen the client's own certificate, and notes what the broker is.
func (c *Conn) startMethod(f frames.Frame) Verdict {
	var m frames.ConnectionStart
	if m.Decode(f.Args()) != nil {
		return Forward
	}
	c.perConsumer = countsPerConsumer(m.ServerProperties)
	if c.certificate == ClientCertificate {
		return Forward
	}
	c.started = true
	kept := make([]string, 0, 4)
	for _, name := range strings.Fields(string(m.Mechanisms)) {
		if name != external {
			kept = append(kept, name)
		} else {
			c.certificate = ProxyCertificate
		}
	}
	if list := strings.Join(kept, " "); list != string(m.Mechanisms) {
		m.Mechanisms = []byte(list)
		c.down = frames.AppendMethod(c.down, 0, &m)
		return Drop
	}
	return Forward
}

// startOk announces the capabilities that the proxy needs and who is behind it, if the frame stays small enough.
func (c *Conn) startOk(f frames.Frame) Verdict {
	var m frames.ConnectionStartOk
	err := m.Decode(f.Args())
	caps, fit := capabilities(m.ClientProperties)
	c.clientCN = isTrue(caps, "consumer_cancel_notify")
	c.clientBl = isTrue(caps, "connection.blocked")
	c.authFail = isTrue(caps, "authentication_failure_close")
	switch {
	case c.barsExternal() && (err != nil || m.Mechanism == external):
		c.refuseExternal() // whatever cannot be read may be read by the broker
		return Drop
	case err != nil, !fit:
		return Forward
	}
	for _, name := range []string{"consumer_cancel_notify", "connection.blocked"} {
		if !isTrue(caps, name) {
			caps = frames.AppendBool(caps.Without(name), name, true)
		}
	}
	props := m.ClientProperties.Without("client_address").Without("proxy") // a client may not say that it is another
	props = frames.AppendTable(props.Without("capabilities"), "capabilities", caps)
	bare := m
	bare.ClientProperties = props
	m.ClientProperties = frames.AppendString(frames.AppendString(props, "client_address", c.o.ClientAddress), "proxy", c.o.Product)
	for _, each := range []frames.ConnectionStartOk{m, bare} {
		if b := frames.AppendMethod(nil, 0, &each); len(b) <= startOkLimit {
			c.up = append(c.up, b...)
			return Drop
		}
	}
	return Forward
}

// capabilities returns the capabilities in client-properties. fit is false where something else stands in their place.
func capabilities(properties frames.Table) (caps frames.Table, fit bool) {
	kind, v, ok := properties.Lookup("capabilities")
	switch {
	case !ok:
		return nil, true
	case kind != 'F' || len(v) < 4:
		return nil, false
	}
	return frames.Table(v[4:]), true
}

func isTrue(t frames.Table, name string) bool {
	kind, v, ok := t.Lookup(name)
	return ok && kind == 't' && len(v) == 1 && v[0] != 0
}

// tune lowers the broker's frame_max by the room a shard key takes.
func (c *Conn) tune(f frames.Frame) Verdict {
	var m frames.ConnectionTune
	if m.Decode(f.Args()) != nil {
		return Forward
	}
	c.tuned = true
	c.limits.max = m.FrameMax
	c.limits.channels = m.ChannelMax
	if m.FrameMax >= frames.MinFrameMax+FrameRoom {
		m.FrameMax -= FrameRoom
	} else if m.FrameMax > frames.MinFrameMax {
		m.FrameMax = frames.MinFrameMax
	}
	c.limits.offered = m.FrameMax
	c.down = frames.AppendMethod(c.down, 0, &m)
	return Drop
}

// tuneOk checks the client's choice against the offer and passes it on with the room added. The heartbeat
// is the client's own affair with the broker.
func (c *Conn) tuneOk(f frames.Frame) Verdict {
	var m frames.ConnectionTuneOk
	if m.Decode(f.Args()) != nil || !c.tuned {
		return Forward
	}
	text := beyond("frame_max", m.FrameMax, frames.MinFrameMax, c.limits.offered)
	if text == "" {
		text = beyond("channel_max", uint32(m.ChannelMax), 1, uint32(c.limits.channels))
	}
	if text != "" { // RabbitMQ would drop the connection without a word
		c.RaiseConnection(&frames.Exception{Code: frames.NotAllowed, Method: frames.ConnectionTuneOkID, Text: text})
		return Drop
	}
	c.limits.client, c.limits.heartbeat = m.FrameMax, m.Heartbeat
	if m.FrameMax > 0 {
		room := math.MaxUint32 - m.FrameMax
		if c.limits.max > 0 {
			room = c.limits.max - m.FrameMax
		}
		m.FrameMax += min(FrameRoom, room)
	}
	c.limits.broker = m.FrameMax
	c.up = frames.AppendMethod(c.up, 0, &m)
	return Drop
}

// beyond says, as RabbitMQ words it, why a chosen limit is outside what was offered; "" when it is not. 0 is no limit, chosen or offered.
func beyond(name string, chosen, least, most uint32) string {
	switch {
	case chosen > 0 && chosen < least:
		return fmt.Sprintf("negotiated %s = %d is lower than the minimum allowed value (%d)", name, chosen, least)
	case most > 0 && (chosen == 0 || chosen > most):
		return fmt.Sprintf("negotiated %s = %d is higher than the maximum allowed value (%d)", name, chosen, most)
	}
	return ""
}

func (c *Conn) openVhost(f frames.Frame) {
	var m frames.ConnectionOpen
	if m.Decode(f.Args()) != nil || c.state != connHandshake || c.dir != nil {
		return
	}
	c.vhost = m.VirtualHost
	if c.o.Open != nil {
		c.dir = c.o.Open(m.VirtualHost)
	}
}

// leaveGroups gives the shards of all consumers to others: the client is going.
func (c *Conn) leaveGroups() {
	for _, ch := range c.chans {
		if ch != nil {
			c.leaveChannel(ch)
		}
	}
}
