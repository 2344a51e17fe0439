package proxy

import (
	"encoding/binary"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
)

const (
	brokerFrameMax = 131072
	testPassword   = "tops3cret"
)

var (
	startMethod = &frames.ConnectionStart{VersionMinor: 9, Mechanisms: []byte("PLAIN AMQPLAIN"), Locales: []byte("en_US"),
		ServerProperties: frames.AppendString(nil, "product", "fake")}
	tuneMethod = &frames.ConnectionTune{ChannelMax: 2047, FrameMax: brokerFrameMax, Heartbeat: 60}
)

// startOk is a client's start-ok with these capabilities.
func startOk(capabilities ...string) *frames.ConnectionStartOk {
	var caps frames.Table
	for _, c := range capabilities {
		caps = frames.AppendBool(caps, c, true)
	}
	return &frames.ConnectionStartOk{Mechanism: "PLAIN", Response: []byte("\x00guest\x00" + testPassword), Locale: "en_US",
		ClientProperties: frames.AppendTable(frames.AppendString(nil, "product", "test"), "capabilities", caps)}
}

// begin connects a client up to the broker's start.
func (r *rig) begin() (client, broker *peer) {
	r.t.Helper()
	client = r.dial()
	client.write(frames.ProtocolHeader[:])
	broker = r.broker.accept()
	broker.send(0, startMethod)
	expect(client, &frames.ConnectionStart{})
	return client, broker
}

// open connects a client to the end of the handshake. frameMax is the client's choice, 0: what is offered.
func (r *rig) open(frameMax uint32) (client, broker *peer) {
	r.t.Helper()
	client, broker = r.begin()
	client.send(0, startOk("authentication_failure_close"))
	expect(broker, &frames.ConnectionStartOk{})
	broker.send(0, tuneMethod)
	tune := expect(client, &frames.ConnectionTune{})
	if frameMax == 0 {
		frameMax = tune.FrameMax
	}
	client.send(0, &frames.ConnectionTuneOk{ChannelMax: tune.ChannelMax, FrameMax: frameMax, Heartbeat: tune.Heartbeat},
		&frames.ConnectionOpen{VirtualHost: "/"})
	ok := expect(broker, &frames.ConnectionTuneOk{})
	require.Equal(r.t, min(frameMax+router.FrameRoom, brokerFrameMax), ok.FrameMax)
	expect(broker, &frames.ConnectionOpen{})
	broker.send(0, &frames.ConnectionOpenOk{})
	expect(client, &frames.ConnectionOpenOk{})
	return client, broker
}

// openChannel opens a channel too.
func (r *rig) openChannel(frameMax uint32) (client, broker *peer) {
	r.t.Helper()
	client, broker = r.open(frameMax)
	channelOn(client, broker, 1)
	return client, broker
}

func channelOn(client, broker *peer, id uint16) {
	client.t.Helper()
	client.send(id, &frames.ChannelOpen{})
	expect(broker, &frames.ChannelOpen{})
	broker.send(id, &frames.ChannelOpenOk{})
	expect(client, &frames.ChannelOpenOk{})
}

// roundTrip shows that the connection is alive both ways.
func roundTrip(client, broker *peer) {
	client.t.Helper()
	client.send(1, &frames.BasicQos{PrefetchCount: 7})
	expect(broker, &frames.BasicQos{})
	broker.send(1, &frames.BasicQosOk{})
	expect(client, &frames.BasicQosOk{})
}

// closeOk answers the connection.close that the proxy or the broker has sent, and returns it.
func closeOk(client *peer) *frames.ConnectionClose {
	client.t.Helper()
	m := expect(client, &frames.ConnectionClose{})
	client.send(0, &frames.ConnectionCloseOk{})
	return m
}

// contentHeader is the header frame of a message without properties.
func contentHeader(channel uint16, size int) []byte {
	p := binary.BigEndian.AppendUint32(nil, 60<<16)
	p = binary.BigEndian.AppendUint64(p, uint64(size))
	return frames.AppendFrame(nil, frames.TypeHeader, channel, append(p, 0, 0))
}

// content is a message: method, header, one body frame.
func content(channel uint16, m frames.Method, body []byte) []byte {
	b := frames.AppendMethod(nil, channel, m)
	b = append(b, contentHeader(channel, len(body))...)
	if len(body) > 0 {
		b = frames.AppendFrame(b, frames.TypeBody, channel, body)
	}
	return b
}

func publish(channel uint16, exchange string, body []byte) []byte {
	return content(channel, &frames.BasicPublish{Exchange: exchange, RoutingKey: "some.key"}, body)
}

func deliver(channel uint16, tag uint64, body []byte) []byte {
	return content(channel, &frames.BasicDeliver{ConsumerTag: "ctag", DeliveryTag: tag, Exchange: "x", RoutingKey: "some.key"}, body)
}

// pattern is n octets that tell when some are lost, doubled or out of order.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return b
}
