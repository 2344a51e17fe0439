package control

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards/coordination"
)

// Nothing of another user's is believed: the broker lets nobody use a name that is not theirs.
func TestTransportForeign(t *testing.T) {
	within(t, func(t *testing.T, h *hub) {
		a := h.voice()
		pass(time.Second)
		require.NoError(t, a.Store(t.Context(), []byte("5")))
		h.putAs("other", coordination.StateQueue, "6")
		require.NoError(t, a.Send(t.Context(), []byte("mine")))
		pass(time.Millisecond)
		require.Equal(t, []string{"5"}, h.messages(coordination.StateQueue), "what is not a proxy's is acknowledged")
		require.Equal(t, []string{"mine"}, a.heard)
		inbox := ""
		h.do(func() {
			for name := range h.queues {
				if strings.HasPrefix(name, "shardmq.inbox.") {
					inbox = name
				}
			}
		})
		for _, user := range []string{"other", ""} {
			h.putAs(user, inbox, "forged")
		}
		pass(time.Millisecond)
		require.Equal(t, []string{"mine"}, a.heard)
		require.Len(t, a.warnings, 1, "once")
		a.close(t)
		h.putAs("other", coordination.StateQueue, "9")
		b := h.voice()
		pass(time.Second)
		require.Equal(t, "connected, elected 5", b.story())
		require.Equal(t, []string{"5"}, h.messages(coordination.StateQueue))
		b.close(t)
	})
}
