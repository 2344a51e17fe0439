package dispatch

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// ladder holds the delays there are, in order. They are round numbers, each at most a third more than the one before, so
// that a job needs few retry queues and their names can be read.
var ladder = func() []time.Duration {
	var all []time.Duration
	for decade := ShortestDelay; ; decade *= 10 {
		for _, tenths := range []time.Duration{10, 12, 15, 20, 25, 30, 40, 50, 60, 80} {
			d := decade * tenths / 10
			if d >= LongestDelay {
				return append(all, LongestDelay)
			}
			all = append(all, d)
		}
	}
}()

// atLeast returns the shortest delay of the ladder that is not below d, and its name, such as 1.5s.
func atLeast(d time.Duration) (time.Duration, string) {
	i, _ := slices.BinarySearch(ladder, d)
	d = ladder[min(i, len(ladder)-1)]
	return d, strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}

// delay returns how long to wait after attempts attempts, from 1: it doubles from First up to Most, and is made up to a
// quarter shorter or longer, so that jobs that failed together do not come back together.
func (r Retry) delay(attempts int) time.Duration {
	d := r.Most
	if double := attempts - 1; double < 62 && r.First <= r.Most>>double {
		d = r.First << double
	}
	return time.Duration(float64(d) * (0.75 + rand.Float64()/2))
}
