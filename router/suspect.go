package router

import "github.com/shardmq/shardmq/frames"

// RabbitMQ hangs up without a word on a client that sends a method it does not know, or a table whose lengths lie. The proxy passes
// both, for it cannot know what the next release of the broker understands; but when the broker has hung up on one, the client hears
// why, with the code that the specification has for it.

// suspect remembers a request that may be the broker's reason to hang up, until it is clear that the broker goes on: the first one counts.
func (c *Conn) suspect(id frames.MethodID) {
	switch {
	case c.fault != nil:
	case id.Known():
		c.fault = &frames.Exception{Code: frames.SyntaxError, Method: id, Text: "the field table of a method is malformed"}
	default:
		c.fault = &frames.Exception{Code: frames.CommandInvalid, Method: id, Text: "unimplemented method"}
	}
}

// newMinFrameMax is the least frame_max that RabbitMQ takes from 4.1 on.
const newMinFrameMax = 8192

// suspectTune remembers a tune-ok with a frame_max that only older releases take.
func (c *Conn) suspectTune(f frames.Frame) {
	if n := c.limits.client; f.Method() == frames.ConnectionTuneOkID && n > 0 && n < newMinFrameMax && c.fault == nil {
		c.fault = &frames.Exception{Code: frames.NotAllowed, Method: frames.ConnectionTuneOkID, Text: beyond("frame_max", n, newMinFrameMax, 0)}
	}
}

// tables reports whether the table among a method's arguments, if it has one, can be read to its end. Arguments that are cut short
// the broker answers by itself.
func tables(id frames.MethodID, args []byte) bool {
	var table *frames.Table
	var m frames.Method
	switch id {
	case frames.QueueDeclareID:
		d := new(frames.QueueDeclare)
		m, table = d, &d.Arguments
	case frames.QueueBindID:
		b := new(frames.QueueBind)
		m, table = b, &b.Arguments
	case frames.QueueUnbindID:
		u := new(frames.QueueUnbind)
		m, table = u, &u.Arguments
	case frames.ExchangeDeclareID:
		d := new(frames.ExchangeDeclare)
		m, table = d, &d.Arguments
	case frames.ExchangeBindID:
		b := new(frames.ExchangeBind)
		m, table = b, &b.Arguments
	case frames.ExchangeUnbindID:
		u := new(frames.ExchangeUnbind)
		m, table = u, &u.Arguments
	case frames.BasicConsumeID:
		s := new(frames.BasicConsume)
		m, table = s, &s.Arguments
	default:
		return true
	}
	return m.Decode(args) != nil || table.Valid() == nil
}

// RaiseLost closes the connection towards the client after the broker has hung up: with what the client did to deserve it, else with e.
func (c *Conn) RaiseLost(e *frames.Exception) {
	if c.fault != nil {
		e = c.fault
	}
	c.RaiseConnection(e)
}
