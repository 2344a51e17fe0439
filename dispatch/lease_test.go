package dispatch

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// crowd is several processes that share a total, at a broker where every request takes a moment.
type crowd struct {
	t     *testing.T
	total int
	odd   bool // counts are 0 at times, as those of a quorum queue that elects a leader

	running sync.WaitGroup
	mu      sync.Mutex
	rand    *rand.Rand
	all     []*process
}

// process is one of them, with executors that do as they are told, though not at once.
type process struct {
	*crowd
	leases
	most    int
	gone    bool // its leases are gone, and so are its signs
	taken   int  // at the broker
	marks   [signs]bool
	may     int // executors, by the last look
	working int // executors
}

// n is a random number.
func (c *crowd) n(below int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rand.IntN(below)
}

func (c *crowd) sleep(most time.Duration) { time.Sleep(time.Duration(c.n(int(most)))) }

func (c *crowd) moment() { c.sleep(5 * time.Millisecond) }

func (p *process) count() (t tally, err error) {
	p.moment()
	defer p.moment()
	if p.odd && p.n(2) == 0 {
		return t, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, other := range p.all {
		t.leases += other.taken
		for s, on := range other.marks {
			if on {
				t.shown[s]++
			}
		}
	}
	return t, nil
}

func (p *process) take() error { return p.change(func() { p.taken++ }) }
func (p *process) give() error { return p.change(func() { p.taken-- }) }
func (p *process) show(s sign, on bool) error {
	return p.change(func() { p.marks[s] = on })
}

func (p *process) change(do func()) error {
	p.moment()
	defer p.moment()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return errGone
	}
	do()
	return nil
}

// join starts a process that may have up to most executors.
func (c *crowd) join(most int) *process {
	p := &process{crowd: c, leases: leases{total: c.total}, most: most}
	c.mu.Lock()
	c.all = append(c.all, p)
	c.mu.Unlock()
	c.running.Go(func() {
		for p.lives(nil) {
			c.mu.Lock()
			most, working := p.most, p.working
			c.mu.Unlock()
			err := p.look(p, most, working)
			alive := p.lives(func() {
				p.may = p.usable
				p.working = max(p.working, p.may)
				c.check()
			})
			if err != nil && alive {
				c.t.Error(err)
			}
			time.Sleep(leaseLook * 3 / 4)
			c.sleep(leaseLook / 2)
		}
	})
	c.running.Go(func() { // jobs end one by one
		for p.lives(func() { p.working = max(p.working-1, min(p.working, p.may)) }) {
			c.sleep(300 * time.Millisecond)
		}
	})
	return p
}

// lives does something if the process is alive, and reports whether it is.
func (p *process) lives(do func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone && do != nil {
		do()
	}
	return !p.gone
}

// check finds that there are no more executors than there may be. Called with mu held.
func (c *crowd) check() {
	sum := 0
	for _, p := range c.all {
		sum += p.working
	}
	if sum > c.total {
		c.t.Errorf("%d executors, more than %d", sum, c.total)
	}
}

// kill ends a process: the broker forgets its leases, and a moment later its executors.
func (c *crowd) kill(p *process) {
	c.mu.Lock()
	p.gone, p.taken, p.marks = true, 0, [signs]bool{}
	c.mu.Unlock()
	c.sleep(leaseRest * 9 / 10)
	c.mu.Lock()
	defer c.mu.Unlock()
	p.working = 0
	c.all = slices.DeleteFunc(c.all, func(other *process) bool { return other == p })
}

// scale sets the most of a process.
func (p *process) scale(most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.most = most
}

// executors are those of each process, the fewest first.
func (c *crowd) executors() (each []int, sum int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.all {
		each = append(each, p.working)
		sum += p.working
	}
	slices.Sort(each)
	return each, sum
}

// some is one of the processes.
func (c *crowd) some() *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[c.rand.IntN(len(c.all))]
}

// settle lets time pass, and requires that processes have what they should.
func (c *crowd) settle(after time.Duration) {
	time.Sleep(after)
	each, sum := c.executors()
	if len(each) == 0 {
		return
	}
	require.Equal(c.t, c.total, sum, "all of them are in use: %v", each)
	require.LessOrEqual(c.t, each[len(each)-1]-each[0], 1, "shared evenly: %v", each)
}

// end stops all processes, so that their goroutines end.
func (c *crowd) end() {
	for len(c.all) > 0 {
		c.kill(c.all[0])
	}
	c.running.Wait()
}

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
