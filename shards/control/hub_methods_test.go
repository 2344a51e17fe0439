package control

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/shardmq/shardmq/frames"
)

// hubRefusal closes a channel.
type hubRefusal struct {
	code frames.Code
	text string
}

// queueName is what a queue of that name is called in the hub.
func (c *hubConn) queueName(name string) string {
	if c.h.apart[c.node] {
		return c.node + "|" + name
	}
	return name
}

// frame deals with one frame, and reports whether the connection goes on. Called
// with mu held.
func (c *hubConn) frame(f frames.Frame) bool {
	ch := c.channels[f.Channel()]
	switch {
	case f.Type() == frames.TypeHeartbeat, f.Type() != frames.TypeMethod && ch == nil:
		return true
	case f.Type() == frames.TypeHeader:
		ch.header = slices.Clone(f.Payload())
	case f.Type() == frames.TypeBody:
		ch.body = append(ch.body, f.Payload()...)
	default:
		m := frames.NewMethod(f.Method())
		if err := m.Decode(f.Args()); err != nil {
			c.h.t.Error(err)
			return false
		}
		if f.Channel() == 0 {
			return c.connection(m)
		}
		if ch == nil {
			if _, opens := m.(*frames.ChannelOpen); !opens {
				return true // it was closed
			}
			ch = &hubChannel{c: c, id: f.Channel()}
			c.channels[ch.id] = ch
		}
		ch.method(m)
	}
	if ch != nil && ch.header != nil && uint64(len(ch.body)) == binary.BigEndian.Uint64(ch.header[4:]) {
		ch.published()
	}
	return true
}

// connection deals with methods of channel 0.
func (c *hubConn) connection(m frames.Method) bool {
	switch m.(type) {
	case *frames.ConnectionStartOk:
		c.send(0, &frames.ConnectionTune{FrameMax: 131072, Heartbeat: 60})
	case *frames.ConnectionOpen:
		c.send(0, &frames.ConnectionOpenOk{})
	case *frames.ConnectionClose:
		c.send(0, &frames.ConnectionCloseOk{})
		return false
	case *frames.ConnectionCloseOk:
		return false
	}
	return true
}

// method deals with methods of a channel.
func (ch *hubChannel) method(m frames.Method) {
	h := ch.c.h
	var reply frames.Method
	var no *hubRefusal
	switch m := m.(type) {
	case *frames.ChannelOpen:
		reply = &frames.ChannelOpenOk{}
	case *frames.ChannelClose:
		if h.lingers > 0 && ch.reads {
			time.AfterFunc(h.lingers, func() { h.do(ch.close) })
			break
		}
		ch.close()
	case *frames.ChannelCloseOk:
	case *frames.ConfirmSelect:
		ch.confirm, reply = true, &frames.ConfirmSelectOk{}
	case *frames.ExchangeDeclare:
		if h.refused {
			no = &hubRefusal{frames.AccessRefused, fmt.Sprintf("ACCESS_REFUSED - access to exchange '%s' in vhost '/' refused for user 'u'", m.Exchange)}
			break
		}
		h.exchanges[m.Exchange], reply = true, &frames.ExchangeDeclareOk{}
	case *frames.QueueBind:
		k := [2]string{m.Exchange, m.RoutingKey}
		if !slices.Contains(h.bindings[k], m.Queue) {
			h.bindings[k] = append(h.bindings[k], m.Queue)
		}
		reply = &frames.QueueBindOk{}
	case *frames.QueueDeclare:
		m.Queue = ch.c.queueName(m.Queue)
		reply, no = ch.declare(m)
	case *frames.QueueDelete:
		reply, no = ch.delete(m)
	case *frames.BasicQos:
		reply = &frames.BasicQosOk{}
	case *frames.BasicConsume:
		m.Queue = ch.c.queueName(m.Queue)
		reply, no = ch.consume(m)
	case *frames.BasicPublish:
		ch.publish, ch.header, ch.body = m, nil, nil
	case *frames.BasicAck:
		ch.ack(m)
	}
	if no != nil {
		ch.end()
		reply = &frames.ChannelClose{ReplyCode: uint16(no.code), ReplyText: no.text}
	}
	if reply != nil {
		ch.c.send(ch.id, reply)
	}
	if m, ok := m.(*frames.BasicConsume); ok && no == nil && reply != nil {
		h.deliver(h.queues[m.Queue])
	}
}

// close answers the client's channel.close.
func (ch *hubChannel) close() {
	ch.end()
	ch.c.send(ch.id, &frames.ChannelCloseOk{})
}

