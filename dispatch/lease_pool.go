package dispatch

import (
	"math/rand/v2"
	"strings"
	"time"

	"go.uber.org/zap"
)

// lessee keeps a pool's leases while a session stands. It belongs to the pool's loop, as the session's consumers do: so
// no executor begins between a look at how many there are and the end of a lease.
type lessee struct {
	p *Pool
	leases
	r    brokerRegistry
	next *time.Timer // never, if the job has no total
	told string      // the error that was logged last
}

func (p *Pool) lessee(s *session) *lessee {
	le := &lessee{p: p, leases: leases{total: p.job.Total}, r: brokerRegistry{s: s, job: p.job}, next: time.NewTimer(0)}
	if p.job.Total == 0 {
		le.next.Stop()
	}
	return le
}

// look is to be called when next fires.
func (le *lessee) look() {
	p := le.p
	p.mu.Lock()
	most, inUse := p.want, p.workers+p.line.leaving()
	if p.paused {
		most = 0
	}
	p.mu.Unlock()
	err := le.leases.look(&le.r, most, max(inUse, len(le.r.s.consumers)))
	if err != nil && err.Error() != le.told && !le.r.s.over() {
		le.told = err.Error()
		p.log.Warn("the executors of all processes cannot be counted; there are no more here until they can", zap.Error(err))
	} else if err == nil {
		le.told = ""
	}
	p.lease(le.usable, le.held)
	le.next.Reset(time.Duration(float64(leaseLook) * (0.75 + rand.Float64()/2)))
}

// end is to be called with the session, which takes its leases along.
func (le *lessee) end() {
	le.next.Stop()
	le.p.lease(0, 0)
}

// lease sets how many leases there are, and how many of them executors may have.
func (p *Pool) lease(usable, held int) {
	p.mu.Lock()
	same := p.usable == usable
	p.usable, p.held = usable, held
	p.mu.Unlock()
	if !same {
		p.setWorkers()
		p.kick()
	}
}

// executors is how many there may be here. Called with mu held.
func (p *Pool) executors() int {
	if p.job.Total > 0 {
		return min(p.want, p.usable)
	}
	return p.want
}

// queueOf is the queue of an executor's or a lease's consumer.
func (p *Pool) queueOf(tag string) string {
	if strings.HasPrefix(tag, leaseTag) {
		return p.job.leaseQueue()
	}
	return p.job.Queue
}
