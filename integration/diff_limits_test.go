package integration

import (
	"bytes"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// diffLimits: as many channels and as large messages as the broker takes, and more.
var diffLimits = map[string]func(*diff){
	"every channel":          limitsChannels,
	"channels above a limit": limitsFewChannels,
	"bodies":                 limitsBodies,
	"64 MiB":                 limitsLarge,
	"frames above frame_max": limitsFrames,
}

// limitsChannels: all that the broker allows are open at once, and answer; one more is refused.
func limitsChannels(d *diff) {
	k := d.talk("client")
	most := k.tune.ChannelMax
	require.Equal(d.t, uint16(2047), most)
	var said []byte
	for ch := uint16(2); ch <= most; ch++ {
		said = append(said, method(ch, &frames.ChannelOpen{})...)
	}
	k.write(said)
	for ch := uint16(2); ch <= most; ch++ {
		k.until(ch, frames.ChannelOpenOkID)
	}
	k.ask(most, &frames.QueueDeclare{Queue: d.name("last"), Exclusive: true})
	k.ask(1000, &frames.BasicConsume{Queue: d.name("last"), NoAck: true, ConsumerTag: "c"})
	k.write(message(500, "", d.name("last"), "from channel to channel"))
	k.until(1000, frames.BasicDeliverID)
	for ch := range k.seen {
		if ch != 1000 && ch != most {
			require.Contains(d.t, k.seen[ch][len(k.seen[ch])-1], "channel.open-ok")
			delete(k.seen, ch)
		}
	}
	k.write(method(most+1, &frames.ChannelOpen{}))
	k.end()
}

// limitsFewChannels: the client's own choice counts.
func limitsFewChannels(d *diff) {
	r := rawTCP(d.t, d.at)
	r.login(d.at, func(ok *frames.ConnectionTuneOk) { ok.ChannelMax = 3 })
	k := d.noting("client", r)
	for ch := uint16(1); ch <= 3; ch++ {
		k.ask(ch, &frames.ChannelOpen{})
	}
	k.ask(2, &frames.ChannelClose{ReplyCode: 200})
	k.ask(2, &frames.ChannelOpen{})
	k.write(method(4, &frames.ChannelOpen{}))
	k.end()
}

// publishBody publishes in frames as large as agreed.
func (k *talk) publishBody(key string, b []byte) {
	k.t.Helper()
	k.write(method(1, &frames.BasicPublish{RoutingKey: key}), headerFrame(1, len(b), 0, nil))
	most := int(k.frameMax) - frames.Overhead
	for len(b) > 0 {
		n := min(most, len(b))
		k.write(frames.AppendFrame(nil, frames.TypeBody, 1, b[:n]))
		b = b[n:]
	}
}

// through publishes a body and gets it back.
func (k *talk) through(queue, what string, b []byte) {
	k.t.Helper()
	k.publishBody(queue, b)
	k.write(method(1, &frames.BasicGet{Queue: queue, NoAck: true}))
	s := k.until(1, frames.BasicGetOkID)
	require.True(k.t, bytes.Equal(b, s.body), "%s: %d octets went, %d came", what, len(b), len(s.body))
	k.seen[1][len(k.seen[1])-1] = "whole: " + what // frame_max differs, and what is relative to it
}

func limitsBodies(d *diff) {
	k := d.talk("client")
	queue := d.name("sized")
	k.ask1(&frames.QueueDeclare{Queue: queue})
	most := int(k.frameMax)
	k.through(queue, "0", nil)
	k.through(queue, "1", body(1))
	k.through(queue, "frame_max - 9", body(most-9))
	k.through(queue, "frame_max - 8", body(most-8))
	k.through(queue, "frame_max - 7", body(most-7))
	k.through(queue, "twice frame_max - 8", body(2*(most-8)))
	k.through(queue, "twice frame_max", body(2*most))
	k.bye()
}

func limitsLarge(d *diff) {
	k := d.talk("client")
	k.ask1(&frames.QueueDeclare{Queue: d.name("huge")})
	k.through(d.name("huge"), "64 MiB", body(64<<20))
	k.bye()
}

// limitsFrames: what frame_max is for. RabbitMQ lets 8 octets more pass.
func limitsFrames(d *diff) {
	for name, size := range map[string]int{"frame_max": 0, "8 more": 8, "9 more": 9, "much more": 10_000} {
		r := rawTCP(d.t, d.at)
		r.login(d.at, func(ok *frames.ConnectionTuneOk) { ok.FrameMax = 8192 })
		k := d.noting(name, r)
		k.frameMax = 8192
		k.ask1(&frames.ChannelOpen{})
		payload := 8192 - frames.Overhead + size
		k.write(method(1, &frames.BasicPublish{RoutingKey: "nobody"}), headerFrame(1, payload, 0, nil), frames.AppendFrame(nil, frames.TypeBody, 1, body(payload)),
			method(0, &frames.ConnectionClose{ReplyCode: 200}))
	}
	for name, head := range map[string]string{"2 GiB": "\x7f\xff\xff\xff", "minus 2 GiB": "\x80\x00\x00\x00", "4 GiB": "\xff\xff\xff\xff"} {
		r := rawTCP(d.t, d.at)
		r.login(d.at, func(ok *frames.ConnectionTuneOk) { ok.FrameMax = 8192 })
		d.noting(name, r).write([]byte("\x03\x00\x01" + head + "x"))
	}
	d.endAll()
}
