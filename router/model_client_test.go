package router_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardmq/shardmq/frames"
)

// modelClient is a client that does everything allowed, without waiting for answers, and checks what it gets.
type modelClient struct {
	fail     func(format string, args ...any)
	out      []frames.Frame // not yet read by the router
	chans    map[uint16]*clientChannel
	attached func(ch uint16, consumer int) bool // whether the broker has consumers of that one
	sent     map[string][]string                // message ids published, by life of a channel
	cut      map[string]bool                    // lives the broker has ended: what was sent last may not have arrived
	lives    int
	ids      int
}

type clientChannel struct {
	life      string
	closing   bool     // channel.close sent
	refused   bool     // something sent that the proxy refuses
	awaited   []waiter // answers to come, in order
	consumers map[string]*clientConsumer
	last      string // last declared queue
	prefetch  int
	confirm   bool
	tx        bool
	published uint64 // since confirm.select
	confirmed uint64
	unacked   []uint64
	noAckGets []bool // of gets under way
	header    bool   // awaited
	left      uint64
	sending   bool // a content is on its way out
}

type waiter struct {
	ids   []frames.MethodID
	check func(m frames.Method)
}

type clientConsumer struct {
	id       int
	noAck    bool
	prefetch int // 0: unlimited
	canceled bool
}

func newModelClient(fail func(string, ...any)) *modelClient {
	return &modelClient{fail: fail, chans: map[uint16]*clientChannel{}, sent: map[string][]string{}, cut: map[string]bool{}}
}

func (c *modelClient) send(ch uint16, m frames.Method) {
	c.out = append(c.out, frames.AppendMethod(nil, ch, m))
}

// request sends a method and awaits its answer; check may be nil.
func (c *modelClient) request(id uint16, m frames.Method, check func(frames.Method)) {
	c.send(id, m)
	ch := c.chans[id]
	ch.awaited = append(ch.awaited, waiter{m.ID().Reply(), check})
}

func (c *modelClient) open(id uint16) {
	c.lives++
	c.chans[id] = &clientChannel{life: fmt.Sprintf("%d.%d", id, c.lives), consumers: map[string]*clientConsumer{}}
	c.request(id, &frames.ChannelOpen{}, nil)
}

// publish sends a content with a body of that many frames.
func (c *modelClient) publish(id uint16, exchange, key string, bodies int) {
	ch := c.chans[id]
	mid := fmt.Sprintf("%s/%d", ch.life, len(c.sent[ch.life]))
	c.sent[ch.life] = append(c.sent[ch.life], mid)
	if ch.confirm {
		ch.published++
	}
	c.send(id, &frames.BasicPublish{Exchange: exchange, RoutingKey: key})
	c.out = append(c.out, frames.AppendFrame(nil, frames.TypeHeader, id,
		parseHeader([]string{fmt.Sprintf("size=%d", 2*bodies), "message-id=" + fmt.Sprintf("%q", mid)})))
	for range bodies {
		c.out = append(c.out, frames.AppendFrame(nil, frames.TypeBody, id, []byte("ab")))
	}
}

func (c *modelClient) consume(id uint16, queue string, noAck, noWait, named bool) {
	ch := c.chans[id]
	c.ids++
	k := &clientConsumer{id: c.ids, noAck: noAck}
	m := &frames.BasicConsume{Queue: queue, NoAck: noAck, NoWait: noWait, Arguments: frames.AppendInt32(nil, "id", int32(k.id))}
	if !noAck {
		k.prefetch = ch.prefetch
		m.Arguments = frames.AppendInt32(m.Arguments, "prefetch", int32(ch.prefetch))
	}
	if named || noWait {
		m.ConsumerTag = fmt.Sprintf("c%d", k.id)
		ch.consumers[m.ConsumerTag] = k
	}
	if noWait {
		c.send(id, m)
		return
	}
	c.request(id, m, func(r frames.Method) {
		tag := r.(*frames.BasicConsumeOk).ConsumerTag
		if m.ConsumerTag != "" && tag != m.ConsumerTag {
			c.fail("client: consume-ok for %q, not %q", tag, m.ConsumerTag)
		}
		if ch.consumers[tag] == nil {
			ch.consumers[tag] = k
		}
	})
}

