package integration

import (
	"io"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// TestBadFrames: a client that breaks the framing is told the specification's code, and nobody else is touched.
func TestBadFrames(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4}, "--admin", "127.0.0.1:0")
	neighbour := confirming(t, p.URL)
	declareSharded(t, neighbour, images)
	publish(t, neighbour, images, "k", text("before"))
	defer leavesNothing(t, p)()
	publishTo := method(1, &frames.BasicPublish{Exchange: images, RoutingKey: "k"})
	for name, test := range map[string]struct {
		said  []byte
		codes []frames.Code
	}{
		"unknown frame type":    {[]byte{5, 0, 1, 0, 0, 0, 0, 0xce}, []frames.Code{frames.FrameError}},
		"wrong end octet":       {[]byte{1, 0, 1, 0, 0, 0, 4, 0, 20, 0, 40, 0xcd}, []frames.Code{frames.FrameError}},
		"a frame of 2 GiB":      {[]byte{3, 0, 1, 0x7f, 0xff, 0xff, 0xff, 'x'}, []frames.Code{frames.FrameError}},
		"a frame of 4 GiB":      {[]byte{1, 0, 1, 0xff, 0xff, 0xff, 0xff, 'x'}, []frames.Code{frames.FrameError}},
		"above frame-max":       {frames.AppendFrame(nil, frames.TypeBody, 1, body(140_000)), []frames.Code{frames.FrameError}},
		"arguments cut short":   {frames.AppendFrame(nil, 1, 1, []byte{0, 50, 0, 10, 0, 0, 9, 'q'}), []frames.Code{frames.SyntaxError, frames.FrameError}},
		"publish cut short":     {frames.AppendFrame(nil, 1, 1, []byte{0, 60, 0, 40, 0, 0, 200, 'q'}), []frames.Code{frames.SyntaxError, frames.FrameError}},
		"body without a header": {slices.Concat(publishTo, bodyFrame(1, "x")), []frames.Code{frames.UnexpectedFrame}},
		"body without a method": {bodyFrame(1, "x"), []frames.Code{frames.UnexpectedFrame}},
		"method in a content":   {slices.Concat(publishTo, method(1, &frames.BasicQos{})), []frames.Code{frames.UnexpectedFrame}},
		"more body than said":   {slices.Concat(publishTo, headerFrame(1, 2, 0, nil), bodyFrame(1, "xyz"), method(1, &frames.BasicQos{})), []frames.Code{frames.UnexpectedFrame, frames.FrameError}},
		"channel not open":      {method(7, &frames.QueueDeclare{Queue: images}), []frames.Code{frames.ChannelError}},
		"publish, not open":     {message(7, images, "k", "x"), []frames.Code{frames.ChannelError}},
		"method on channel 0":   {method(0, &frames.QueueDeclare{Queue: images}), []frames.Code{frames.CommandInvalid, frames.ChannelError, frames.UnexpectedFrame}},
		"connection on another": {method(1, &frames.ConnectionOpen{}), []frames.Code{frames.CommandInvalid, frames.ChannelError, frames.UnexpectedFrame}},
	} {
		t.Run(name, func(t *testing.T) {
			r := rawOpen(t, p.URL)
			r.write(test.said)
			var end frames.ConnectionClose
			r.expect(0, &end)
			require.Contains(t, test.codes, frames.Code(end.ReplyCode), "text: %s", end.ReplyText)
			require.NotEmpty(t, end.ReplyText)
			r.write(method(0, &frames.ConnectionCloseOk{}))
			publish(t, neighbour, images, "k", text("the neighbour's"))
		})
	}
}

// TestBadTuneOk: a tune-ok above what was offered is not allowed.
func TestBadTuneOk(t *testing.T) {
	t.Parallel()
	p := newEnv(t).proxy(nil, "--admin", "127.0.0.1:0")
	defer leavesNothing(t, p)()
	for name, adjust := range map[string]func(offered frames.ConnectionTune, ok *frames.ConnectionTuneOk){
		"frame-max": func(offered frames.ConnectionTune, ok *frames.ConnectionTuneOk) { ok.FrameMax = offered.FrameMax + 1 },
		"channel-max": func(offered frames.ConnectionTune, ok *frames.ConnectionTuneOk) {
			ok.ChannelMax = offered.ChannelMax + 1
		},
		"no limit": func(_ frames.ConnectionTune, ok *frames.ConnectionTuneOk) { ok.FrameMax = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			r := rawTCP(t, p.URL)
			r.authenticate(p.URL)
			r.expect(0, &r.tune)
			require.GreaterOrEqual(t, r.tune.FrameMax, uint32(frames.MinFrameMax))
			ok := frames.ConnectionTuneOk{ChannelMax: r.tune.ChannelMax, FrameMax: r.tune.FrameMax}
			adjust(r.tune, &ok)
			r.write(method(0, &ok))
			var end frames.ConnectionClose
			r.expect(0, &end)
			require.Equal(t, frames.NotAllowed, frames.Code(end.ReplyCode), "text: %s", end.ReplyText)
			r.write(method(0, &frames.ConnectionCloseOk{}))
		})
	}
}