func (ch *hubChannel) declare(m *frames.QueueDeclare) (frames.Method, *hubRefusal) {
	h := ch.c.h
	q := h.queues[m.Queue]
	h.asked = append(h.asked, "declare "+m.Queue)
	switch {
	case h.hung[m.Queue]:
		return nil, nil
	case h.down[m.Queue]:
		return nil, &hubRefusal{frames.NotFound, "NOT_FOUND - home node 'r@a' of durable queue is down or inaccessible"}
	case q != nil && q.owner != nil && q.owner != ch.c:
		return nil, &hubRefusal{frames.ResourceLocked, "RESOURCE_LOCKED"}
	case q == nil && m.Passive:
		return nil, &hubRefusal{frames.NotFound, "NOT_FOUND - no queue"}
	case q == nil:
		q = &hubQueue{name: m.Queue}
		if m.Exclusive {
			q.owner = ch.c
		}
		h.queues[m.Queue] = q
	}
	ok := &frames.QueueDeclareOk{Queue: m.Queue, MessageCount: uint32(len(q.ready))}
	if q.consumer != nil {
		ok.ConsumerCount = 1
	}
	return ok, nil
}

func (ch *hubChannel) delete(m *frames.QueueDelete) (frames.Method, *hubRefusal) {
	q := ch.c.h.queues[m.Queue]
	ch.c.h.asked = append(ch.c.h.asked, "delete "+m.Queue)
	switch {
	case ch.c.h.hung[m.Queue]:
		return nil, nil
	case ch.c.h.down[m.Queue]:
		return nil, &hubRefusal{frames.NotFound, "NOT_FOUND - home node 'r@a' of durable queue is down or inaccessible"}
	case q == nil:
		return &frames.QueueDeleteOk{}, nil
	case q.owner != nil && q.owner != ch.c:
		return nil, &hubRefusal{frames.ResourceLocked, "RESOURCE_LOCKED"}
	case m.IfEmpty && len(q.ready) > 0, m.IfUnused && q.consumer != nil:
		return nil, &hubRefusal{frames.PreconditionFailed, "PRECONDITION_FAILED - queue in use or not empty"}
	}
	ch.c.h.remove(m.Queue)
	return &frames.QueueDeleteOk{MessageCount: uint32(len(q.ready))}, nil
}

func (ch *hubChannel) consume(m *frames.BasicConsume) (frames.Method, *hubRefusal) {
	q := ch.c.h.queues[m.Queue]
	ch.c.h.asked = append(ch.c.h.asked, "consume "+m.Queue)
	switch {
	case ch.c.h.hung[m.Queue]:
		return nil, nil
	case q == nil:
		return nil, &hubRefusal{frames.NotFound, "NOT_FOUND - no queue"}
	case q.consumer != nil:
		return nil, &hubRefusal{frames.AccessRefused, "ACCESS_REFUSED - queue in exclusive use"}
	}
	q.consumer, q.alone, q.noAck, q.unacked = ch, m.Exclusive, m.NoAck, map[uint64]hubMessage{}
	q.tag, ch.reads = m.ConsumerTag, !m.Exclusive
	return &frames.BasicConsumeOk{ConsumerTag: m.ConsumerTag}, nil
}

func (ch *hubChannel) ack(m *frames.BasicAck) {
	for _, q := range ch.c.h.queues {
		if q.consumer == ch {
			delete(q.unacked, m.DeliveryTag)
		}
	}
}

// published routes a message that is complete.
func (ch *hubChannel) published() {
	h, m, message := ch.c.h, ch.publish, hubMessage{ch.header, ch.body}
	ch.publish, ch.header, ch.body, ch.c.published = nil, nil, nil, true
	if !h.exchanges[m.Exchange] {
		ch.end()
		ch.c.send(ch.id, &frames.ChannelClose{ReplyCode: uint16(frames.NotFound), ReplyText: "NOT_FOUND - no exchange '" + m.Exchange + "'"})
		return
	}
	queues := h.bindings[[2]string{m.Exchange, m.RoutingKey}]
	if len(queues) == 0 && m.Mandatory {
		ch.c.queue(ch.content(&frames.BasicReturn{ReplyCode: uint16(frames.NoRoute), Exchange: m.Exchange, RoutingKey: m.RoutingKey}, message))
	}
	for _, name := range queues {
		q := h.queues[name]
		q.ready = append(q.ready, message)
		h.deliver(q)
	}
	if !ch.confirm {
		return
	}
	ch.number++
	number := ch.number
	confirm := func() { ch.c.send(ch.id, &frames.BasicAck{DeliveryTag: number}) }
	if h.mute {
		h.confirms = append(h.confirms, confirm)
		return
	}
	confirm()
}
