package dispatch

import (
	"context"
	"time"
)

// closeWithin is how long a broker may take to answer at the end, besides the drain time.
const closeWithin = 5 * time.Second

// hangUpLate ends the session's connection if, when ctx has ended, it still stands after what a stop may take: a broker
// that is short of memory, or hangs, answers nothing. What was not acknowledged comes again. stop has to be called.
func (p *Pool) hangUpLate(ctx context.Context, s *session) (stop func()) {
	ended := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
		case <-ended:
			return
		}
		late := time.NewTimer(p.drain + closeWithin)
		defer late.Stop()
		select {
		case <-late.C:
			p.log.Warn("the broker does not answer; what was not acknowledged comes again")
			_ = s.socket.Close() // which ends all that waits for the broker
		case <-ended:
		}
	}()
	return func() { close(ended) }
}