// TestBrokerHangsUp: what makes the broker drop the connection without a word reaches it; the client is told what it did.
func TestBrokerHangsUp(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4}, "--admin", "127.0.0.1:0")
	declareSharded(t, open(t, p.URL), images)
	defer leavesNothing(t, p)()
	for name, said := range map[string][]byte{
		"unknown method": frames.AppendFrame(nil, frames.TypeMethod, 1, []byte{0, 60, 0, 99}),
		"unknown class":  frames.AppendFrame(nil, frames.TypeMethod, 1, []byte{0, 99, 0, 10}),
	} {
		t.Run(name, func(t *testing.T) {
			r := rawOpen(t, e.url)
			r.write(said)
			_, err := r.next()
			require.ErrorIs(t, err, io.EOF, "directly")
			r = rawOpen(t, p.URL)
			r.write(said)
			var end frames.ConnectionClose
			r.expect(0, &end)
			require.Equal(t, frames.CommandInvalid, frames.Code(end.ReplyCode), "text: %s", end.ReplyText)
		})
	}
}

// TestFrameRoom: the client is offered a little less than the broker's frame-max, and everything else as it is.
func TestFrameRoom(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.proxy(map[string]int{e.name("images"): 4})
	tune := func(url string) frames.ConnectionTune {
		r := rawTCP(t, url)
		r.login(url, nil)
		return r.tune
	}
	direct, proxied := tune(e.url), tune(p.URL)
	require.Less(t, proxied.FrameMax, direct.FrameMax)
	require.Greater(t, proxied.FrameMax, direct.FrameMax-4096)
	proxied.FrameMax = direct.FrameMax
	require.Equal(t, direct, proxied)
}

// TestLargestHeader: a header frame as large as the client may send reaches its shard, with the shard's key added.
func TestLargestHeader(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	declareSharded(t, open(t, p.URL), images)
	r := rawOpen(t, p.URL)
	r.write(method(1, &frames.ConfirmSelect{}))
	r.expect(1, &frames.ConfirmSelectOk{})
	key := strings.Repeat("word.", 50) + "words"
	// What is around the value: frame 8, header 14, table length 4, name and type 7, value length 4.
	room := int(r.tune.FrameMax) - 8 - 14 - 4 - 7 - 4
	table := frames.AppendString(nil, "large", string(body(room)))
	properties := append([]byte{byte(len(table) >> 24), byte(len(table) >> 16), byte(len(table) >> 8), byte(len(table))}, table...)
	header := headerFrame(1, 2, frames.FlagHeaders, properties)
	require.Len(t, header, int(r.tune.FrameMax))
	r.write(method(1, &frames.BasicPublish{Exchange: images, RoutingKey: key, Mandatory: true}), header, bodyFrame(1, "ok"))
	r.expect(1, &frames.BasicAck{})
	d, ok, err := open(t, p.URL).Get(images, true)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, key, d.RoutingKey)
	require.Equal(t, amqp.Table{"large": string(body(room))}, d.Headers)
}

// TestWrongProtocol: who speaks something else is told the version, as the broker does, and hung up on.
func TestWrongProtocol(t *testing.T) {
	t.Parallel()
	requireTransparent(t, func(t *testing.T, e *env, url string, tr *transcript) {
		for _, said := range []string{"AMQP\x00\x01\x00\x00", "AMQP\x01\x01\x00\x0a", "GET / HTTP/1.0\r\n\r\n", "12345678"} {
			r := rawTCP(t, url)
			r.write([]byte(said))
			answer := make([]byte, 100)
			n, err := r.conn.Read(answer)
			tr.add("%q: %q %v", said, answer[:n], err)
		}
	})
}
