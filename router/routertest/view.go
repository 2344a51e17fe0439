package routertest

import (
	"slices"
	"strings"

	"github.com/shardmq/shardmq/frames"
)

// view is one end's view of a channel.
type view struct {
	bad         bool
	open        bool
	said, heard bool // channel.close that is not answered yet: its own, the other's
	out, in     content
	asked       []frames.Method     // requests that are not answered yet
	own         map[string]struct{} // consumers of the proxy's own at the broker
	consumers   []string            // tags of all at the broker
	deliveries  uint64
}

// content is where one direction of a channel stands.
type content struct {
	header bool // comes next
	left   uint64
}

func (c *content) active() bool { return c.header || c.left > 0 }

// takes reports whether the frame may come now.
func (c *content) takes(f frames.Frame) (ok bool) {
	switch size := uint64(len(f.Payload())); f.Type() {
	case frames.TypeMethod:
		ok = !c.active()
		c.header = f.Method().HasContent()
	case frames.TypeHeader:
		ok = c.header
		c.header = false
		c.left, _ = frames.ContentBodySize(f.Payload())
	case frames.TypeBody:
		ok = !c.header && size <= c.left
		c.left -= min(c.left, size)
	}
	return ok
}

func (e *end) view(id uint16) *view {
	v := e.chans[id]
	if v == nil {
		v = &view{}
		e.chans[id] = v
	}
	return v
}

// sends notes a frame that the end sends.
func (e *end) sends(f frames.Frame) {
	id := f.Channel()
	if id != 0 {
		e.bad = e.bad || e.said || e.answered
		v := e.view(id)
		v.bad = !e.sendsOn(v, f) || v.bad
		return
	}
	if f.Type() == frames.TypeHeartbeat {
		e.bad = e.bad || e.said || e.answered
		return
	}
	m, ok := e.method(f)
	switch {
	case !ok:
		e.bad = true
	case m.ID() == frames.ConnectionCloseID:
		e.bad = e.bad || e.said || e.answered
		e.said = true
	case m.ID() == frames.ConnectionCloseOkID:
		e.bad = e.bad || !e.heard || e.answered
		e.answered = true
	default:
		e.bad = e.bad || e.said || e.answered
	}
}

// method is what a frame says, if that is something this end may say.
func (e *end) method(f frames.Frame) (m frames.Method, ok bool) {
	m = frames.NewMethod(f.Method())
	if m == nil || m.Decode(f.Args()) != nil {
		return nil, false
	}
	if e.client {
		return m, m.ID().FromClient()
	}
	return m, m.ID().FromServer()
}

// sendsOn reports whether the end may send the frame on the channel.
func (e *end) sendsOn(v *view, f frames.Frame) bool {
	if f.Type() != frames.TypeMethod {
		return v.open && !v.said && v.out.takes(f)
	}
	m, ok := e.method(f)
	if !ok {
		return false
	}
	switch m := m.(type) {
	case *frames.ChannelOpen:
		ok = !v.open && !v.bad
		*v = view{open: true, asked: []frames.Method{m}}
		return ok
	case *frames.ChannelClose:
		ok = v.open && !v.said && !v.out.active()
		v.said = true
		return ok
	case *frames.ChannelCloseOk:
		ok = v.heard && !v.out.active()
		v.heard, v.open = false, v.open && v.said
		return ok
	}
	ok = v.open && !v.said && v.out.takes(f)
	if e.client {
		v.ask(m)
		return ok && !strings.HasPrefix(consumerTag(m), e.prefix)
	}
	return v.answer(m, e.prefix) && ok
}

// answer reports whether the broker may send the method on the channel, as far as that depends on what it was asked.
func (v *view) answer(m frames.Method, prefix string) bool {
	tag := consumerTag(m)
	_, own := v.own[tag]
	ok := own || !strings.HasPrefix(tag, prefix)
	switch m := m.(type) {
	case *frames.BasicCancel:
		v.forget(tag)
		return ok
	case *frames.BasicDeliver:
		v.deliveries = max(v.deliveries, m.DeliveryTag)
		return ok
	case *frames.ChannelFlow:
		return ok
	}
	if !isReply[m.ID()] {
		return ok
	}
	if len(v.asked) == 0 || !slices.Contains(v.asked[0].ID().Reply(), m.ID()) {
		return false
	}
	request := v.asked[0]
	v.asked = v.asked[1:]
	switch m.(type) {
	case *frames.BasicConsumeOk:
		v.consumers = append(v.consumers, tag)
		return ok && (consumerTag(request) == tag || consumerTag(request) == "")
	case *frames.BasicCancelOk:
		v.forget(tag)
		return ok && consumerTag(request) == tag
	}
	return ok
}

func (v *view) forget(tag string) {
	delete(v.own, tag)
	v.consumers = slices.DeleteFunc(v.consumers, func(t string) bool { return t == tag })
}

// gets notes a frame that reaches the end, and says what is wrong with that; inContent: the frame breaks into a content.
func (e *end) gets(f frames.Frame) (why string, inContent bool) {
	id := f.Channel()
	m := frames.NewMethod(f.Method())
	if m != nil && m.Decode(f.Args()) != nil {
		m = nil
	}
	switch {
	case e.over || e.answered && !e.said:
		return "the connection is closed", false
	case id == 0:
		return e.getsControl(m), false
	case e.heard:
		return "behind connection.close", false
	}
	v := e.view(id)
	switch m := m.(type) {
	case *frames.ChannelOpen:
		if v.open {
			return "the channel is open", false
		}
		*v = view{bad: v.bad, open: true, asked: []frames.Method{m}, own: map[string]struct{}{}}
		return "", false
	case *frames.ChannelCloseOk:
		if !v.said {
			return "there is no channel.close to answer", false
		}
		v.said, v.open = false, v.heard
		if v.in.active() {
			return "out of order", true
		}
		return "", false
	}
	switch {
	case !v.open:
		why = "the channel is not open"
	case v.heard:
		why = "behind channel.close"
	}
	if !v.in.takes(f) {
		return "out of order", true
	}
	if why != "" || m == nil {
		return why, false
	}
	if m.ID() == frames.ChannelCloseID {
		v.heard = true
		return "", false
	}
	return e.getsMethod(v, m), false
}

func (e *end) getsControl(m frames.Method) string {
	switch m.(type) {
	case *frames.ConnectionClose:
		if e.heard {
			return "the second one"
		}
		e.heard = true
	case *frames.ConnectionCloseOk:
		if !e.said {
			return "there is no connection.close to answer"
		}
		e.over = true
	default:
		if e.heard {
			return "behind connection.close"
		}
	}
	return ""
}

// getsMethod notes a request that reaches the broker, or an answer that reaches the client.
func (e *end) getsMethod(v *view, m frames.Method) string {
	own := strings.HasPrefix(consumerTag(m), e.prefix)
	if !e.client {
		if _, consume := m.(*frames.BasicConsume); consume && own {
			v.own[consumerTag(m)] = struct{}{}
		}
		v.ask(m)
		return ""
	}
	if own {
		return "a consumer tag of the proxy's own"
	}
	if !isReply[m.ID()] {
		return ""
	}
	for len(v.asked) > 0 {
		request := v.asked[0]
		v.asked = v.asked[1:]
		if slices.Contains(request.ID().Reply(), m.ID()) {
			return ""
		}
		if !v.said && !e.said { // else what came before may go unanswered
			return "the answer to " + request.ID().String() + " comes first"
		}
	}
	return "nobody has asked"
}
