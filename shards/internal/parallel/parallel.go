// Package parallel runs a bounded number of goroutines over an index range.
package parallel

import (
	"context"
	"sync"
	"sync/atomic"
)

// Do calls fn for every index in [0, n), at most limit of them at a time, and
// returns when all calls have returned. The first error cancels the context
// the other calls see and is the one returned; indexes not yet begun are then
// left out. If ctx ends first, its error is returned.
func Do(ctx context.Context, n, limit int, fn func(ctx context.Context, i int) error) error {
	if n <= 0 {
		return nil
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		next  atomic.Int64
		once  sync.Once
		first error
		wg    sync.WaitGroup
	)
	for range max(1, min(limit, n)) {
		wg.Go(func() {
			for inner.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := fn(inner, i); err != nil {
					once.Do(func() { first = err })
					cancel()
				}
			}
		})
	}
	wg.Wait()
	if first != nil {
		return first
	}
	return ctx.Err()
}
