package dispatch

import (
	"errors"
	"slices"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// lateKind is the kind of trouble that is a broker which does not answer.
const lateKind = "\x00late" // no queue's name

// stuckKind is what kind of trouble a job has that cannot be put into a queue: the queue's own, where the broker refuses
// just that, or the one that all share.
func stuckKind(err error, queue string) string {
	if said, ok := errors.AsType[*amqp.Error](err); ok && said.Server {
		switch said.Code {
		case amqp.AccessRefused, amqp.NotFound, amqp.ResourceLocked, amqp.PreconditionFailed:
			return queue
		}
	}
	return ""
}

// stuck counts a session's jobs that cannot be handed on, by kind, so that each trouble is told once and not for each job.
// The zero value has none. Safe for concurrent use.
type stuck struct {
	mu    sync.Mutex
	kinds map[string]*trouble
}

// trouble is from the first job that waits until all that wait have been handed on.
type trouble struct {
	waiting int // now
	all     int // since it began
}

// stuckJob is one job that is being handed on.
type stuckJob struct {
	session  *session
	troubles []*trouble // that it waits for; guarded by the session's stuck.mu, as is over
	over     bool
}

func (s *session) handingOn() *stuckJob { return &stuckJob{session: s} }

// waits notes that the job has to wait, and reports whether that is to be told.
func (j *stuckJob) waits(kind string) (first bool) {
	w := &j.session.stuck
	w.mu.Lock()
	defer w.mu.Unlock()
	if j.over || j.session.over() { // it comes again by the next session
		return false
	}
	t := w.kinds[kind]
	if t == nil {
		if w.kinds == nil {
			w.kinds = map[string]*trouble{}
		}
		t, first = &trouble{}, true
		w.kinds[kind] = t
	}
	if slices.Contains(j.troubles, t) {
		return first
	}
	t.waiting++
	t.all++
	j.troubles = append(j.troubles, t)
	return first
}

// end notes that the job does not wait any more. It may be called again.
func (j *stuckJob) end() {
	w := &j.session.stuck
	w.mu.Lock()
	defer w.mu.Unlock()
	j.leave()
}

func (j *stuckJob) leave() {
	for _, t := range j.troubles {
		t.waiting--
	}
	j.troubles, j.over = nil, true
}

// handedOn ends the job where a queue has taken it, and returns how many had to wait if none does any more.
func (j *stuckJob) handedOn(queue string) (all int) {
	w := &j.session.stuck
	w.mu.Lock()
	defer w.mu.Unlock()
	j.leave()
	for _, kind := range []string{"", lateKind, queue} {
		if t := w.kinds[kind]; t != nil && t.waiting == 0 {
			all = max(all, t.all)
			delete(w.kinds, kind)
		}
	}
	return all
}
