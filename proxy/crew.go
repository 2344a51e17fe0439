package proxy

import (
	"sync/atomic"
	"time"
)

// How many goroutines of a crew wait for work at most, and for how long.
const (
	mostIdle = 32
	idleTime = time.Second
)

// crew runs functions in goroutines of their own. Some that are done stay a while for the next: greeting a client and relaying use
// more stack than a goroutine begins with, and growing that costs as much as several reads. Safe for concurrent use.
type crew struct {
	next chan func() // taken by one that waits
	idle atomic.Int32
	over chan struct{} // closed when nobody has to stay any more
}

func newCrew() *crew { return &crew{next: make(chan func()), over: make(chan struct{})} }

// start runs f and does not wait for it.
func (c *crew) start(f func()) {
	select {
	case c.next <- f:
	default:
		go c.work(f)
	}
}

func (c *crew) work(f func()) {
	leave := time.NewTimer(idleTime)
	defer leave.Stop()
	for {
		f()
		if c.idle.Add(1) > mostIdle {
			c.idle.Add(-1)
			return
		}
		leave.Reset(idleTime)
		select {
		case f = <-c.next:
			c.idle.Add(-1)
		case <-leave.C:
			c.idle.Add(-1)
			return
		case <-c.over:
			return
		}
	}
}
