package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPace plays an endpoint that can do so many at once and slows down beyond: the number of executors comes to be about
// that, follows when it changes, and stays within its bounds.
func TestPace(t *testing.T) {
	a := Auto{Min: 2, Max: 50}
	var p pace
	now := a.Min
	play := func(windows, capacity int, failing bool) (least, most int) {
		least = a.Max
		for i := range windows {
			took := 100 * time.Millisecond
			if now > capacity {
				took = took * time.Duration(now) / time.Duration(capacity)
			}
			w := window{attempts: 100, took: took, busy: true}
			if failing {
				w.failures = 50
			}
			now = p.next(a, now, w)
			require.GreaterOrEqual(t, now, a.Min)
			require.LessOrEqual(t, now, a.Max)
			if i > windows/2 { // settled
				least, most = min(least, now), max(most, now)
			}
		}
		return least, most
	}
	least, most := play(60, 10, false)
	require.Greater(t, least, 5)
	require.Less(t, most, 30)
	_, most = play(5000, 10, false)
	require.Less(t, most, 30, "nor does it creep up in hours")
	_, most = play(40, 10, true)
	require.Equal(t, a.Min, most)
	least, _ = play(200, 1000, false)
	require.Equal(t, a.Max, least)
	slower := func(windows int) { // for good
		for range windows {
			now = p.next(a, now, window{attempts: 100, took: time.Second, busy: true})
		}
	}
	slower(10)
	require.Less(t, now, 10, "it may be because of too many")
	slower(100)
	require.Equal(t, a.Max, now, "it was not")
	for range 100 {
		now = p.next(a, now, window{idle: true})
	}
	require.Equal(t, a.Min, now)
	require.Equal(t, a.Min, p.next(a, now, window{}), "nothing happened")
}
