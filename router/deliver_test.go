package router_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// Deliveries from a shard that their routing key does not lead to are counted, unless they come again or came through the default exchange.
func TestUnshardedDeliveries(t *testing.T) {
	for name, feed := range map[string]func(w *twin, fs ...frames.Frame){
		"frames": func(w *twin, fs ...frames.Frame) {
			for _, f := range fs {
				w.broker(f)
			}
		},
		"runs": func(w *twin, fs ...frames.Frame) { w.brokerRead(fs...) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newTwin(t)
			x := w.exchange("images")
			astray := uint64(0)
			for i := range 20 {
				key := fmt.Sprintf("k%d", i)
				if x.State().Set.Pick(x.Policy().HashKey([]byte(key))) != 0 {
					astray++
				}
				for _, s := range []string{"exchange=images", "exchange=images redelivered", "exchange=\"\""} {
					w.tag++
					feed(w, parseFrame(words(fmt.Sprintf("1 basic.deliver consumer-tag=~0 delivery-tag=%d routing-key=%s %s", w.tag, key, s))),
						parseFrame(words("1 header size=0")))
				}
			}
			require.NotZero(t, astray)
			for _, s := range w.topo.Snapshot() {
				if s.Exchange == x.Name {
					require.Equal(t, astray, s.Unsharded)
				}
			}
		})
	}
}

// A message that is got has the header that its publisher sent, as one that is delivered has.
func TestGotHeadersAreRestored(t *testing.T) {
	header := parseFrame(words("3 header size=0 headers={}"))
	for _, s := range []string{"3 basic.deliver consumer-tag=plain delivery-tag=1 exchange=images routing-key=k", "3 basic.get-ok delivery-tag=2 exchange=images routing-key=k"} {
		w := newTwin(t)
		w.broker(parseFrame(words(s)))
		w.broker(header)
		require.Len(t, w.downs, 2)
		require.Equal(t, "3 header size=0", frameText(frames.Frame(w.downs[1])), s)
	}
}
