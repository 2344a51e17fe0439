package dispatch

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/shardmq/shardmq/dispatch/target"
)

// work is a worker: it does one job, or one batch, after the other until it is to leave.
func (p *Pool) work() {
	for it := p.line.take(); it != nil; it = p.line.take() {
		if p.job.Target.Batch.Size > 1 {
			p.batch(it)
			continue
		}
		p.one(it)
	}
}

// one does a job.
func (p *Pool) one(it *item) {
	report, ok := p.begin(it)
	if !ok {
		return
	}
	p.stats.begin(1)
	o := p.ask.Do(p.requests, it.message(p.job))
	p.stats.end(1)
	report(o)
	p.settle(it, o)
}

// batch does a job together with others that come soon.
func (p *Pool) batch(first *item) {
	ctx, cancel := context.WithTimeout(p.requests, p.job.Target.Batch.Wait)
	defer cancel()
	items := []*item{first}
	for len(items) < p.job.Target.Batch.Size {
		it := p.line.takeMore(ctx)
		if it == nil {
			break
		}
		items = append(items, it)
	}
	var reports []func(target.Outcome)
	var messages []*target.Message
	begun := items[:0]
	for _, it := range items {
		if report, ok := p.begin(it); ok {
			reports, messages, begun = append(reports, report), append(messages, it.message(p.job)), append(begun, it)
		}
	}
	if len(begun) == 0 {
		return
	}
	p.stats.begin(1)
	outcomes := p.ask.DoBatch(p.requests, messages)
	p.stats.end(1)
	for i, it := range begun {
		reports[i](outcomes[i])
		p.settle(it, outcomes[i])
	}
}

// begin reports whether a job may be asked for now, and returns whom to tell how it went. A job that may not is out of
// the way.
func (p *Pool) begin(it *item) (report func(target.Outcome), ok bool) {
	if it.session.over() { // it comes again by the next
		p.line.finish(it)
		return nil, false
	}
	now := time.Now()
	p.mu.Lock()
	held := p.heldUntil.Sub(now)
	p.mu.Unlock()
	if held > 0 {
		p.postpone(it, held)
		return nil, false
	}
	if p.breaker == nil {
		return func(target.Outcome) {}, true
	}
	done, err := p.breaker.Allow()
	if err != nil {
		p.mu.Lock()
		open := p.openUntil.Sub(now)
		p.mu.Unlock()
		p.postpone(it, max(open, p.job.Breaker.Open/10, ShortestDelay))
		return nil, false
	}
	return func(o target.Outcome) {
		switch {
		case failed(o.Class):
			done(errEndpoint)
		case o.Class == target.Invalid, o.Class == target.Cancelled:
			done(errNothingLearnt)
		default:
			done(nil)
		}
	}, true
}

// What the breaker is told beside success.
var (
	errEndpoint      = errors.New("the endpoint failed")
	errNothingLearnt = errors.New("the endpoint was not asked, or not to the end")
)

// failed reports whether it was the endpoint's fault, and not the job's.
func failed(c target.Class) bool {
	switch c {
	case target.Unreachable, target.Timeout, target.Broken, target.Status5xx:
		return true
	}
	return false
}

// hold leaves the endpoint alone for a while, as it has asked.
func (p *Pool) hold(d time.Duration) {
	until := time.Now().Add(d)
	p.mu.Lock()
	longer := until.After(p.heldUntil)
	if longer {
		p.heldUntil = until
	}
	p.mu.Unlock()
	if longer {
		p.log.Info("the endpoint asks to be left alone (Retry-After)", zap.Duration("for", d))
		p.kick()
	}
}
