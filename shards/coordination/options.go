package coordination

import "time"

// Timing is how long a Core waits for what. The zero value of a field stands for
// its default.
type Timing struct {
	// Announce is the time between a proxy's reports and between a leader's beats.
	Announce time.Duration
	// Coalesce is the least time between two reports, or two states, of a proxy.
	Coalesce time.Duration
	// Suspect is the silence after which a proxy that the broker says is not
	// connected is dead, Silent that after which any is; also how long a proxy goes
	// without a leader before it helps itself.
	Suspect, Silent time.Duration
	// Newcomers is how long a new leader waits for proxies it knows nothing of.
	Newcomers time.Duration
	// Sweep is the time between two looks for shards nobody consumes, while there
	// is no leader.
	Sweep time.Duration
	// Grace is the time from the last proxy's going over to a new set until what
	// left the set is unbound, Drain that from there until it may be deleted.
	Grace, Drain time.Duration
	// Retry is the first pause after something at the broker failed, RetryMost the
	// longest.
	Retry, RetryMost time.Duration
	// Forget is how long an exchange that no proxy reports is remembered at least.
	Forget time.Duration
	// Patience is how long publishes to an exchange may pause at a change of its
	// shards, and then the time until that is tried again; Settle the time from the
	// last proxy's pause until shards are judged to be empty.
	Patience, Settle time.Duration
	// Contrary is how long a proxy may want an exchange otherwise than was adopted
	// before that is worth a warning.
	Contrary time.Duration
}

func (t Timing) withDefaults() Timing {
	set := func(field *time.Duration, d time.Duration) {
		if *field == 0 {
			*field = d
		}
	}
	set(&t.Announce, time.Second)
	set(&t.Coalesce, 20*time.Millisecond)
	set(&t.Suspect, 1500*time.Millisecond)
	set(&t.Silent, 3*time.Second)
	set(&t.Newcomers, 500*time.Millisecond)
	set(&t.Sweep, 2*time.Second)
	set(&t.Grace, 5*time.Second)
	set(&t.Drain, time.Minute)
	set(&t.Retry, time.Second)
	set(&t.RetryMost, 5*time.Second)
	set(&t.Forget, time.Hour)
	set(&t.Patience, time.Minute)
	set(&t.Settle, 200*time.Millisecond)
	set(&t.Contrary, time.Minute)
	return t
}
