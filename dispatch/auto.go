package dispatch

import "time"

// How the number of executors follows the endpoint.
const (
	// tooMany: more failures in a window than this share make it fewer, as does latency that has grown by tooSlow.
	tooMany = 0.1
	tooSlow = 2.0
)

// window is what happened since the last look.
type window struct {
	attempts, failures uint64
	took               time.Duration // the mean
	busy               bool          // every executor has a job, and more wait
	idle               bool          // fewer than half have one, and none wait
}

// pace remembers the best latency that there was. It is used by one goroutine.
type pace struct{ best time.Duration }

// next returns how many executors there should be: a few more while there is work and the endpoint keeps up, a third
// fewer when it fails or slows down (additive increase, multiplicative decrease), one fewer when there is little to do.
func (p *pace) next(a Auto, now int, w window) int {
	slow := false
	if w.attempts > w.failures { // of failures the time says little
		if p.best == 0 || w.took < p.best {
			p.best = w.took
		}
		slow = float64(w.took) > tooSlow*float64(p.best)
		if slow && now <= a.Min { // it cannot be because of too many: so this is what the endpoint can do now
			p.best, slow = w.took, false
		}
	}
	switch {
	case float64(w.failures) > tooMany*float64(w.attempts), slow:
		now -= max(now/3, 1)
	case w.busy:
		now += max(now/10, 1)
	case w.idle:
		now--
	}
	return min(max(now, a.Min), a.Max)
}

// adjust sets the number of executors by what happened since it was called last.
func (p *Pool) adjust() {
	if p.job.Auto == nil {
		return
	}
	w := p.stats.since(&p.seen)
	inFlight, waiting := int(p.stats.inFlight.Load()), p.line.waiting()+max(int(p.backlog.Load()), 0)
	p.mu.Lock()
	now, stopped := p.want, p.paused || p.stopping || time.Now().Before(p.heldUntil) || time.Now().Before(p.openUntil)
	p.mu.Unlock()
	if stopped {
		return
	}
	w.busy, w.idle = inFlight >= now && waiting > 0, inFlight < (now+1)/2 && waiting == 0
	if n := p.pace.next(*p.job.Auto, now, w); n != now {
		p.scale(n)
	}
}

// since returns what was counted since seen, and notes that.
func (s *stats) since(seen *Took) (w window) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.attempts = s.all.Count - seen.Count; w.attempts > 0 {
		w.took = (s.all.Sum - seen.Sum) / time.Duration(w.attempts)
	}
	w.failures = s.all.failed - seen.failed
	*seen = s.all
	return w
}
