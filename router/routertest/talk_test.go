package routertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// A judge that objects to nothing would let everything pass: what a proxy must not do is objected to, and only that.
func TestObjections(t *testing.T) {
	method := func(id uint16, m frames.Method) frames.Frame { return frames.AppendMethod(nil, id, m) }
	body := func(text string) frames.Frame { return frames.AppendFrame(nil, frames.TypeBody, 1, []byte(text)) }
	up := func(talk *Talk, f frames.Frame) string { talk.FromClient(f); return talk.ToBroker(f) }
	down := func(talk *Talk, f frames.Frame) string { talk.FromBroker(f); return talk.ToClient(f) }
	for name, c := range map[string]struct {
		do   func(talk *Talk) string
		want string
	}{
		"request and answer": {func(talk *Talk) string {
			return up(talk, method(1, &frames.QueueDeclare{Queue: "q"})) + down(talk, method(1, &frames.QueueDeclareOk{Queue: "q"}))
		}, ""},
		"an answer to nothing": {func(talk *Talk) string { return talk.ToClient(method(1, &frames.QueueDeclareOk{})) }, "nobody has asked"},
		"another answer": {func(talk *Talk) string {
			return up(talk, method(1, &frames.QueueDeclare{})) + up(talk, method(1, &frames.BasicQos{})) + talk.ToClient(method(1, &frames.BasicQosOk{}))
		}, "the answer to queue.declare comes first"},
		"a broken content": {func(talk *Talk) string {
			return up(talk, method(1, &frames.BasicPublish{})) + talk.ToBroker(method(1, &frames.BasicQos{}))
		}, "out of order"},
		"changed on the way": {func(talk *Talk) string {
			talk.FromClient(method(1, &frames.BasicQos{PrefetchCount: 1}))
			return talk.ToBroker(method(1, &frames.BasicQos{PrefetchCount: 2}))
		}, "not what was sent"},
		"changed, where that may be": {func(talk *Talk) string {
			talk.FromClient(method(1, &frames.QueueDeclare{Queue: "images"}))
			return talk.ToBroker(method(1, &frames.QueueDeclare{Queue: "other"}))
		}, ""},
		"lost on the way":            {func(talk *Talk) string { talk.FromClient(method(1, &frames.BasicQos{})); return talk.Rest() }, "have not arrived"},
		"a channel that is not open": {func(talk *Talk) string { return talk.ToBroker(method(2, &frames.BasicQos{})) }, "the channel is not open"},
		"the proxy's own tag":        {func(talk *Talk) string { return talk.ToClient(method(1, &frames.BasicDeliver{ConsumerTag: "~1"})) }, "a consumer tag of the proxy's own"},
		"two closes": {func(talk *Talk) string {
			return talk.ToClient(method(0, &frames.ConnectionClose{})) + talk.ToClient(method(0, &frames.ConnectionClose{}))
		}, "the second one"},
		"behind a close": {func(talk *Talk) string {
			return talk.ToClient(method(1, &frames.ChannelClose{})) + talk.ToClient(method(1, &frames.BasicDeliver{}))
		}, "behind channel.close"},
		"whoever breaks the protocol": {func(talk *Talk) string { return up(talk, body("x")) + up(talk, method(1, &frames.BasicQosOk{})) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			talk := New("~", "images")
			require.Empty(t, up(talk, method(1, &frames.ChannelOpen{}))+down(talk, method(1, &frames.ChannelOpenOk{})))
			got := c.do(talk)
			if c.want == "" {
				require.Empty(t, got)
				return
			}
			require.Contains(t, got, c.want)
		})
	}
}
