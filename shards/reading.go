package shards

import (
	"context"
	"fmt"
	"time"
)

// counting is one reading of an exchange's counts that any number of callers use.
type counting struct {
	began   time.Time
	done    chan struct{} // closed at the end; then the rest may be read
	set     *Set          // what was covered; nil when there were no shards
	counts  []Count       // parallel to set
	missing bool          // setting the exchange up would change something
	err     error
}

// wait waits for the reading and returns its error, or ctx's.
func (c *counting) wait(ctx context.Context, x *Exchange) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return fmt.Errorf("count shards of exchange '%s': %w", x.Name, context.Cause(ctx))
	}
}

// RecentCounts is Counts for callers that need no fresh ones: what was read at
// most maxAge ago for the shards that are covered now will do, and so will a
// reading under way. The counts are parallel to the Set returned, which is what was
// covered when they were read, and not to be modified; both are nil when there are
// no shards.
func (t *Topology) RecentCounts(ctx context.Context, x *Exchange, maxAge time.Duration) (*Set, []Count, error) {
	c := t.recent(x, maxAge)
	if err := c.wait(ctx, x); err != nil {
		return nil, nil, err
	}
	if c.missing {
		t.finishLater(x)
	}
	return c.set, c.counts, nil
}

// recent returns the reading to wait for, and begins one if need be.
func (t *Topology) recent(x *Exchange, maxAge time.Duration) *counting {
	w := &x.work
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.counting; c != nil && (!c.over() || c.serves(x, maxAge)) {
		return c
	}
	return t.begin(x)
}

// fresh returns a reading that begins after the call. There is one at a time, so a
// burst of callers, each of which needs one of its own, leads to two.
func (t *Topology) fresh(x *Exchange) *counting {
	w := &x.work
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counting == nil || w.counting.over() {
		return t.begin(x)
	}
	if w.recount == nil {
		w.recount = &counting{done: make(chan struct{})}
	}
	return w.recount
}

// begin begins a reading. work.mu is held, and no other one is under way.
func (t *Topology) begin(x *Exchange) *counting {
	c := &counting{began: time.Now(), done: make(chan struct{})}
	if !t.spawn(func() { t.read(x, c) }) {
		c.err = ErrTopologyClosed
		close(c.done)
		return c
	}
	x.work.counting = c
	return c
}

// over reports whether the reading has ended.
func (c *counting) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// serves reports whether a reading that has ended will do.
func (c *counting) serves(x *Exchange, maxAge time.Duration) bool {
	return c.err == nil && c.set == x.State().Covered() && time.Since(c.began) <= maxAge
}

// read does a reading and those that are wanted by its end.
func (t *Topology) read(x *Exchange, c *counting) {
	w := &x.work
	for c != nil {
		t.readOnce(x, c)
		w.mu.Lock()
		done := c.done
		c = w.recount
		w.recount = nil
		if c != nil {
			c.began = time.Now()
			w.counting = c
		}
		w.mu.Unlock()
		close(done)
	}
}

// readOnce does one reading. Callers come and go; it has the topology's life and a
// deadline of its own.
func (t *Topology) readOnce(x *Exchange, c *counting) {
	state := x.State()
	if state.Set == nil {
		return
	}
	ctx, cancel := context.WithTimeout(t.ctx, resolveTimeout)
	defer cancel()
	c.counts, c.missing, c.err = t.count(ctx, x, state, nil)
	if c.err == nil {
		c.set = state.Covered()
	}
}
