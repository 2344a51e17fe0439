package router

import (
	"strings"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
)

// BrokerBody decides on a body frame from its head alone.
func (c *Conn) BrokerBody(h frames.Head) Verdict {
	if c.state == connClosingProxy || c.state == connClosed {
		return Drop
	}
	ch := c.channel(h.Channel)
	if ch == nil {
		return Forward
	}
	if ch.state == chanClosingProxy && !ch.finishing {
		return Drop
	}
	ch.down.body(h.Size)
	return Forward
}

// BrokerSent tells the router that the last octet of a body frame is through: what waited behind the content goes out.
func (c *Conn) BrokerSent(id uint16) {
	ch := c.channel(id)
	if ch == nil || ch.down.active() {
		return
	}
	c.contentEnd(ch)
}

func (c *Conn) contentEnd(ch *channel) {
	ch.finishing = false
	if len(ch.deferred) > 0 {
		c.down = append(c.down, ch.deferred...)
		ch.deferred = ch.deferred[:0]
	}
}

// BrokerFrame decides on one whole frame from the broker (a body frame goes to BrokerBody).
func (c *Conn) BrokerFrame(f frames.Frame) Verdict {
	id := f.Channel()
	if id == 0 {
		if f.Type() == frames.TypeHeartbeat || f.Method() == frames.ConnectionOpenOkID {
			c.fault = nil // it goes on
		}
		if f.Method() == frames.ConnectionCloseID {
			f = c.closeWords(f)
		}
		return c.brokerControl(f)
	}
	if f.Type() == frames.TypeMethod && f.Method() != frames.BasicDeliverID {
		c.answers++
	}
	if c.state == connClosingProxy || c.state == connClosed {
		return Drop
	}
	ch := c.channel(id)
	if ch == nil {
		return Forward
	}
	if f.Type() == frames.TypeHeader {
		return c.brokerHeader(ch, f)
	}
	if f.Type() != frames.TypeMethod {
		return Forward
	}
	m := f.Method()
	if ch.state == chanClosingProxy {
		return c.brokerClosingProxy(ch, m)
	}
	switch m {
	case frames.BasicDeliverID:
		return c.deliver(ch, f)
	case frames.BasicAckID, frames.BasicNackID:
		c.confirm(ch, m, f)
		return Forward
	case frames.BasicReturnID:
		var m frames.BasicReturn
		if m.Decode(f.Args()) == nil {
			c.beginContent(ch, []byte(m.Exchange), []byte(m.RoutingKey))
		}
		return Forward
	case frames.BasicCancelID:
		return c.brokerCancel(ch, f)
	case frames.ChannelCloseID:
		return c.brokerClose(ch, f)
	case frames.ChannelCloseOkID:
		c.dropChannel(ch)
		return Forward
	}
	return c.brokerReply(ch, m, f)
}

func (c *Conn) brokerHeader(ch *channel, f frames.Frame) Verdict {
	if ch.state == chanClosingProxy && !ch.finishing {
		return Drop
	}
	ch.down.header(f)
	v := Forward
	if c.restoreHeader(ch, f) {
		v = Drop
	}
	if !ch.down.active() {
		if v == Forward {
			c.down = append(c.down, f...)
		}
		c.contentEnd(ch)
		v = Drop
	}
	return v
}

// brokerReply handles the broker's reply to a request, the client's or the proxy's.
func (c *Conn) brokerReply(ch *channel, m frames.MethodID, f frames.Frame) Verdict {
	if !m.Known() || m == frames.ChannelFlowID {
		return Forward // no reply
	}
	if ch.swallow > 0 {
		return c.swallow(ch, m, f)
	}
	if o := ch.op; o != nil && o.want > 0 && ch.outstanding == 0 {
		return o.reply(f)
	}
	switch m {
	case frames.BasicGetOkID:
		c.gotContent(ch, f)
	case frames.BasicConsumeOkID:
		var ok frames.BasicConsumeOk
		if c.dir != nil && ok.Decode(f.Args()) == nil {
			ch.ownTag(ok.ConsumerTag)
		}
	case frames.BasicCancelOkID:
		var ok frames.BasicCancelOk
		if len(ch.tags) > 0 && ok.Decode(f.Args()) == nil {
			delete(ch.tags, ok.ConsumerTag)
		}
	case frames.TxCommitOkID:
		c.committed(ch)
	case frames.BasicRecoverOkID:
		c.recover(ch)
	}
	if ch.outstanding > 0 {
		ch.outstanding--
		if ch.outstanding == 0 && (ch.dirty || len(ch.held) > 0) {
			// The reply itself comes first: what is held may be answered at once.
			c.down = append(c.down, f...)
			c.settle(ch)
			return Drop
		}
	}
	return Forward
}

