package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardmq/shardmq/integration/bench/client"
)

// opens is the workload of connections a second that are opened, have a channel opened, and are closed in order.
func opens(s scale) workload {
	const name = "open, channel, close"
	return workload{
		name: name, amount: s.opens, warmUp: max(s.opens/10, 1), each: "connection",
		figures: []figure{{name: name, unit: "per s", bar: bar{atLeast: 0.9}}},
		measure: func(ctx context.Context, _ *place, c contestant, n int) ([]float64, error) {
			begin := time.Now()
			if err := openAndClose(ctx, c.addr, n); err != nil {
				return nil, err
			}
			return []float64{float64(n) / time.Since(begin).Seconds()}, nil
		},
	}
}

// openAndClose does so n times, several at a time.
func openAndClose(ctx context.Context, address string, n int) error {
	return several(n, func() error {
		cl, err := client.Dial(ctx, address)
		if err != nil {
			return err
		}
		return cl.Shut()
	})
}

// several does something n times, with several workers, each of which ends at its first error.
func several(n int, do func() error) error {
	const workers = 8
	var begun atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, workers)
	for i := range workers {
		all.Go(func() {
			for errs[i] == nil && begun.Add(1) <= int64(n) {
				errs[i] = do()
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
