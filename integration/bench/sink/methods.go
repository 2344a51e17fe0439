package sink

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/shardmq/shardmq/frames"
)

// startMethod is the greeting. Its version is that of a RabbitMQ without a sharded exchange type of its own.
func startMethod() *frames.ConnectionStart {
	var can, properties frames.Table
	for _, name := range []string{
		"publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify", "connection.blocked",
		"consumer_priorities", "authentication_failure_close", "per_consumer_qos",
	} {
		can = frames.AppendBool(can, name, true)
	}
	properties = frames.AppendTable(properties, "capabilities", can)
	properties = frames.AppendString(properties, "cluster_name", NodeName)
	properties = frames.AppendString(properties, "product", "sink")
	properties = frames.AppendString(properties, "version", "3.10.8")
	return &frames.ConnectionStart{
		VersionMajor: 0, VersionMinor: 9, ServerProperties: properties,
		Mechanisms: []byte("PLAIN AMQPLAIN"), Locales: []byte("en_US"),
	}
}

// method handles everything but basic.publish. An error ends the connection and the run.
func (c *conn) method(f frames.Frame) error {
	id, number := f.Method(), f.Channel()
	m := frames.NewMethod(id)
	if m == nil {
		return fmt.Errorf("%s, which is unknown", id)
	}
	if err := m.Decode(f.Args()); err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	if number == 0 {
		return c.connectionMethod(m)
	}
	if id == frames.ChannelOpenID {
		return c.openChannel(number)
	}
	ch := c.channel(number)
	if ch == nil {
		return fmt.Errorf("%s on channel %d, which is not open", id, number)
	}
	switch {
	case id == frames.ChannelCloseID:
		c.closeChannel(number)
		return c.reply(number, &frames.ChannelCloseOk{})
	case id == frames.ChannelCloseOkID:
		c.closeChannel(number)
		return nil
	case ch.closing:
		return nil
	}
	answer, refusal := ch.answer(m, number)
	if refusal != nil {
		return c.refuse(ch, number, refusal)
	}
	if answer != nil {
		return c.reply(number, answer)
	}
	return nil
}

func (c *conn) reply(number uint16, m frames.Method) error {
	if err := c.send(number, m); err != nil {
		return errGone
	}
	return nil
}

func (c *conn) connectionMethod(m frames.Method) error {
	switch m := m.(type) {
	case *frames.ConnectionStartOk:
		return c.reply(0, &frames.ConnectionTune{ChannelMax: channelMax, FrameMax: frameMax, Heartbeat: 60})
	case *frames.ConnectionTuneOk:
		if m.Heartbeat > 0 {
			interval := time.Duration(m.Heartbeat) * time.Second
			c.helpers.Go(func() { c.beat(interval) })
		}
		return nil
	case *frames.ConnectionOpen:
		c.vhost = m.VirtualHost
		return c.reply(0, &frames.ConnectionOpenOk{})
	case *frames.ConnectionUpdateSecret:
		return c.reply(0, &frames.ConnectionUpdateSecretOk{})
	case *frames.ConnectionClose:
		_ = c.reply(0, &frames.ConnectionCloseOk{})
		return errGone
	case *frames.ConnectionCloseOk:
		return errGone
	}
	return fmt.Errorf("%s on channel 0", m.ID())
}

func (c *conn) openChannel(number uint16) error {
	if number > channelMax {
		return fmt.Errorf("channel %d, over the limit of %d", number, channelMax)
	}
	for len(c.channels) <= int(number) {
		c.channels = append(c.channels, nil)
	}
	if c.channels[number] != nil {
		return fmt.Errorf("channel %d opened twice", number)
	}
	c.channels[number] = &channel{conn: c, toSample: 1, consumers: map[string]string{}}
	return c.reply(number, &frames.ChannelOpenOk{})
}

func (c *conn) closeChannel(number uint16) {
	for queue := range maps.Values(c.channels[number].consumers) {
		c.sink.registry.consume(queue, -1)
	}
	c.channels[number] = nil
}

// refuse closes the channel, or the connection where the code demands that.
func (c *conn) refuse(ch *channel, number uint16, e *frames.Exception) error {
	if e.Code.Hard() {
		return c.reply(0, &frames.ConnectionClose{
			ReplyCode: uint16(e.Code), ReplyText: e.ReplyText(), ClassID: e.Method.Class(), MethodID: e.Method.Method()})
	}
	ch.closing = true
	return c.reply(number, &frames.ChannelClose{
		ReplyCode: uint16(e.Code), ReplyText: e.ReplyText(), ClassID: e.Method.Class(), MethodID: e.Method.Method()})
}

// answer returns the reply to a method on an open channel, nil for none, or the refusal.
func (ch *channel) answer(m frames.Method, number uint16) (frames.Method, *frames.Exception) {
	switch m.ID().Class() {
	case frames.ExchangeDeclareID.Class():
		return ch.exchangeMethod(m)
	case frames.QueueDeclareID.Class():
		return ch.queueMethod(m)
	case frames.BasicQosID.Class():
		return ch.basicMethod(m, number)
	}
	switch m := m.(type) {
	case *frames.ChannelFlow:
		return &frames.ChannelFlowOk{Active: m.Active}, nil
	case *frames.ConfirmSelect:
		ch.confirms = true
		return unless(m.NoWait, &frames.ConfirmSelectOk{})
	}
	return nil, unsupported(m)
}

func unsupported(m frames.Method) *frames.Exception {
	return &frames.Exception{Code: frames.NotImplemented, Text: fmt.Sprintf("the sink does not do %s", m.ID()), Method: m.ID()}
}

func unless(noWait bool, m frames.Method) (frames.Method, *frames.Exception) {
	if noWait {
		return nil, nil
	}
	return m, nil
}

func (ch *channel) exchangeMethod(m frames.Method) (frames.Method, *frames.Exception) {
	r := ch.conn.sink.registry
	switch m := m.(type) {
	case *frames.ExchangeDeclare:
		if strings.HasPrefix(m.Exchange, "shardmq.") { // what proxies tell each other the sink cannot carry: they go on alone
			return nil, &frames.Exception{Code: frames.AccessRefused, Text: fmt.Sprintf("access to exchange '%s' in vhost '/' refused for user 'guest'", m.Exchange), Method: m.ID()}
		}
		if e := r.declareExchange(m); e != nil {
			return nil, e
		}
		return unless(m.NoWait, &frames.ExchangeDeclareOk{})
	case *frames.ExchangeDelete:
		r.deleteExchange(m.Exchange)
		return unless(m.NoWait, &frames.ExchangeDeleteOk{})
	}
	return nil, unsupported(m)
}

func (ch *channel) queueMethod(m frames.Method) (frames.Method, *frames.Exception) {
	r := ch.conn.sink.registry
	switch m := m.(type) {
	case *frames.QueueDeclare:
		name, consumers, e := r.declareQueue(m)
		if e != nil {
			return nil, e
		}
		return unless(m.NoWait, &frames.QueueDeclareOk{Queue: name, ConsumerCount: consumers})
	case *frames.QueueBind:
		if e := r.bind(m); e != nil {
			return nil, e
		}
		return unless(m.NoWait, &frames.QueueBindOk{})
	case *frames.QueueUnbind:
		r.unbind(m)
		return &frames.QueueUnbindOk{}, nil
	case *frames.QueuePurge:
		return unless(m.NoWait, &frames.QueuePurgeOk{})
	case *frames.QueueDelete:
		r.deleteQueue(m.Queue)
		return unless(m.NoWait, &frames.QueueDeleteOk{})
	}
	return nil, unsupported(m)
}
