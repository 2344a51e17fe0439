package routertest

import (
	"encoding/binary"

	"github.com/shardmq/shardmq/frames"
)

// isReply has the methods that answer requests.
var isReply = func() map[frames.MethodID]bool {
	set := map[frames.MethodID]bool{}
	for _, id := range frames.Methods() {
		for _, r := range id.Reply() {
			set[r] = true
		}
	}
	return set
}()

// ask notes a request that is to be answered.
func (v *view) ask(m frames.Method) {
	if m.ID().Synchronous() && !noWait(m) {
		v.asked = append(v.asked, m)
	}
}

func noWait(m frames.Method) bool {
	switch m := m.(type) {
	case *frames.ExchangeDeclare:
		return m.NoWait
	case *frames.ExchangeDelete:
		return m.NoWait
	case *frames.ExchangeBind:
		return m.NoWait
	case *frames.ExchangeUnbind:
		return m.NoWait
	case *frames.QueueDeclare:
		return m.NoWait
	case *frames.QueueBind:
		return m.NoWait
	case *frames.QueuePurge:
		return m.NoWait
	case *frames.QueueDelete:
		return m.NoWait
	case *frames.BasicConsume:
		return m.NoWait
	case *frames.BasicCancel:
		return m.NoWait
	case *frames.ConfirmSelect:
		return m.NoWait
	}
	return false
}

func consumerTag(m frames.Method) string {
	switch m := m.(type) {
	case *frames.BasicConsume:
		return m.ConsumerTag
	case *frames.BasicConsumeOk:
		return m.ConsumerTag
	case *frames.BasicCancel:
		return m.ConsumerTag
	case *frames.BasicCancelOk:
		return m.ConsumerTag
	case *frames.BasicDeliver:
		return m.ConsumerTag
	}
	return ""
}

// Answer is how a broker may answer what it was first asked on the channel, nil when nothing is. kind chooses where it has a choice. The
// caller sends it, through FromBroker too.
func (t *Talk) Answer(channel uint16, kind byte) []byte {
	if channel == 0 {
		if t.broker.heard && !t.broker.answered {
			return frames.AppendMethod(nil, 0, &frames.ConnectionCloseOk{})
		}
		return nil
	}
	v := t.broker.view(channel)
	if len(v.asked) == 0 {
		if v.heard {
			return frames.AppendMethod(nil, channel, &frames.ChannelCloseOk{})
		}
		return nil
	}
	if v.out.active() {
		return nil
	}
	switch m := v.asked[0].(type) {
	case *frames.BasicConsume:
		tag := m.ConsumerTag
		if tag == "" {
			tag = "chosen"
		}
		return frames.AppendMethod(nil, channel, &frames.BasicConsumeOk{ConsumerTag: tag})
	case *frames.BasicCancel:
		return frames.AppendMethod(nil, channel, &frames.BasicCancelOk{ConsumerTag: m.ConsumerTag})
	case *frames.QueueDeclare:
		return frames.AppendMethod(nil, channel, &frames.QueueDeclareOk{Queue: m.Queue, MessageCount: uint32(kind)})
	case *frames.BasicGet:
		if kind%2 == 0 {
			return frames.AppendMethod(nil, channel, &frames.BasicGetEmpty{})
		}
		v.deliveries++
		return Content(nil, channel, &frames.BasicGetOk{DeliveryTag: v.deliveries, Exchange: "images", RoutingKey: "k"}, int(kind/2))
	}
	return frames.AppendMethod(nil, channel, frames.NewMethod(v.asked[0].ID().Reply()[0]))
}

// Delivery is a delivery to one of the consumers that the broker has on the channel, nil when it has none. The caller sends it, through
// FromBroker too.
func (t *Talk) Delivery(channel uint16, kind byte) []byte {
	v := t.broker.view(channel)
	if len(v.consumers) == 0 || v.out.active() {
		return nil
	}
	tag := v.consumers[int(kind)%len(v.consumers)]
	return Content(nil, channel, &frames.BasicDeliver{ConsumerTag: tag, DeliveryTag: v.deliveries + 1, Exchange: "images", RoutingKey: "k"}, int(kind))
}

// Comply is how a client answers the close that it has been sent on the channel, nil for none. The caller sends it, through FromClient too.
func (t *Talk) Comply(channel uint16) []byte {
	v := t.client.view(channel)
	switch {
	case channel == 0 && t.client.heard && !t.client.answered:
		return frames.AppendMethod(nil, 0, &frames.ConnectionCloseOk{})
	case channel != 0 && v.heard && !v.out.active():
		return frames.AppendMethod(nil, channel, &frames.ChannelCloseOk{})
	}
	return nil
}

// Content appends a message: the method, a header without properties and, unless it is empty, a body.
func Content(dst []byte, channel uint16, m frames.Method, size int) []byte {
	dst = frames.AppendMethod(dst, channel, m)
	p := binary.BigEndian.AppendUint32(nil, uint32(m.ID().Class())<<16)
	p = binary.BigEndian.AppendUint64(p, uint64(size))
	dst = frames.AppendFrame(dst, frames.TypeHeader, channel, append(p, 0, 0))
	if size > 0 {
		body := make([]byte, size)
		for i := range body {
			body[i] = byte(i)
		}
		dst = frames.AppendFrame(dst, frames.TypeBody, channel, body)
	}
	return dst
}
