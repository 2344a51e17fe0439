package dispatch

import (
	"testing"
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
		d, name := atLeast(tc.asked)
		require.Equal(t, tc.given, d)
		require.Equal(t, tc.name, name)
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
