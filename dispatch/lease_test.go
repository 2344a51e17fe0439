package dispatch

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLeases has processes come and go, be killed and paused: there are never more executors than the total, and soon
// after each change they are shared evenly, and all of them.
func TestLeases(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			c := &crowd{t: t, rand: rand.New(rand.NewPCG(seed, 1)), odd: seed%3 == 0}
			c.total = 1 + c.n(40)
			defer c.end()
			for range 12 {
				switch n := c.n(6); {
				case n < 3 || len(c.all) == 0:
					for range 1 + c.n(3) {
						c.join(c.total)
					}
				case n < 5:
					c.kill(c.some())
				default: // paused, and resumed
					p := c.some()
					p.scale(0)
					c.sleep(10 * time.Second)
					p.scale(c.total)
				}
				if c.n(2) == 0 { // or the next comes at once
					c.settle(time.Minute)
				}
			}
			c.settle(time.Minute)
		})
	}
}

// TestLeasesLeft: what a process cannot use is for the others.
func TestLeasesLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{t: t, rand: rand.New(rand.NewPCG(1, 2)), total: 12}
		defer c.end()
		each := func(want ...int) {
			time.Sleep(time.Minute)
			got, _ := c.executors()
			require.Equal(t, want, got)
		}
		first := c.join(2)
		c.join(12)
		c.join(3)
		each(2, 3, 7)
		first.scale(12)
		each(3, 4, 5) // the one that may have 3 leaves one
		first.scale(0)
		each(0, 3, 9)
	})
}

// TestLeasesMany: a great total is taken at a bounded pace, and what a killed process had is back within seconds.
func TestLeasesMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{t: t, rand: rand.New(rand.NewPCG(3, 4)), total: MaxExecutors}
		defer c.end()
		first := c.join(MaxExecutors)
		time.Sleep(5 * time.Second)
		_, sum := c.executors()
		require.NotZero(t, sum)
		require.LessOrEqual(t, sum, 5*leasePace)
		for range 3 {
			c.join(MaxExecutors)
		}
		c.settle(3 * time.Minute)
		c.kill(first)
		time.Sleep(10 * time.Second)
		_, sum = c.executors()
		require.Greater(t, sum, MaxExecutors*9/10)
		c.settle(3 * time.Minute)
	})
}

// TestLeasesGoal: what a process with 3 or more of 10 leases goes for, of three processes: 3 or 4 are its share.
func TestLeasesGoal(t *testing.T) {
	for _, c := range []struct {
		held, most     int
		starved, short int // others
		own            bool
		want           int
	}{
		{held: 3, most: 10, want: 10},
		{held: 3, most: 10, own: true, want: 10},
		{held: 3, most: 10, short: 1, want: 4},
		{held: 3, most: 10, short: 1, own: true, want: 4},
		{held: 3, most: 10, short: 2, starved: 1, want: 3},
		{held: 1, most: 10, short: 1, starved: 1, own: true, want: 3},
		{held: 1, most: 2, short: 1, starved: 1, want: 2},
		{held: 4, most: 10, short: 1, want: 4},
		{held: 4, most: 10, short: 1, starved: 1, want: 3},
		{held: 10, most: 10, short: 1, want: 7},
		{held: 10, most: 10, short: 1, starved: 1, want: 6},
		{held: 5, most: 10, short: 1, want: 4},
		{held: 6, most: 10, want: 10},
		{held: 6, most: 5, want: 5},
		{held: 6, most: 5, short: 1, starved: 1, want: 5},
		{held: 6, most: 0, want: 0},
	} {
		shown := [signs]int{member: 3, short: c.short, starved: c.starved}
		l := leases{total: 10, held: c.held}
		if c.own {
			l.shown[short], l.shown[starved] = true, true
			shown[short]++
			shown[starved]++
		}
		require.Equal(t, c.want, l.goal(c.most, shown), "%+v", c)
	}
}

// told is a registry that says what it is told to.
type told struct {
	tally
	err   error
	taken int
}

func (r *told) count() (tally, error) { return r.tally, r.err }
func (r *told) take() error           { r.taken++; return nil }
func (r *told) give() error           { r.taken--; return nil }
func (r *told) show(sign, bool) error { return nil }

// TestLeasesDoubt: only a count that has one's own leases in it, after their rest, makes these good.
func TestLeasesDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &told{tally: tally{shown: [signs]int{1, 1, 1}}}
		l := leases{total: 3}
		look := func(leases, taken, usable int) {
			t.Helper()
			r.leases = leases
			err := l.look(r, 3, l.usable)
			require.Equal(t, r.err, err)
			require.Equal(t, [2]int{taken, usable}, [2]int{r.taken, l.usable})
		}
		look(0, 3, 0)
		time.Sleep(2 * leaseRest)
		look(0, 3, 0) // which cannot be: there are its own
		look(2, 3, 0)
		r.shown[member] = 0
		look(3, 3, 0)
		r.shown[member] = 1
		r.err = errGone
		look(3, 3, 0)
		r.err = nil
		look(4, 2, 0) // another was too many as well, and it may be that he takes back the same
		look(3, 2, 2)
		look(3, 2, 2)
		r.err = errGone
		look(3, 2, 2)
		r.err = nil
		look(2, 3, 2)
		look(3, 3, 2) // not rested
		time.Sleep(leaseRest)
		look(3, 3, 3)
		look(9, 3, 3) // the others' are too many
	})
}
