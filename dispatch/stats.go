package dispatch

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardmq/shardmq/dispatch/target"
)

type counter = atomic.Uint64

// recent is how many of the last attempts quantiles are of.
const recent = 1024

// stats is what a pool counts. Safe for concurrent use.
type stats struct {
	inFlight                               atomic.Int64 // requests
	done, dropped, dead, retried, repeated counter
	mu                                     sync.Mutex
	classes                                map[target.Class]uint64
	took                                   []time.Duration // a ring of the last attempts
	next                                   int
	failures                               []Failure // the last ones, the oldest first
	all                                    Took
}

// TookBounds are the bounds of Took's counts, in order.
var TookBounds = [...]time.Duration{
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute,
}

// Took is how long attempts took, since the start.
type Took struct {
	Count  uint64
	Sum    time.Duration
	Below  [len(TookBounds)]uint64 // attempts that took no longer than each bound
	failed uint64                  // attempts that were the endpoint's failures
}

func (s *stats) begin(n int64) { s.inFlight.Add(n) }
func (s *stats) end(n int64)   { s.inFlight.Add(-n) }

// count notes how an attempt went.
func (s *stats) count(o target.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.classes == nil {
		s.classes = map[target.Class]uint64{}
	}
	s.classes[o.Class]++
	if failed(o.Class) || o.RetryAfter > 0 {
		s.all.failed++
	}
	s.all.Count++
	s.all.Sum += o.Took
	for i := len(TookBounds) - 1; i >= 0 && o.Took <= TookBounds[i]; i-- {
		s.all.Below[i]++
	}
	if len(s.took) < recent {
		s.took = append(s.took, o.Took)
	} else {
		s.took[s.next] = o.Took
		s.next = (s.next + 1) % recent
	}
	if o.Verdict != target.Done {
		if len(s.failures) == keptFailures {
			s.failures = slices.Delete(s.failures, 0, 1)
		}
		s.failures = append(s.failures, Failure{At: time.Now(), Class: o.Class, Status: o.Status, Reason: o.Reason, Preview: o.Preview, Took: o.Took})
	}
}

// quantiles returns the times below which the given shares of the recent attempts were.
func (s *stats) quantiles(shares ...float64) []time.Duration {
	s.mu.Lock()
	sorted := slices.Clone(s.took)
	s.mu.Unlock()
	slices.Sort(sorted)
	out := make([]time.Duration, len(shares))
	for i, q := range shares {
		if len(sorted) > 0 {
			out[i] = sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
		}
	}
	return out
}

// keptFailures is how many of the last failures a status shows.
const keptFailures = 20

// Failure is an attempt that did not get a job done.
type Failure struct {
	At     time.Time
	Class  target.Class
	Status int
	Reason string
	// Preview is the beginning of the answer's body, which is not for everybody's eyes.
	Preview []byte
	Took    time.Duration
}
