package dispatch

import (
	"errors"
	"time"

	"go.uber.org/zap"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/dispatch/target"
)

// settlePause is the time between two tries to hand a job on.
const settlePause = time.Second

// confirmLate is after how long it is said that the broker does not confirm what was published.
const confirmLate = 10 * time.Second

// settle does what the outcome of an attempt asks for.
func (p *Pool) settle(it *item, o target.Outcome) {
	if o.Class == target.Cancelled { // it goes back when the session is closed
		p.line.finish(it)
		return
	}
	p.stats.count(o)
	attempts := it.attempts + 1
	verdict := o.Verdict
	if verdict == target.Again && p.job.Retry.Attempts > 0 && attempts >= p.job.Retry.Attempts {
		verdict = target.Dead
		if p.job.Retry.Then == Drop {
			verdict = target.Drop
		}
	}
	if o.RetryAfter > 0 {
		p.hold(min(o.RetryAfter, p.job.Retry.RetryAfterMost))
	}
	switch verdict {
	case target.Done:
		p.acknowledge(it, &p.stats.done)
	case target.Drop:
		p.acknowledge(it, &p.stats.dropped)
	case target.Dead:
		letter := it.dead(p.job, attempts, o, time.Now())
		shorten(letter, it.session.room())
		dead := place{queue: p.job.deadQueue(), args: p.job.lasting()}
		if p.publish(it, letter, func() place { return dead }) {
			p.acknowledge(it, &p.stats.dead)
		}
	case target.Again:
		p.later(it, attempts, max(p.job.Retry.delay(attempts), min(o.RetryAfter, p.job.Retry.RetryAfterMost)), &p.stats.retried)
		return // which finishes it
	}
	p.line.finish(it)
}

// postpone has a job done later without an attempt counted.
func (p *Pool) postpone(it *item, d time.Duration) { p.later(it, it.attempts, d, nil) }

// later has a job done after a delay, and counts that.
func (p *Pool) later(it *item, attempts int, d time.Duration, count *counter) {
	var m amqp.Publishing
	here := p.job.Order.By()
	if !here {
		m = it.again(attempts, time.Now())
		here = propertiesSize(m) > it.session.room() // it cannot be published with what we add
	}
	if here {
		it.attempts = attempts
		if count != nil {
			count.Add(1)
		}
		p.rest(it, d)
		return
	}
	if p.publish(it, m, func() place { return p.job.waiting(p.rungs.atLeast(d)) }) {
		p.acknowledge(it, count)
	}
	p.line.finish(it)
}

// rest keeps a job here for its delay, and with it all others of its key if it has one.
func (p *Pool) rest(it *item, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resting[it] = time.AfterFunc(d, func() {
		p.mu.Lock()
		_, still := p.resting[it]
		delete(p.resting, it)
		p.mu.Unlock()
		if still {
			p.line.again(it)
		}
	})
}

// place is a queue of ours that a job is put into.
type place struct {
	queue string
	args  amqp.Table
	delay time.Duration // of a retry queue; 0 = it is none
}

// publish puts a job into another queue of ours, each time where says. It tries until that is confirmed; it returns false
// if the session ended before, so that the job comes again.
func (p *Pool) publish(it *item, m amqp.Publishing, where func() place) bool {
	s := it.session
	at, stuck := where(), s.handingOn()
	defer stuck.end()
	late := time.AfterFunc(confirmLate, func() {
		if !stuck.waits(lateKind) {
			return
		}
		p.log.Warn("the broker does not take a job that failed, as when it is short of memory or disk; its executor waits for that", zap.String("queue", at.queue))
	})
	defer late.Stop()
	for !s.over() {
		now := where()
		err := s.put(p.requests, now.queue, now.args, m)
		if err == nil {
			if n := stuck.handedOn(now.queue); n > 0 {
				p.log.Info("all jobs that had failed and had to wait are handed on", zap.Int("jobs", n))
			}
			return true
		}
		if now.delay > 0 && (errors.Is(err, errUnconfirmed) || errors.Is(err, errNacked)) {
			p.avoid(now)
		} else if p.requests.Err() == nil && stuck.waits(stuckKind(err, now.queue)) {
			p.log.Warn("a job that failed could not be handed on; it is kept and tried again, as are others that fare so", zap.String("queue", now.queue), zap.Error(err))
		}
		select {
		case <-s.gone:
		case <-p.requests.Done():
			return false
		case <-time.After(settlePause):
		}
	}
	return false
}

// avoid has jobs wait elsewhere than in a retry queue that confirms nothing.
func (p *Pool) avoid(at place) {
	if p.rungs.avoid(at.delay) {
		p.log.Warn("a retry queue takes nothing, as one without a leader; jobs wait in the one for the next longer delay meanwhile (see rabbitmq-queues quorum_status)",
			zap.String("queue", at.queue), zap.Duration("for", avoidTime))
	}
}

// acknowledge tells the broker that a job is settled, and counts it.
func (p *Pool) acknowledge(it *item, count *counter) {
	if err := it.delivery.Ack(false); err != nil {
		p.stats.repeated.Add(1) // the session is gone: the job comes again
		return
	}
	if count != nil {
		count.Add(1)
	}
}
