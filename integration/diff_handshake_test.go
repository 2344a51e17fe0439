package integration

import (
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// diffHandshakes: what goes wrong before a connection is open, and closes in each of its states.
var diffHandshakes = map[string]func(*diff){
	"wrong protocol":           handshakeProtocols,
	"closed in every state":    handshakeClosed,
	"refused":                  handshakeRefused,
	"out of turn":              handshakeOutOfTurn,
	"pipelined":                func(d *diff) { d.pipelined("0-9-1", frames.ProtocolHeader[:]) },
	"AMQP 0-9":                 func(d *diff) { d.pipelined("0-9", []byte("AMQP\x01\x01\x00\x09")) }, // RabbitMQ takes it for 0-9-1
	"tune-ok beyond the offer": handshakeTune,
}

// step is one of the client's in a handshake, and the broker's answer to it.
type step struct {
	say  []byte
	hear frames.MethodID
}

// steps are the client's, up to and including open.
func (d *diff) steps() []step {
	u, err := amqp.ParseURI(d.at)
	require.NoError(d.t, err)
	return []step{
		{frames.ProtocolHeader[:], frames.ConnectionStartID},
		{method(0, startOk(u.Username, u.Password, true)), frames.ConnectionTuneID},
		{method(0, &frames.ConnectionTuneOk{ChannelMax: 2047, FrameMax: 65536}), 0},
		{method(0, &frames.ConnectionOpen{VirtualHost: u.Vhost}), frames.ConnectionOpenOkID},
	}
}

// after goes through the first n steps.
func (d *diff) after(name string, n int) *talk {
	k := d.noting(name, rawTCP(d.t, d.at))
	for _, s := range d.steps()[:n] {
		k.write(s.say)
		if s.hear != 0 {
			k.until(0, s.hear)
		}
	}
	k.seen[0] = nil // what the broker offers is another test's business
	return k
}

// zeroEight is the protocol header of AMQP 0-8.
const zeroEight = "AMQP\x01\x01\x08\x00"

func handshakeProtocols(d *diff) {
	for _, said := range []string{"AMQP\x00\x01\x00\x00", "AMQP\x01\x01\x00\x0a", "AMQP\x03\x01\x00\x00", "AMQP\x00\x00\x09\x00", "AMQP\x00\x00\x09\x02", zeroEight, "GET / HTTP/1.0\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "12345678"} {
		r := rawTCP(d.t, d.at)
		r.write([]byte(said))
		answer := make([]byte, 100)
		n, err := r.conn.Read(answer)
		require.NoError(d.t, err)
		if d.way != direct {
			require.Equal(d.t, string(frames.ProtocolHeader[:]), string(answer[:n]), "%q", said)
			_, err = r.conn.Read(answer)
			require.Error(d.t, err, "%q", said)
		}
		if d.version != "" || said == zeroEight { // RabbitMQ speaks 0-8, and 1.0 from 4.0 on, and offers that; the proxy speaks 0-9-1
			n = 0
		}
		d.tr.add("%q: %q", said, answer[:n])
	}
}

// handshakeClosed: connection.close is understood at any time.
func handshakeClosed(d *diff) {
	for n := 1; n <= 4; n++ {
		k := d.after(map[int]string{1: "instead of start-ok", 2: "instead of tune-ok", 3: "instead of open", 4: "when open"}[n], n)
		k.write(method(0, &frames.ConnectionClose{ReplyCode: 200, ReplyText: "changed my mind"}))
	}
	d.after("behind open", 3).write(d.steps()[3].say, method(0, &frames.ConnectionClose{ReplyCode: 200, ReplyText: "changed my mind"}))
	d.after("a close-ok that nobody asked for", 4).write(method(0, &frames.ConnectionCloseOk{}), method(0, &frames.ConnectionClose{ReplyCode: 200}))
	d.endAll()
}

// handshakeRefused: wrong users, passwords, mechanisms, virtual hosts.
func handshakeRefused(d *diff) {
	for name, m := range map[string]*frames.ConnectionStartOk{
		"wrong password":            startOk("guest", "wrong", true),
		"wrong password, told so":   startOk("guest", "wrong", false),
		"unknown user":              startOk("nobody", "guest", true),
		"no user":                   startOk("", "", true),
		"unknown mechanism":         {Mechanism: "MAGIC", Response: []byte("x"), Locale: "en_US"},
		"no mechanism":              {Locale: "en_US"},
		"PLAIN that is none":        {Mechanism: "PLAIN", Response: []byte("guest guest"), Locale: "en_US"},
		"AMQPLAIN that is none":     {Mechanism: "AMQPLAIN", Response: []byte("\x05LOGIN"), Locale: "en_US"},
		"AMQPLAIN, wrong password":  {Mechanism: "AMQPLAIN", Response: amqplain("guest", "wrong"), Locale: "en_US", ClientProperties: startOk("", "", true).ClientProperties},
		"properties that lie":       {Mechanism: "PLAIN", Response: []byte("\x00guest\x00guest"), Locale: "en_US", ClientProperties: frames.Table("\x01aS\x00\x00\x00\x63x")},
		"properties, unknown type":  {Mechanism: "PLAIN", Response: []byte("\x00guest\x00guest"), Locale: "en_US", ClientProperties: frames.Table("\x01a?")},
		"capabilities are no table": {Mechanism: "PLAIN", Response: []byte("\x00guest\x00guest"), Locale: "en_US", ClientProperties: frames.AppendString(nil, "capabilities", "all")},
		"another locale":            {Mechanism: "PLAIN", Response: []byte("\x00guest\x00guest"), Locale: "de_DE"},
		"an authorisation id":       {Mechanism: "PLAIN", Response: []byte("me\x00guest\x00guest"), Locale: "en_US"},
		"AMQPLAIN":                  {Mechanism: "AMQPLAIN", Response: amqplain("guest", "guest"), Locale: "en_US"},
	} {
		d.after(name, 1).write(method(0, m), method(0, &frames.ConnectionClose{ReplyCode: 200}))
	}
	for name, m := range map[string]*frames.ConnectionOpen{
		"unknown virtual host": {VirtualHost: "no-such-vhost"},
		"no virtual host":      {},
		"a long virtual host":  {VirtualHost: string(body(255))},
		"virtual host, insist": {VirtualHost: "no-such-vhost", Reserved1: "capabilities", Reserved2: true},
	} {
		d.after(name, 3).write(method(0, m), method(0, &frames.ConnectionClose{ReplyCode: 200}))
	}
	k := d.noting("virtual host without rights", rawTCP(d.t, d.at))
	k.write(frames.ProtocolHeader[:])
	k.until(0, frames.ConnectionStartID)
	k.write(method(0, startOk(limited, "secret", true)))
	k.until(0, frames.ConnectionTuneID)
	k.seen[0] = nil
	k.write(method(0, &frames.ConnectionTuneOk{ChannelMax: 5, FrameMax: 8192}), method(0, &frames.ConnectionOpen{VirtualHost: "/"}))
	d.endAll()
	for _, k := range d.talks {
		for i, line := range k.seen[0] {
			if strings.HasPrefix(line, "connection.tune ") { // the offer is another test's business
				k.seen[0][i] = "connection.tune"
			}
		}
	}
}

// amqplain is a table without its length, as AMQPLAIN has it.
func amqplain(user, password string) []byte {
	return frames.AppendString(frames.AppendString(nil, "LOGIN", user), "PASSWORD", password)
}

// handshakeOutOfTurn: what does not belong there, in each state.
func handshakeOutOfTurn(d *diff) {
	for name, said := range map[string][]byte{
		"channel.open":   method(1, &frames.ChannelOpen{}),
		"publish":        message(1, "", "nobody", "x"),
		"a body":         bodyFrame(1, "x"),
		"a heartbeat":    frames.AppendFrame(nil, frames.TypeHeartbeat, 0, nil),
		"no frame":       []byte("nonsense, and long enough"),
		"unknown method": frames.AppendFrame(nil, frames.TypeMethod, 0, []byte{0, 10, 0, 99}),
		"a large frame":  frames.AppendFrame(nil, frames.TypeMethod, 0, append([]byte{0, 10, 0, 11}, body(150_000)...)),
		"open":           method(0, &frames.ConnectionOpen{VirtualHost: d.vhost}),
	} {
		for n := 1; n <= 3; n++ {
			if name == "open" && n == 3 {
				continue // its turn
			}
			k := d.after(name+map[int]string{1: " instead of start-ok", 2: " instead of tune-ok", 3: " instead of open"}[n], n)
			k.write(said, method(0, &frames.ConnectionClose{ReplyCode: 200}))
		}
	}
	d.endAll()
	d.instead(map[string]frames.Exception{ // before tune-ok RabbitMQ hangs up
		"a large frame instead of start-ok": {Code: frames.FrameError},
		"a large frame instead of tune-ok":  {Code: frames.FrameError},
		"no frame instead of start-ok":      {Code: frames.FrameError},
		"no frame instead of tune-ok":       {Code: frames.FrameError},
	})
}

// pipelined: everything in one write, before the broker has said anything.
func (d *diff) pipelined(name string, header []byte) {
	d.t.Helper()
	k := d.noting(name, rawTCP(d.t, d.at))
	all := slices.Clone(header)
	for _, s := range d.steps()[1:] {
		all = append(all, s.say...)
	}
	queue := d.name("eager")
	k.write(all, method(1, &frames.ChannelOpen{}), method(1, &frames.QueueDeclare{Queue: queue}), message(1, "", queue, "eager"),
		method(1, &frames.BasicGet{Queue: queue, NoAck: true}))
	k.until(1, frames.BasicGetOkID)
	k.seen[0] = nil
	k.bye()
}

// handshakeTune: limits above and below what is offered.
func handshakeTune(d *diff) {
	for name, adjust := range map[string]func(ok *frames.ConnectionTuneOk){
		"frame_max too large":   func(ok *frames.ConnectionTuneOk) { ok.FrameMax++ },
		"frame_max too small":   func(ok *frames.ConnectionTuneOk) { ok.FrameMax = 4095 },
		"frame_max of 4096":     func(ok *frames.ConnectionTuneOk) { ok.FrameMax = 4096 },
		"no frame_max":          func(ok *frames.ConnectionTuneOk) { ok.FrameMax = 0 },
		"channel_max too large": func(ok *frames.ConnectionTuneOk) { ok.ChannelMax++ },
		"no channel_max":        func(ok *frames.ConnectionTuneOk) { ok.ChannelMax = 0 },
		"a long heartbeat":      func(ok *frames.ConnectionTuneOk) { ok.Heartbeat = 65535 },
	} {
		k := d.noting(name, rawTCP(d.t, d.at))
		steps := d.steps()
		k.write(steps[0].say)
		k.until(0, frames.ConnectionStartID)
		k.write(steps[1].say)
		tune := k.until(0, frames.ConnectionTuneID).method.(*frames.ConnectionTune)
		k.seen[0] = nil
		ok := frames.ConnectionTuneOk{ChannelMax: tune.ChannelMax, FrameMax: tune.FrameMax}
		adjust(&ok)
		k.write(method(0, &ok), steps[3].say)
	}
	d.endAll()
	refused := frames.Exception{Code: frames.NotAllowed, Method: frames.ConnectionTuneOkID}
	if d.version == "4.3" { // at least 8192
		d.instead(map[string]frames.Exception{"frame_max of 4096": refused})
	}
	d.instead(map[string]frames.Exception{"channel_max too large": refused, "no channel_max": refused, "frame_max too large": refused,
		"frame_max too small": refused, "no frame_max": refused})
}
