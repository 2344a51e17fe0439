package frames_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

func TestParsePublishAgreesWithTheCodec(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		var m frames.BasicPublish
		fill(t, rng, &m)
		p, ok := frames.ParsePublish(m.AppendArgs(nil))
		require.True(t, ok)
		require.Equal(t, m.Exchange, string(p.Exchange))
		require.Equal(t, m.RoutingKey, string(p.RoutingKey))
		require.Equal(t, m.Mandatory, p.Mandatory)
		require.Equal(t, m.Immediate, p.Immediate)
		require.Equal(t, len(p.Exchange), cap(p.Exchange))
		require.Equal(t, len(p.RoutingKey), cap(p.RoutingKey))
	}
}

func TestParseDeliverAgreesWithTheCodec(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for range 200 {
		var m frames.BasicDeliver
		fill(t, rng, &m)
		d, ok := frames.ParseDeliver(m.AppendArgs(nil))
		require.True(t, ok)
		require.Equal(t, m.ConsumerTag, string(d.ConsumerTag))
		require.Equal(t, m.DeliveryTag, d.DeliveryTag)
		require.Equal(t, m.Redelivered, d.Redelivered)
		require.Equal(t, m.Exchange, string(d.Exchange))
		require.Equal(t, m.RoutingKey, string(d.RoutingKey))
		for _, s := range [][]byte{d.ConsumerTag, d.Exchange, d.RoutingKey} {
			require.Equal(t, len(s), cap(s))
		}
	}
}

func TestViewsRefuseWrongLengths(t *testing.T) {
	publish := (&frames.BasicPublish{Exchange: "ex", RoutingKey: "key"}).AppendArgs(nil)
	deliver := (&frames.BasicDeliver{ConsumerTag: "tag", Exchange: "ex", RoutingKey: "key"}).AppendArgs(nil)
	for n := range publish {
		_, ok := frames.ParsePublish(publish[:n:n])
		require.False(t, ok, "%d octets", n)
	}
	for n := range deliver {
		_, ok := frames.ParseDeliver(deliver[:n:n])
		require.False(t, ok, "%d octets", n)
	}
	_, ok := frames.ParsePublish(append(publish, 0))
	require.False(t, ok)
	_, ok = frames.ParseDeliver(append(deliver, 0))
	require.False(t, ok)
	for _, at := range []int{2, 5} {
		lying := append([]byte(nil), publish...)
		lying[at] = 255
		_, ok := frames.ParsePublish(lying)
		require.False(t, ok)
	}
	for _, at := range []int{0, 13, 16} {
		lying := append([]byte(nil), deliver...)
		lying[at] = 255
		_, ok := frames.ParseDeliver(lying)
		require.False(t, ok)
	}
}

func TestParseAck(t *testing.T) {
	for bits := range byte(4) {
		args := []byte{1, 2, 3, 4, 5, 6, 7, 8, bits}
		const tag = 0x0102030405060708

		var ack frames.BasicAck
		require.NoError(t, ack.Decode(args))
		a, ok := frames.ParseAck(frames.BasicAckID, args)
		require.True(t, ok)
		require.Equal(t, frames.Ack{DeliveryTag: tag, Multiple: ack.Multiple}, a)

		var nack frames.BasicNack
		require.NoError(t, nack.Decode(args))
		a, ok = frames.ParseAck(frames.BasicNackID, args)
		require.True(t, ok)
		require.Equal(t, frames.Ack{DeliveryTag: tag, Multiple: nack.Multiple, Requeue: nack.Requeue}, a)

		var reject frames.BasicReject
		require.NoError(t, reject.Decode(args))
		a, ok = frames.ParseAck(frames.BasicRejectID, args)
		require.True(t, ok)
		require.Equal(t, frames.Ack{DeliveryTag: tag, Requeue: reject.Requeue}, a)

		_, ok = frames.ParseAck(frames.BasicRecoverID, args)
		require.False(t, ok)
	}
	for _, n := range []int{0, 8, 10} {
		_, ok := frames.ParseAck(frames.BasicAckID, make([]byte, n))
		require.False(t, ok)
	}
}

func TestAppendDeliverWithTag(t *testing.T) {
	m := frames.BasicDeliver{ConsumerTag: "upstream-tag", DeliveryTag: 9, Redelivered: true, Exchange: "ex", RoutingKey: "key"}
	f := frames.Frame(frames.AppendMethod(nil, 300, &m))
	for _, tag := range []string{"", "c", "upstream-tag", strings.Repeat("t", 255)} {
		want := m
		want.ConsumerTag = tag
		out := frames.AppendDeliverWithTag([]byte("before"), f, tag)
		require.Equal(t, append([]byte("before"), frames.AppendMethod(nil, 300, &want)...), out)
	}
	require.Equal(t, frames.AppendDeliverWithTag(nil, f, strings.Repeat("t", 255)), frames.AppendDeliverWithTag(nil, f, strings.Repeat("t", 256)))
}

func TestAppendDeliverWithTagKeepsOddOctets(t *testing.T) {
	// Unused bits beside redelivered, and octets behind the routing key.
	odd := frames.Frame(frames.AppendFrame(nil, frames.TypeMethod, 1, unhex(t, "003C003C 0161 0000000000000001 FF 00 00 99")))
	require.Equal(t, frames.AppendFrame(nil, frames.TypeMethod, 1, unhex(t, "003C003C 026263 0000000000000001 FF 00 00 99")),
		frames.AppendDeliverWithTag(nil, odd, "bc"))

	unchanged := []frames.Frame{
		frames.AppendFrame(nil, frames.TypeMethod, 1, unhex(t, "003C003C")),
		frames.AppendFrame(nil, frames.TypeMethod, 1, unhex(t, "003C003C 0561")),
		frames.AppendFrame(nil, frames.TypeBody, 1, unhex(t, "003C003C 0161 0000000000000001 00 00 00")),
		frames.AppendMethod(nil, 1, &frames.BasicConsumeOk{ConsumerTag: "t"}),
		frames.AppendFrame(nil, frames.TypeHeartbeat, 0, nil),
	}
	for _, f := range unchanged {
		require.Equal(t, []byte(f), frames.AppendDeliverWithTag(nil, f, "bc"))
	}
}
