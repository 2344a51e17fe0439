package dispatch

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
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