// swallow drops a reply to a composition that has been given up, unless a content follows for which the client needs it.
func (c *Conn) swallow(ch *channel, m frames.MethodID, f frames.Frame) Verdict {
	ch.swallow--
	switch m {
	case frames.BasicGetOkID: // the client did ask for a message
		c.gotContent(ch, f)
		return Forward
	case frames.BasicConsumeOkID:
		var ok frames.BasicConsumeOk
		if ok.Decode(f.Args()) == nil {
			if a := c.attachmentOf(ch, []byte(ok.ConsumerTag)); a != nil {
				c.confirmConsume(ch, a.of)
			}
		}
	}
	return Drop
}

// brokerClose passes the broker's channel.close. What the client sends on the channel from now on is dropped until its close-ok.
func (c *Conn) brokerClose(ch *channel, f frames.Frame) Verdict {
	if ch.state == chanClosingBroker && ch.declared {
		return Drop // it goes on to complain of requests that name no queue, for it has not heard of the pseudo-queue which they mean
	}
	ch.state = chanClosingBroker
	c.unfence(ch)
	ch.down = content{}
	ch.deferred = nil
	v := Forward
	var m frames.ChannelClose
	c.reportLostType(ch, f)
	if (ch.op != nil || len(ch.consumers) > 0) && m.Decode(f.Args()) == nil {
		c.reportRefusal(ch.op, &m)
		if c.editClose(ch, &m) {
			c.down = frames.AppendMethod(c.down, ch.id, &m)
			v = Drop
		}
	}
	c.answerHeldClose(ch)
	c.forgetConsumers(ch)
	c.endOp(ch)
	c.clearHeld(ch)
	c.afterHold()
	return v
}

// reportRefusal tells the operator of a right that a client's user lacks for what the proxy does in its name: without shards it needed none of that.
func (c *Conn) reportRefusal(o *op, m *frames.ChannelClose) {
	if o == nil || o.exchange == nil || m.ReplyCode != uint16(frames.AccessRefused) || strings.HasSuffix(m.ReplyText, "in exclusive use") {
		return
	}
	right := "read" // consume, get, purge
	if m.ClassID == frames.ExchangeDeclareID.Class() {
		right = "configure, or read and write for the alternate exchange"
	}
	c.asks = append(c.asks, Ask{Kind: AskLog, Exchange: o.exchange, Text: "a client's user lacks a right (" + right + "): " + m.ReplyText})
}

// reportLostType tells the operator, once per connection, of an exchange that can take no message because the plugin that its type came
// with is off: the broker says so to publishers only.
func (c *Conn) reportLostType(ch *channel, f frames.Frame) {
	var m frames.ChannelClose
	if ch.native == nil || c.typeLost || m.Decode(f.Args()) != nil || !strings.Contains(m.ReplyText, "exchange type "+shards.ModulusHash) {
		return
	}
	c.typeLost = true
	c.asks = append(c.asks, Ask{Kind: AskLog, Exchange: ch.native, Text: "the broker does not know the exchange's type " + shards.ModulusHash +
		" any more and refuses every publish: delete the exchange and declare it again through shardmq, as docs/migrating-from-the-plugin.md says"})
}

// editClose words a refusal of something the running op did for the client in the client's terms, and reports whether that changed it.
func (c *Conn) editClose(ch *channel, m *frames.ChannelClose) bool {
	text, id := m.ReplyText, frames.MethodID(m.ClassID)<<16|frames.MethodID(m.MethodID)
	if ch.op == nil || id == frames.BasicConsumeID || id == frames.BasicGetID || id == frames.QueuePurgeID {
		text = ch.aboutShard(text)
	}
	if ch.translated != nil {
		r := c.dir.Lookup([]byte(ch.translated.Exchange))
		text = ownTerms(text, ch.translated, r != nil && r.Exchange != nil && r.Exchange.State().Mode == shards.Sharded)
	}
	if ch.op != nil && id == frames.ExchangeDeclareID && ch.op.method == frames.QueueDeclareID { // createExchange
		m.ClassID, m.MethodID = ch.op.method.Class(), ch.op.method.Method()
	} else if text == m.ReplyText {
		return false
	}
	m.ReplyText = replyText(m.ReplyCode, text)
	return true
}

// brokerClosingProxy drops what the broker sends on a channel that the proxy has closed. For the client no content begins.
func (c *Conn) brokerClosingProxy(ch *channel, m frames.MethodID) Verdict {
	switch m {
	case frames.ChannelCloseID: // both at once
		c.sendUp(ch, &frames.ChannelCloseOk{})
		c.unfence(ch)
		c.forgetConsumers(ch)
	case frames.ChannelCloseOkID:
		ch.brokerOK = true
		c.unfence(ch)
		c.forgetConsumers(ch) // only now has the broker taken back what they had
		c.closed(ch)
	}
	return Drop
}
