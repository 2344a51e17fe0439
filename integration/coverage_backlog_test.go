package integration

import (
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// TestCoverageBacklog: a shard with very many messages moves as quickly as any other. SOAK makes it a million.
func TestCoverageBacklog(t *testing.T) {
	n := 100_000
	if _, long := soak(t, 0); long {
		n = 1_000_000
	}
	e := newCtlEnv(t)
	f := e.fleet(fleetOptions{proxies: 2, exchange: "images", fixed: 4})
	w := f.watch(e.url, f.shards(4, 0))
	fill(t, f, n)
	l := newLedger()
	c := f.crowd(l, 1)
	// A consumer at a time: whichever of the two gets the full shard first, it has moved when the first one has left.
	first := c.join(0, 100, &backlogged{})
	w.wanted.Store(true)
	eventually(t, "messages at the first consumer", func() string { return atLeast(first.received(), 1000) })
	second := c.join(1, 100, &backlogged{})
	eventually(t, "messages at the second consumer", func() string { return atLeast(second.received(), 100) })
	before := second.received()
	first.leave(byCancel)
	left := w.await("the second consumer alone on every shard", each(1))
	eventually(t, "messages at the second consumer", func() string { return atLeast(second.received(), before+1000) })
	t.Logf("summary: %d messages in one shard, %d of them left; a leaver's shards were taken within %s; moves %d, longest uncovered time %s",
		n, n-first.received()-second.received(), left, f.moves(), w.longestAlone())
	require.LessOrEqual(t, left, takenWithin)
	require.LessOrEqual(t, w.longestAlone(), takenWithin)
	require.Empty(t, l.problems)
}

// fill publishes n small messages of one key.
func fill(t *testing.T, f *fleet, n int) {
	t.Helper()
	ch := confirming(t, f.url(0))
	confirms := make([]*amqp.DeferredConfirmation, 0, 200)
	for i := range n {
		c, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), f.o.exchange, "the-only-key", false, false, text("small"))
		require.NoError(t, err)
		if confirms = append(confirms, c); len(confirms) < cap(confirms) && i < n-1 {
			continue
		}
		for _, c := range confirms {
			acked, err := c.WaitContext(t.Context())
			require.NoError(t, err)
			require.True(t, acked)
		}
		confirms = confirms[:0]
	}
}

// backlogged members acknowledge what they have a moment after it came, so that the backlog lasts, and keep no books: there
// is too much to keep.
type backlogged struct{ unhurried }

func atLeast(have, want int) string {
	if have < want {
		return fmt.Sprintf("%d of %d have come", have, want)
	}
	return ""
}
