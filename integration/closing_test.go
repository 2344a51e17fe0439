package integration

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// holder is a client that consumes a pseudo-queue over channels 1 and 2, each with attachments of its own, and acknowledges nothing.
type holder struct {
	*raw
	got map[uint16]int // deliveries, by channel
}

const heldMessages = 60

// holds publishes messages, has a new client take them all and returns it.
func (e *env) holds(t *testing.T, publisherURL, url, images string) (*holder, *probe) {
	t.Helper()
	publisher := confirming(t, publisherURL)
	declareSharded(t, publisher, images)
	shards := e.probe(images, 4)
	shards.waitMessages(0)
	h := &holder{raw: rawOpen(t, url), got: map[uint16]int{}}
	h.write(method(2, &frames.ChannelOpen{}))
	h.expect(2, &frames.ChannelOpenOk{})
	for _, ch := range []uint16{1, 2} {
		h.write(method(ch, &frames.BasicConsume{Queue: images}))
		h.expect(ch, &frames.BasicConsumeOk{}) // it has a shard now
	}
	shards.waitConsumers(1, 1, 1, 1)
	publishKeys(t, publisher, images, keys("key", heldMessages))
	for h.got[1]+h.got[2] < heldMessages {
		f, _ := h.delivery()
		require.NotNil(t, f)
	}
	require.Positive(t, h.got[1])
	require.Positive(t, h.got[2])
	return h, shards
}

// delivery reads a whole delivery, or one frame of anything else.
func (h *holder) delivery() (f frames.Frame, d *frames.BasicDeliver) {
	h.t.Helper()
	f, err := h.next()
	require.NoError(h.t, err)
	if f.Method() != frames.BasicDeliverID {
		return f, nil
	}
	d = &frames.BasicDeliver{}
	require.NoError(h.t, d.Decode(f.Args()))
	h.content(f.Channel())
	h.got[f.Channel()]++
	return f, d
}

// until reads up to a method, and returns how many messages came again meanwhile.
func (h *holder) until(m frames.Method) (again int) {
	h.t.Helper()
	for {
		f, d := h.delivery()
		switch {
		case d == nil:
			require.Equal(h.t, m.ID().String(), f.Method().String(), "%q", head(f, 300))
			require.NoError(h.t, m.Decode(f.Args()))
			return again
		case d.Redelivered:
			again++
		}
	}
}

// TestUnackedAreBack: what a client has not acknowledged is in its shards again when its close is answered, as without a proxy, and not when some
// time is over. After an end without a word it is there soon.
func TestUnackedAreBack(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	for name, end := range map[string]func(*holder){
		"close": func(h *holder) {
			h.write(method(0, &frames.ConnectionClose{ReplyCode: 200, ReplyText: "bye"}))
			h.until(&frames.ConnectionCloseOk{})
			require.Equal(t, heldMessages, sum(e.probe(images, 4).load().messages), "at once")
		},
		"close, not waiting": func(h *holder) {
			h.write(method(0, &frames.ConnectionClose{ReplyCode: 200, ReplyText: "bye"}))
			require.NoError(t, h.conn.Close())
		},
		"end": func(h *holder) { require.NoError(t, h.conn.Close()) },
		"reset": func(h *holder) {
			require.NoError(t, h.conn.(*net.TCPConn).SetLinger(0))
			require.NoError(t, h.conn.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, shards := e.holds(t, p.URL, p.URL, images)
			end(h)
			shards.waitMessages(heldMessages)
			shards.waitConsumers(0, 0, 0, 0)
			again := drain(t, open(t, p.URL), images)
			require.Len(t, again, heldMessages)
			for _, d := range again {
				require.True(t, d.Redelivered)
			}
		})
	}
}

// TestUnackedOfAChannelAreBack: likewise for one channel of several, closed by the client or by the broker, whose text comes through: another
// one's consumer gets its messages.
func TestUnackedOfAChannelAreBack(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	for name, end := range map[string]func(*holder) (again int){
		"by the client": func(h *holder) int {
			h.write(method(1, &frames.ChannelClose{ReplyCode: 200, ReplyText: "enough"}))
			return h.until(&frames.ChannelCloseOk{})
		},
		"by the broker": func(h *holder) int {
			h.write(method(1, &frames.BasicAck{DeliveryTag: 9999}))
			var end frames.ChannelClose
			again := h.until(&end)
			require.Equal(t, frames.PreconditionFailed, frames.Code(end.ReplyCode))
			require.Equal(t, "PRECONDITION_FAILED - unknown delivery tag 9999", end.ReplyText)
			h.write(method(1, &frames.ChannelCloseOk{}))
			return again
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, shards := e.holds(t, p.URL, p.URL, images)
			mine := h.got[1]
			for again := end(h); again < mine; {
				f, d := h.delivery()
				require.NotNil(t, d, "%q", head(f, 300))
				require.EqualValues(t, 2, f.Channel())
				require.True(t, d.Redelivered)
				again++
			}
			require.Equal(t, heldMessages, h.got[2])
			h.write(method(2, &frames.BasicAck{Multiple: true}), method(0, &frames.ConnectionClose{ReplyCode: 200}))
			h.until(&frames.ConnectionCloseOk{})
			require.Zero(t, sum(shards.load().messages), "all were acknowledged")
		})
	}
}

// TestCloseTextBehindDeliveries: what an operator says to a connection reaches a client that consumes over several channels, behind whole
// deliveries and before the socket ends; and what it holds is back.
func TestCloseTextBehindDeliveries(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	url, user := withUserOf(t, e, p.URL)
	h, shards := e.holds(t, p.URL, url, images)
	const more = 200
	publishKeys(t, confirming(t, p.URL), images, keys("more", more)) // on their way to the client, which does not read meanwhile
	e.closeConnectionsOf(user)
	var end frames.ConnectionClose
	require.Zero(t, h.until(&end))
	require.Equal(t, frames.ConnectionForced, frames.Code(end.ReplyCode))
	require.Contains(t, end.ReplyText, "time for tea")
	h.write(method(0, &frames.ConnectionCloseOk{}))
	_, err := h.next()
	require.ErrorIs(t, err, io.EOF)
	shards.waitMessages(heldMessages + more)
	shards.waitConsumers(0, 0, 0, 0)
}
