package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestLadder(t *testing.T) {
	require.Less(t, len(ladder), 64)
	for i := 1; i < len(ladder); i++ {
		require.Greater(t, ladder[i], ladder[i-1])
		require.LessOrEqual(t, float64(ladder[i]), 1.34*float64(ladder[i-1]), ladder[i])
	}
	for _, tc := range []struct {
		asked, given time.Duration
		name         string
	}{
		{0, 100 * time.Millisecond, "0.1s"},
		{time.Second, time.Second, "1s"},
		{5*time.Second + 1, 6 * time.Second, "6s"},
		{time.Minute + 59*time.Second, 2 * time.Minute, "120s"},
		{48 * time.Hour, 24 * time.Hour, "86400s"},
	} {
		d := ladder[atLeast(tc.asked)]
		require.Equal(t, tc.given, d)
		require.Equal(t, tc.name, delayName(d))
	}
}

// TestDelay: delays double from First to Most, give or take a quarter, however many attempts there were.
func TestDelay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Retry{First: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "first"))}
		r.Most = time.Duration(rapid.Int64Range(int64(r.First), int64(24*time.Hour)).Draw(t, "most"))
		attempts := rapid.IntRange(1, 200).Draw(t, "attempts")
		want := float64(r.First)
		for i := 1; i < attempts && want < float64(r.Most); i++ {
			want *= 2
		}
		want = min(want, float64(r.Most))
		got := float64(r.delay(attempts))
		require.GreaterOrEqual(t, got, want*0.75-1)
		require.LessOrEqual(t, got, want*1.25+1)
	})
}

// TestRungs: queues that are avoided are passed over, up to so many, until their time is over.
func TestRungs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rungs
		require.Equal(t, time.Second, r.atLeast(900*time.Millisecond))
		require.True(t, r.avoid(time.Second))
		require.False(t, r.avoid(time.Second), "known")
		require.Equal(t, 1200*time.Millisecond, r.atLeast(time.Second))
		require.Equal(t, 800*time.Millisecond, r.atLeast(700*time.Millisecond))

		first := atLeast(time.Second)
		for _, d := range ladder[first : first+mostAvoided] {
			r.avoid(d)
		}
		require.Equal(t, ladder[first+mostAvoided], r.atLeast(time.Second))
		r.avoid(ladder[first+mostAvoided])
		require.Equal(t, time.Second, r.atLeast(time.Second), "none near is any better")
		r.avoid(LongestDelay)
		require.Equal(t, LongestDelay, r.atLeast(2*LongestDelay))

		time.Sleep(avoidTime)
		require.Equal(t, 1200*time.Millisecond, r.atLeast(1100*time.Millisecond))
		require.True(t, r.avoid(time.Second))
	})
}
