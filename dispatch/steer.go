package dispatch

import (
	"time"

	"github.com/sony/gobreaker/v2"
	"go.uber.org/zap"
)

// idle is how long steer may wait for its next look if nothing changes.
const idle = time.Minute

// desired is how many consumers there should be now, whether there are none because the operator says so, and when to
// look again.
func (p *Pool) desired(now time.Time) (n int, idled bool, next time.Duration) {
	p.mu.Lock()
	want, paused, open, held := p.executors(), p.paused || p.stopping, p.openUntil, p.heldUntil
	p.mu.Unlock()
	switch {
	case paused || want == 0:
		return 0, true, idle
	case now.Before(held):
		return 0, false, held.Sub(now)
	case now.Before(open):
		return 0, false, open.Sub(now)
	case p.breaker != nil && p.breaker.State() != gobreaker.StateClosed: // one is tried
		return 1, false, idle
	}
	return want, false, idle
}

// steer starts and cancels consumers until there are as many as there should be, and returns when to look again. An
// error means that the session is of no use.
func (p *Pool) steer(s *session) (next time.Duration, err error) {
	n, idled, next := p.desired(time.Now())
	for len(s.consumers) > n { // the newest leave first
		last := len(s.consumers) - 1
		if err := s.jobs.Cancel(s.consumers[last], false); err != nil {
			return 0, explain(err, "cancel a consumer of queue %q", p.job.Queue)
		}
		s.consumers = s.consumers[:last]
	}
	if err := p.steerDue(s, n); err != nil {
		return 0, err
	}
	for len(s.consumers) < n {
		tag, err := s.consume(p.job.Queue, false, p.prefetch(n), p.line.push)
		if err != nil {
			return 0, err
		}
		s.consumers = append(s.consumers, tag)
	}
	// Without executors there is nobody to do what waits here: it goes back. What counts is what was seen above; meanwhile
	// the job may have been told to go on or to stop, and then steer is called again.
	if n == 0 && idled {
		s.feeding.Wait() // until all that was received before is here
		p.giveBack(p.line.remove(func(*item) bool { return true }))
	}
	return next, nil
}

// steerDue has a consumer of the due queue while there are any of the job's queue. It may have as many jobs as there
// are executors. With an order to keep, jobs wait here and not there, so that no other of their keys goes first; but there
// may be some from when there was none.
func (p *Pool) steerDue(s *session, n int) error {
	if s.dueFor == n || p.job.Order.By() && s.noDue {
		return nil
	}
	if p.job.Order.By() && s.due == "" {
		if s.noDue = !s.exists(p.job.dueQueue()); s.noDue {
			return nil
		}
	}
	if s.due != "" {
		if err := s.jobs.Cancel(s.due, false); err != nil {
			return explain(err, "cancel the consumer of queue %q", p.job.dueQueue())
		}
		s.due, s.dueFor = "", 0
	}
	if n == 0 {
		return nil
	}
	if err := s.ensure(p.job.dueQueue(), p.job.lasting()); err != nil {
		return err
	}
	tag, err := s.consume(p.job.dueQueue(), true, n, p.line.push)
	s.due, s.dueFor = tag, n
	return err
}

// prefetch is that of each of n consumers.
func (p *Pool) prefetch(n int) int {
	all := max(p.job.Prefetch, n)
	if p.job.Target.Batch.Size > 1 {
		all = max(all, n*p.job.Target.Batch.Size)
	}
	if p.job.Order.By() { // some wait for their keys
		all = max(all, 2*n)
	}
	return (all + n - 1) / n
}

// breakerChanged is called by the breaker.
func (p *Pool) breakerChanged(_ string, from, to gobreaker.State) {
	p.mu.Lock()
	p.openUntil = time.Time{}
	if to == gobreaker.StateOpen {
		p.openUntil = time.Now().Add(p.job.Breaker.Open)
	}
	p.mu.Unlock()
	p.log.Info("breaker changed", zap.Stringer("from", from), zap.Stringer("to", to))
	p.kick()
}

// cancelAll cancels every consumer, and waits until all that they received has been handed on.
func (s *session) cancelAll(log *zap.Logger) {
	tags := s.consumers
	if s.due != "" {
		tags = append(tags, s.due)
	}
	s.consumers, s.due, s.dueFor = nil, "", 0
	for _, tag := range tags {
		if err := s.jobs.Cancel(tag, false); err != nil {
			log.Warn("could not cancel a consumer; what it has goes back when the connection ends", zap.Error(err))
			s.end(err)
			return
		}
	}
	s.feeding.Wait()
}
