package dispatch

import "time"

// How leases are kept.
const (
	leaseLook = 500 * time.Millisecond // the time between two looks, give or take a quarter
	// leaseRest is how long a lease is kept before it is used. The broker may take away the leases of a killed process a
	// moment before its executors.
	leaseRest = time.Second
	leasePace = 64 // leases that are taken in one look at most
)

// sign is what processes show one another.
type sign int

const (
	member  sign = iota // it works on the job
	short               // it could use more leases, and has fewer than its share rounded up
	starved             // it could use more leases, and has fewer than its share rounded down
	signs
)

// tally is what a registry counts.
type tally struct {
	leases int
	shown  [signs]int // processes, by sign
}

// registry is where the processes that work on a job meet: a broker. It forgets a process that dies.
type registry interface {
	count() (tally, error)
	// take adds one to this process' leases, and give takes one away. There is no limit.
	take() error
	give() error
	show(s sign, on bool) error
}

// leases are those that one process has of the executors that all may have together. It is used by one goroutine.
//
// A lease is counted and not numbered: whoever wants one adds it, and counts only after that. If there are too many, he
// takes it away again before he has used it. So at any time those in use are no more than the total: take the one that
// was found good last. All others in use had been added before they were found good, hence before that count, which had
// them all and was not above the total.
//
// The share of each is the total by the number of processes. Signs make it even: those that have more than the share
// rounded down give back while somebody is starved, and those above the share rounded up while somebody is short; nobody
// takes what they are waiting for. Where nobody waits, what processes with fewer executors leave is for the others.
type leases struct {
	total int
	held  int       // fresh ones included
	fresh int       // those that are not to be used yet
	since time.Time // when those were taken
	shown [signs]bool
	// usable is how many executors there may be here. It is never more than held without fresh.
	usable int
}

// look keeps the leases for up to most executors, of which inUse are at work or have not ended yet. When it returns, no
// more than usable may be started. With an error, leases stay as they are.
func (l *leases) look(r registry, most, inUse int) error {
	if err := l.show(r, member, most > 0); err != nil {
		return err
	}
	all, err := r.count()
	if err != nil {
		return err
	}
	known := l.believe(all)
	goal := min(l.held, most)
	if known {
		goal = l.goal(min(most, l.total), all.shown)
	}
	l.usable = min(goal, l.held-l.fresh) // from here on there are only fewer in use
	tooMany := 0
	if known {
		tooMany = min(max(all.leases-l.total, 0), l.fresh)
	}
	for back := max(l.held-max(goal, inUse), tooMany); back > 0; back-- {
		if err := r.give(); err != nil {
			return err
		}
		l.held, l.fresh = l.held-1, max(l.fresh-1, 0)
	}
	switch {
	case !known || tooMany > 0:
	case l.fresh == 0:
		if err := l.take(r, min(goal-l.held, l.total-all.leases, leasePace)); err != nil {
			return err
		}
	case time.Since(l.since) >= leaseRest:
		l.fresh = 0
		l.usable = min(goal, l.held)
	}
	low, high := l.share(all.shown)
	if err := l.show(r, starved, known && l.held < min(most, low) || !known && l.shown[starved]); err != nil {
		return err
	}
	return l.show(r, short, known && l.held < min(most, high) || !known && l.shown[short])
}

// believe reports whether a count can be right. A quorum queue without a leader is said to have no consumers.
func (l *leases) believe(all tally) bool {
	for s, on := range l.shown {
		if on && all.shown[s] == 0 {
			return false
		}
	}
	return all.leases >= l.held
}

// share is this process' part of the total, rounded down, but at least one, and rounded up.
func (l *leases) share(shown [signs]int) (low, high int) {
	n := max(shown[member], 1)
	return max(l.total/n, 1), (l.total + n - 1) / n
}

// goal is how many leases there should be here.
func (l *leases) goal(most int, shown [signs]int) int {
	low, high := l.share(shown)
	for s, on := range l.shown {
		if on {
			shown[s]--
		}
	}
	// What is too much goes by halves: it takes the others a while to take it.
	switch held := l.held; {
	case held > most:
		return most
	case shown[starved] > 0 && held > low:
		return min(most, low+(held-low)/2)
	case shown[short] > 0 && held > high:
		return min(most, high+(held-high)/2)
	case shown[starved] > 0:
		return min(most, max(held, low))
	case shown[short] > 0:
		return min(most, max(held, high))
	}
	return most
}

func (l *leases) take(r registry, n int) error {
	l.since = time.Now()
	for range n {
		if err := r.take(); err != nil {
			return err
		}
		l.held, l.fresh = l.held+1, l.fresh+1
	}
	l.since = time.Now()
	return nil
}

func (l *leases) show(r registry, s sign, on bool) error {
	if l.shown[s] == on {
		return nil
	}
	if err := r.show(s, on); err != nil {
		return err
	}
	l.shown[s] = on
	return nil
}
