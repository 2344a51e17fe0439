package shards

import (
	"context"
	"errors"
	"time"

	"github.com/shardmq/shardmq/shards/internal/parallel"
)

// retryFirst and retryMost bound the pause before an exchange that could not be
// set up is tried again.
const (
	retryFirst = 250 * time.Millisecond
	retryMost  = 5 * time.Second
)

// signal wakes the receiver of a channel with capacity 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// finishLater has an exchange resolved in the background.
func (t *Topology) finishLater(x *Exchange) { t.finishAt(x, time.Now()) }

func (t *Topology) finishAt(x *Exchange, at time.Time) {
	t.mu.Lock()
	if due, ok := t.unfinished[x]; !ok || at.Before(due) {
		t.unfinished[x] = at
	}
	t.mu.Unlock()
	signal(t.retry)
}

// pending reports whether the exchange is to be resolved in the background.
func (t *Topology) pending(x *Exchange) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.unfinished[x]
	return ok
}

// finishAll resolves unfinished exchanges as they are due.
func (t *Topology) finishAll(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-t.retry:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		todo := t.takeDue()
		_ = parallel.Do(ctx, len(todo), resolveAtOnce, func(ctx context.Context, i int) error {
			t.finish(ctx, todo[i])
			return nil
		})
		if wait, some := t.nextDue(); some {
			timer.Reset(wait)
		}
	}
}

// takeDue removes and returns what is to be resolved now.
func (t *Topology) takeDue() []*Exchange {
	t.mu.Lock()
	defer t.mu.Unlock()
	var todo []*Exchange
	for x, due := range t.unfinished {
		if !due.After(time.Now()) {
			todo = append(todo, x)
			delete(t.unfinished, x)
		}
	}
	return todo
}

// nextDue returns how long it is until something is due.
func (t *Topology) nextDue() (wait time.Duration, some bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, due := range t.unfinished {
		if left := time.Until(due); !some || left < wait {
			wait, some = left, true
		}
	}
	return max(wait, 0), some
}

// finish resolves an exchange, and if that fails has it tried again: soon, then
// less and less often, while no broker answers; after the longest pause if one
// refuses, for then it takes an operator, or a node that is about to start. A
// refusal is logged when it is news.
func (t *Topology) finish(ctx context.Context, x *Exchange) {
	_, err := t.Resolve(ctx, x, true)
	if ctx.Err() != nil {
		return
	}
	refused, isRefused := errors.AsType[*BrokerError](err)
	w := &x.work
	w.mu.Lock()
	tell := isRefused && w.told != err.Error()
	switch {
	case err == nil:
		w.pause, w.told = 0, ""
	case isRefused:
		w.pause, w.told = retryMost, err.Error()
	default:
		w.pause = min(max(2*w.pause, retryFirst), retryMost)
	}
	pause := w.pause
	w.mu.Unlock()
	if tell {
		t.log.Warn("exchange cannot be set up", "exchange", x.Name, "vhost", t.vhost,
			"error", err.Error(), "missing_right", refused.Right)
	}
	if err != nil {
		t.finishAt(x, time.Now().Add(pause))
	}
}
