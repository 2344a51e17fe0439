package router_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// openWire is a wire whose connection and channel 1 are open.
func openWire(t *testing.T) *wire {
	w := newWire(t)
	w.clientText("0 connection.open virtual-host=/")
	w.brokerText("0 connection.open-ok")
	w.clientText("1 channel.open")
	w.brokerText("1 channel.open-ok")
	w.ups, w.downs = nil, nil
	return w
}

// TestHungUpFor: what a broker that hangs up without a word is taken to have hung up for.
func TestHungUpFor(t *testing.T) {
	raw := func(channel uint16, payload ...byte) frames.Frame {
		return frames.AppendFrame(nil, frames.TypeMethod, channel, payload)
	}
	lies := func(m frames.Method) frames.Frame { return frames.AppendMethod(nil, 1, m) }
	table := frames.Table("\x01aS\x00\x00\x00\x63x")
	for name, tt := range map[string]struct {
		client frames.Frame
		broker frames.Frame // behind it
		want   frames.Exception
	}{
		"nothing":              {want: frames.Exception{Code: frames.ConnectionForced}},
		"a request":            {client: lies(&frames.QueueDeclare{Queue: "q"}), want: frames.Exception{Code: frames.ConnectionForced}},
		"unknown method":       {client: raw(1, 0, 60, 0, 99), want: frames.Exception{Code: frames.CommandInvalid, Method: 60<<16 | 99}},
		"unknown class":        {client: raw(1, 0, 99, 0, 10), want: frames.Exception{Code: frames.CommandInvalid, Method: 99<<16 | 10}},
		"on channel 0":         {client: raw(0, 0, 10, 0, 99), want: frames.Exception{Code: frames.CommandInvalid, Method: 10<<16 | 99}},
		"on a closed channel":  {client: raw(7, 0, 60, 0, 99), want: frames.Exception{Code: frames.CommandInvalid, Method: 60<<16 | 99}},
		"and yet it goes on":   {client: raw(1, 0, 60, 0, 99), broker: frames.AppendFrame(nil, frames.TypeHeartbeat, 0, nil), want: frames.Exception{Code: frames.ConnectionForced}},
		"queue.declare lies":   {client: lies(&frames.QueueDeclare{Queue: "q", Arguments: table}), want: frames.Exception{Code: frames.SyntaxError, Method: frames.QueueDeclareID}},
		"queue.bind lies":      {client: lies(&frames.QueueBind{Queue: "q", Arguments: table}), want: frames.Exception{Code: frames.SyntaxError, Method: frames.QueueBindID}},
		"queue.unbind lies":    {client: lies(&frames.QueueUnbind{Queue: "q", Arguments: table}), want: frames.Exception{Code: frames.SyntaxError, Method: frames.QueueUnbindID}},
		"exchange.declare":     {client: lies(&frames.ExchangeDeclare{Exchange: "x", Arguments: table}), want: frames.Exception{Code: frames.SyntaxError, Method: frames.ExchangeDeclareID}},
		"exchange.bind lies":   {client: lies(&frames.ExchangeBind{Source: "x", Arguments: table}), want: frames.Exception{Code: frames.SyntaxError, Method: frames.ExchangeBindID}},
		"exchange.unbind lies": {client: lies(&frames.ExchangeUnbind{Source: "x", Arguments: table}), want: frames.Exception{Code: frames.SyntaxError, Method: frames.ExchangeUnbindID}},
		"basic.consume lies":   {client: lies(&frames.BasicConsume{Queue: "q", Arguments: table}), want: frames.Exception{Code: frames.SyntaxError, Method: frames.BasicConsumeID}},
	} {
		t.Run(name, func(t *testing.T) {
			w := openWire(t)
			if tt.client != nil {
				w.client(tt.client)
				require.Equal(t, []frames.Frame{tt.client}, w.ups, "it passes")
			}
			if tt.broker != nil {
				w.broker(tt.broker)
			}
			w.downs = nil
			w.conn.RaiseLost(&frames.Exception{Code: frames.ConnectionForced, Text: "lost"})
			w.flush()
			require.Len(t, w.downs, 1)
			var m frames.ConnectionClose
			require.NoError(t, m.Decode(w.downs[0].Args()))
			require.Equal(t, tt.want.Code, frames.Code(m.ReplyCode), m.ReplyText)
			require.Equal(t, tt.want.Method, frames.MethodID(m.ClassID)<<16|frames.MethodID(m.MethodID))
		})
	}
}

// TestHungUpForTune: RabbitMQ takes no frame_max below 8192 from 4.1 on.
func TestHungUpForTune(t *testing.T) {
	for frameMax, want := range map[uint32]frames.Code{4096: frames.NotAllowed, 8191: frames.NotAllowed, 8192: frames.ConnectionForced} {
		w := newWire(t)
		w.brokerText("0 connection.tune channel-max=2047 frame-max=131072")
		w.client(frames.AppendMethod(nil, 0, &frames.ConnectionTuneOk{ChannelMax: 7, FrameMax: frameMax}))
		w.clientText("0 connection.open virtual-host=/")
		w.conn.RaiseLost(&frames.Exception{Code: frames.ConnectionForced})
		require.Equal(t, want, w.conn.Raised().Code, "frame_max %d", frameMax)
	}
	w := newWire(t)
	w.brokerText("0 connection.tune channel-max=2047 frame-max=131072")
	w.client(frames.AppendMethod(nil, 0, &frames.ConnectionTuneOk{ChannelMax: 7, FrameMax: 4096}))
	w.clientText("0 connection.open virtual-host=/")
	w.brokerText("0 connection.open-ok")
	w.conn.RaiseLost(&frames.Exception{Code: frames.ConnectionForced})
	require.Equal(t, frames.ConnectionForced, w.conn.Raised().Code, "an older release has taken it")
}
