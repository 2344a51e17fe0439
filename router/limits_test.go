package router_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/router"
	"github.com/shardmq/shardmq/shards"
)

// wire is a rig that records what leaves.
type wire struct {
	rig
	ups, downs []frames.Frame
	asks       []router.Ask
}

func newWire(t *testing.T) *wire {
	w := &wire{rig: rig{cluster: newCluster()}}
	w.cluster.addExchange(shards.ExchangeSpec{Name: "images", Type: "direct", Durable: true, AlternateExchange: "images.unsharded"})
	policy, err := shards.NewPolicy("images", "/", "^images$", 0, shards.Definition{ShardsPerNode: 2})
	require.NoError(t, err)
	w.start(t, nil, []*shards.Policy{policy})
	w.up = func(f frames.Frame) { w.ups = append(w.ups, append(frames.Frame(nil), f...)) }
	w.down = func(f frames.Frame) { w.downs = append(w.downs, append(frames.Frame(nil), f...)) }
	w.asked = func(a router.Ask) { w.asks = append(w.asks, a) }
	w.told = func(router.Ask) {}
	w.retarget = func(uint16, uint64, shards.Target) {}
	return w
}

func (w *wire) clientText(s string) { w.client(parseFrame(words(s))) }
func (w *wire) brokerText(s string) { w.broker(parseFrame(words(s))) }

// RabbitMQ 3.10 and 4.0 reset connections whose start-ok is longer than 4,096 octets: what the proxy adds is left out before that.
func TestStartOkStaysBelowLimit(t *testing.T) {
	startOk := func(filler int) frames.Frame {
		return parseFrame(words(fmt.Sprintf("0 connection.start-ok client-properties={filler=%q} mechanism=PLAIN response=secret locale=en_US", strings.Repeat("f", filler))))
	}
	base := len(startOk(0))
	sizes := map[string]int{} // largest frame of the client's with which each addition was still made
	for filler := 3700; filler < 4200; filler++ {
		w := newWire(t)
		f := startOk(filler)
		require.Len(t, f, base+filler)
		w.client(f)
		require.Len(t, w.ups, 1)
		if len(f) <= 4096 {
			require.LessOrEqual(t, len(w.ups[0]), 4096)
		}
		text := frameText(w.ups[0])
		for _, part := range []string{"client_address", "proxy", "consumer_cancel_notify", "connection.blocked", "filler"} {
			if strings.Contains(text, part) {
				sizes[part] = max(sizes[part], len(f))
			}
		}
		require.Contains(t, text, "response=secret")
	}
	require.Equal(t, sizes["client_address"], sizes["proxy"])
	require.Less(t, sizes["proxy"], sizes["connection.blocked"])
	require.Less(t, 3700+base, sizes["proxy"], "below the limit all is added")
	require.Equal(t, base+4199, sizes["filler"], "what is longer passes as it is")
}

// A header that fits the client's frame_max fits the broker's with the shard key, unless the broker's leaves no room at all.
func TestHeaderRoom(t *testing.T) {
	header := func(size int) frames.Frame {
		empty := len(parseFrame(words(`1 header size=0 headers={f=""}`)))
		return parseFrame(words(fmt.Sprintf("1 header size=0 headers={f=%q}", strings.Repeat("f", size-empty))))
	}
	tests := []struct {
		name           string
		broker, client int
		header         int
		fits           bool
	}{
		{"usual", 131072, 130048, 130048, true},
		{"smallest the client may choose", 131072, 4096, 4096, true},
		{"no room, small header", 4096, 4096, 3900, true},
		{"no room, full header", 4096, 4096, 4096, false},
		{"no limit of the broker's", 0, 131072, 131072, true},
		{"no limit at all", 0, 0, 300000, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWire(t)
			w.brokerText(fmt.Sprintf("0 connection.tune channel-max=1 frame-max=%d", test.broker))
			require.True(t, w.conn.Tuned())
			w.clientText(fmt.Sprintf("0 connection.tune-ok channel-max=1 frame-max=%d", test.client))
			require.EqualValues(t, test.client, w.conn.ClientFrameMax())
			var agreed frames.ConnectionTuneOk
			require.NoError(t, agreed.Decode(w.ups[0].Args()))
			w.clientText("0 connection.open virtual-host=/")
			require.Equal(t, "/", w.conn.Vhost())
			w.brokerText("0 connection.open-ok")
			w.clientText("1 channel.open")
			w.brokerText("1 channel.open-ok")
			w.clientText("1 basic.publish exchange=images routing-key=k0")
			w.conn.Answer(w.asks[0], w.answer(w.asks[0]))
			w.flush()
			w.ups, w.downs = nil, nil
			f := header(test.header)
			require.Len(t, f, test.header)
			w.client(f)
			require.Len(t, w.ups, 1)
			if !test.fits {
				require.Equal(t, frames.FrameError, w.conn.Raised().Code)
				require.True(t, w.conn.OwesCloseOk())
				require.Equal(t, frames.ConnectionCloseID, w.ups[0].Method())
				require.Equal(t, frames.ConnectionCloseID, w.downs[0].Method())
				return
			}
			require.Nil(t, w.conn.Raised())
			require.Contains(t, frameText(w.ups[0]), "BCC=")
			if agreed.FrameMax > 0 {
				require.LessOrEqual(t, len(w.ups[0]), int(agreed.FrameMax))
			}
		})
	}
}

// What the proxy asks a connection about.
func TestState(t *testing.T) {
	w := newWire(t)
	require.Zero(t, w.conn.ClientFrameMax())
	require.False(t, w.conn.Established() || w.conn.Closing() || w.conn.Closed() || w.conn.Tuned())
	require.Zero(t, w.conn.PendingUp()+w.conn.PendingDown())

	w = newWire(t)
	w.handshake("", 1)
	require.False(t, w.conn.ClientHolds(1))
	w.clientText("1 basic.publish exchange=images routing-key=k0")
	require.True(t, w.conn.ClientHolds(1))
	held := w.conn.HeldBytes()
	w.clientText("1 header size=3")
	w.clientText("1 body abc")
	require.Greater(t, w.conn.HeldBytes(), held)
	require.True(t, w.conn.Holding())
	require.Equal(t, 1, w.conn.Ops())
	require.Empty(t, w.conn.Rotating())
	w.conn.Answer(w.asks[0], w.answer(w.asks[0]))
	require.Positive(t, w.conn.PendingUp())
	w.flush()
	require.Len(t, w.ups, 3)
	require.False(t, w.conn.Holding() || w.conn.ClientHolds(1))
}