func (c *modelClient) cancel(id uint16, tag string, noWait bool) {
	ch := c.chans[id]
	k := ch.consumers[tag]
	k.canceled = true
	m := &frames.BasicCancel{ConsumerTag: tag, NoWait: noWait}
	if noWait {
		c.send(id, m)
		return
	}
	c.request(id, m, func(r frames.Method) {
		if got := r.(*frames.BasicCancelOk).ConsumerTag; got != tag {
			c.fail("client: cancel-ok for %q, not %q", got, tag)
		}
		if c.attached(id, k.id) {
			c.fail("client: consumer %q is cancelled but the broker still has it", tag)
		}
		delete(ch.consumers, tag)
	})
}

// ackAll acknowledges everything.
func (c *modelClient) ackAll(id uint16) {
	c.send(id, &frames.BasicAck{Multiple: true})
	c.chans[id].unacked = nil
	if c.chans[id].tx {
		c.request(id, &frames.TxCommit{}, nil)
	}
}

// live lists the tags of consumers that have not been cancelled, in order.
func (ch *clientChannel) live() (tags []string) {
	for tag, k := range ch.consumers {
		if !k.canceled {
			tags = append(tags, tag)
		}
	}
	slices.Sort(tags)
	return tags
}

// take handles the next frame from the router.
func (c *modelClient) take(f frames.Frame) {
	id := f.Channel()
	ch := c.chans[id]
	if ch == nil {
		c.fail("client: %s on a channel that is not open", frameText(f))
	}
	if ch.header || ch.left > 0 {
		switch size := uint64(len(f.Payload())); {
		case ch.header && f.Type() == frames.TypeHeader:
			ch.header = false
			ch.left, _ = frames.ContentBodySize(f.Payload())
		case !ch.header && f.Type() == frames.TypeBody && size <= ch.left:
			ch.left -= size
		default:
			c.fail("client: %s inside a content", frameText(f))
		}
		return
	}
	if f.Type() != frames.TypeMethod {
		c.fail("client: %s outside of a content", frameText(f))
	}
	m := frames.NewMethod(f.Method())
	if err := m.Decode(f.Args()); err != nil {
		c.fail("client: %v", err)
	}
	if strings.Contains(frameText(f), tagPrefix) {
		c.fail("client: %s: a tag of the proxy's own", frameText(f))
	}
	switch m := m.(type) {
	case *frames.BasicDeliver:
		ch.header = true
		k := ch.consumers[m.ConsumerTag]
		if k == nil {
			c.fail("client: delivery for %q", m.ConsumerTag)
		}
		if !k.noAck {
			ch.unacked = append(ch.unacked, m.DeliveryTag)
		}
	case *frames.BasicAck:
		if ch.confirmed++; m.DeliveryTag != ch.confirmed || ch.confirmed > ch.published {
			c.fail("client: confirm %d of %d", m.DeliveryTag, ch.published)
		}
	case *frames.ChannelClose:
		refused := ch.refused && strings.HasPrefix(m.ReplyText, "PRECONDITION_FAILED - cannot delete")
		if m.ReplyText != "PRECONDITION_FAILED - test" && !refused {
			c.fail("client: %s", frameText(f))
		}
		c.cut[ch.life] = true
		c.send(id, &frames.ChannelCloseOk{})
		if ch.closing { // both at once: the broker's close-ok is still to come
			ch.awaited = []waiter{{frames.ChannelCloseID.Reply(), nil}}
			return
		}
		delete(c.chans, id)
	case *frames.ChannelCloseOk:
		if !ch.closing {
			c.fail("client: close-ok")
		}
		delete(c.chans, id)
	default:
		c.answer(ch, m)
	}
}

// answer takes the answer that was awaited next.
func (c *modelClient) answer(ch *clientChannel, m frames.Method) {
	if len(ch.awaited) == 0 || !slices.Contains(ch.awaited[0].ids, m.ID()) {
		if ch.closing && slices.ContainsFunc(ch.awaited, func(w waiter) bool { return slices.Contains(w.ids, m.ID()) }) {
			return // answers in between were given up
		}
		c.fail("client: %s is not what is awaited: %v", m.ID(), ch.awaited)
	}
	w := ch.awaited[0]
	ch.awaited = ch.awaited[1:]
	switch m := m.(type) {
	case *frames.BasicGetOk:
		ch.header = true
		if !ch.noAckGets[0] {
			ch.unacked = append(ch.unacked, m.DeliveryTag)
		}
		ch.noAckGets = ch.noAckGets[1:]
	case *frames.BasicGetEmpty:
		ch.noAckGets = ch.noAckGets[1:]
	case *frames.BasicRecoverOk:
		ch.unacked = nil
	}
	if w.check != nil {
		w.check(m)
	}
}
