package sink

import (
	"encoding/binary"
	"fmt"

	"github.com/shardmq/shardmq/frames"
)

// Load is what a queue sends to each consumer that is attached to it: Count equal messages, as fast as the socket
// takes them. Acknowledgements and prefetch are not looked at.
type Load struct {
	Count                int
	Body                 []byte
	Exchange, RoutingKey string
}

// Load gives an existing or new queue something to deliver to consumers that attach from now on; nil: nothing.
func (s *Sink) Load(name string, l *Load) {
	r := s.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queues[name] == nil {
		r.queues[name] = &queue{durable: true}
	}
	r.queues[name].load = l
}

func (ch *channel) basicMethod(m frames.Method, number uint16) (frames.Method, *frames.Exception) {
	switch m := m.(type) {
	case *frames.BasicQos:
		return &frames.BasicQosOk{}, nil
	case *frames.BasicConsume:
		return ch.consume(m, number)
	case *frames.BasicCancel:
		if queue, ok := ch.consumers[m.ConsumerTag]; ok {
			delete(ch.consumers, m.ConsumerTag)
			ch.conn.sink.registry.consume(queue, -1)
		}
		return unless(m.NoWait, &frames.BasicCancelOk{ConsumerTag: m.ConsumerTag})
	case *frames.BasicGet:
		if _, ok := ch.conn.sink.registry.consume(m.Queue, 0); !ok {
			return nil, notFound("queue", m.Queue, m.ID())
		}
		return &frames.BasicGetEmpty{}, nil
	case *frames.BasicRecover:
		return &frames.BasicRecoverOk{}, nil
	case *frames.BasicAck, *frames.BasicNack, *frames.BasicReject, *frames.BasicRecoverAsync:
		return nil, nil
	}
	return nil, unsupported(m)
}

// consume attaches a consumer. There is no direct reply-to: amq.rabbitmq.reply-to is a queue that is not there.
func (ch *channel) consume(m *frames.BasicConsume, number uint16) (frames.Method, *frames.Exception) {
	load, ok := ch.conn.sink.registry.consume(m.Queue, 1)
	if !ok {
		return nil, notFound("queue", m.Queue, m.ID())
	}
	tag := m.ConsumerTag
	if tag == "" {
		ch.tags++
		tag = fmt.Sprintf("amq.ctag-%d", ch.tags)
	}
	ch.consumers[tag] = m.Queue
	if load == nil {
		return unless(m.NoWait, &frames.BasicConsumeOk{ConsumerTag: tag})
	}
	// The answer has to be written before the first delivery, so it is written here.
	if !m.NoWait {
		if err := ch.conn.send(number, &frames.BasicConsumeOk{ConsumerTag: tag}); err != nil {
			return nil, nil // the connection is gone; reading notices
		}
	}
	ch.conn.helpers.Go(func() { ch.blast(load, tag, number) })
	return nil, nil
}

// blastSize is how many octets of deliveries are written at a time.
const blastSize = 64 << 10

// blast sends a load to one consumer. Delivery tags count up over all consumers of the channel.
func (ch *channel) blast(l *Load, tag string, number uint16) {
	batch, tagAt, size := encodeBatch(l, tag, number)
	c := ch.conn
	for left := l.Count; left > 0; {
		n := min(left, len(batch)/size)
		c.mu.Lock()
		for i := range n {
			ch.delivered++
			binary.BigEndian.PutUint64(batch[i*size+tagAt:], ch.delivered)
		}
		_, err := c.net.Write(batch[:n*size])
		c.mu.Unlock()
		if err != nil {
			return
		}
		left -= n
	}
}

// encodeBatch encodes as many equal deliveries as make blastSize. A message is size octets long, with its delivery tag
// at tagAt.
func encodeBatch(l *Load, tag string, number uint16) (batch []byte, tagAt, size int) {
	one := frames.AppendMethod(nil, number, &frames.BasicDeliver{ConsumerTag: tag, Exchange: l.Exchange, RoutingKey: l.RoutingKey})
	one = AppendContent(one, number, l.Body)
	for len(batch) < blastSize {
		batch = append(batch, one...)
	}
	const idSize, tagLength = 4, 1 // class and method id, then the consumer tag's length octet
	return batch, frames.HeadSize + idSize + tagLength + len(tag), len(one)
}

// AppendContent appends a content header without properties and the body, in frames that the sink's frame_max allows.
func AppendContent(dst []byte, number uint16, body []byte) []byte {
	return AppendMessage(dst, number, nil, body)
}

// AppendMessage is AppendContent with a headers table; nil: none.
func AppendMessage(dst []byte, number uint16, headers frames.Table, body []byte) []byte {
	head := make([]byte, 0, 18+len(headers)) // section 4.2.6.1: class, weight, body size, property flags, properties
	head = binary.BigEndian.AppendUint16(head, frames.BasicPublishID.Class())
	head = binary.BigEndian.AppendUint16(head, 0)
	head = binary.BigEndian.AppendUint64(head, uint64(len(body)))
	if headers == nil {
		head = binary.BigEndian.AppendUint16(head, 0)
	} else {
		const flag = 1 << 13 // the third property
		head = binary.BigEndian.AppendUint16(head, flag)
		head = binary.BigEndian.AppendUint32(head, uint32(len(headers)))
		head = append(head, headers...)
	}
	dst = frames.AppendFrame(dst, frames.TypeHeader, number, head)
	for len(body) > 0 {
		n := min(len(body), frameMax-frames.Overhead)
		dst = frames.AppendFrame(dst, frames.TypeBody, number, body[:n])
		body = body[n:]
	}
	return dst
}
