package dispatch

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
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

// atLeast returns where in the ladder the shortest delay is that is not below d, or else the longest.
func atLeast(d time.Duration) int {
	i, _ := slices.BinarySearch(ladder, d)
	return min(i, len(ladder)-1)
}

// delayName is a delay in a queue's name, such as 1.5s.
func delayName(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}

const (
	// avoidTime is for how long a retry queue that confirms nothing is left alone.
	avoidTime = 10 * time.Minute
	// mostAvoided is how many such queues in a row are passed over: a job must not have to wait much longer for them.
	mostAvoided = 4
)

// rungs are the delays that retry queues are used for. A queue can be there and take nothing, such as a quorum queue of
// RabbitMQ 3.10 whose node was killed just after it had been declared: it never has a leader again. Jobs wait in the queue
// for the next longer delay then. Safe for concurrent use; the zero value avoids none.
type rungs struct {
	mu      sync.Mutex
	avoided map[time.Duration]time.Time // until when
}

// atLeast returns the shortest delay not below d whose queue is to be used.
func (r *rungs) atLeast(d time.Duration) time.Duration {
	now := time.Now()
	first := atLeast(d)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range ladder[first:min(first+mostAvoided+1, len(ladder))] {
		if !now.Before(r.avoided[d]) {
			return d
		}
	}
	return ladder[first]
}

// avoid has the queue of a delay left alone for a while, and reports whether that is new.
func (r *rungs) avoid(d time.Duration) bool {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.avoided == nil {
		r.avoided = map[time.Duration]time.Time{}
	}
	until := r.avoided[d]
	r.avoided[d] = now.Add(avoidTime)
	return !now.Before(until)
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
