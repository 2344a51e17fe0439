package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/shardmq/shardmq/integration/bench/sink"
)

// rarely is how often long measurements of one process alone are made: what else the machine does hardly shows in them.
const rarely = 3

// idleWorkloads are those of connections on which nothing happens.
func idleWorkloads(s scale) []workload {
	few, many := thousands(s.crowd[0]), thousands(s.crowd[1])
	least := bar{atMost: 10, absolute: true}
	return []workload{{
		name: "memory of idle connections", amount: s.crowd[1], atMost: rarely, proxies: true,
		figures: []figure{
			{name: "memory without connections", unit: "MiB", digits: 1},
			{name: "memory an idle connection, " + few, unit: "KiB", digits: 1, bar: least},
			{name: "memory an idle connection, " + many, unit: "KiB", digits: 1, bar: least},
			{name: "descriptors a connection", unit: "", digits: 1, bar: bar{atMost: 2, absolute: true}},
		},
		measure: func(ctx context.Context, at *place, c contestant, _ int) ([]float64, error) {
			return memory(ctx, at, c, s)
		},
	}, {
		name: "CPU of idle connections", amount: s.crowd[0], atMost: rarely, proxies: true,
		figures: []figure{{
			name: "CPU of " + few + " idle connections", unit: "% of a core", digits: 2, bar: bar{atMost: 0.5, absolute: true},
		}},
		measure: func(ctx context.Context, at *place, c contestant, n int) ([]float64, error) {
			return idleCPU(ctx, at, c, n, s)
		},
	}}
}

// fresh has something done with a new contestant of the same kind in front of a sink, and with a crowd of its clients.
func fresh(ctx context.Context, c contestant, s *sink.Sink, start func(address string) (*child, error), do func(contestant, *child) error) (err error) {
	if c, err = c.again(ctx, s.Addr()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	clients, err := start(c.addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clients.end()) }()
	return do(c, clients)
}

// idlers starts crowds of idle clients.
func idlers(heartbeat time.Duration) func(address string) (*child, error) {
	return func(address string) (*child, error) { return startCrowd(address, heartbeat) }
}

// memory measures a process without connections, with few and with many.
func memory(ctx context.Context, at *place, c contestant, s scale) ([]float64, error) {
	values := []float64{math.NaN(), math.NaN(), math.NaN(), math.NaN()}
	err := fresh(ctx, c, at.sink, idlers(0), func(c contestant, clients *child) error {
		empty, err := settled(ctx, c.pid, s.idle)
		if err != nil {
			return err
		}
		files, err := descriptors(c.pid)
		if err != nil {
			return err
		}
		values[0] = float64(empty) / 1024
		for i, n := range s.crowd {
			if !fits(n, c.files) {
				return nil
			}
			if err := clients.gather(n); err != nil {
				return err
			}
			full, err := settled(ctx, c.pid, s.idle)
			if err != nil {
				return err
			}
			if err := clients.gather(n); err != nil { // none of them has gone meanwhile
				return err
			}
			values[1+i] = float64(full-empty) / float64(n)
			more, err := descriptors(c.pid)
			if err != nil {
				return err
			}
			values[3] = float64(more-files) / float64(n)
		}
		return nil
	})
	return values, err
}

// heartbeat is what the clients of idleCPU ask for: both sides write one every ten seconds.
const heartbeat = 20 * time.Second

// idleCPU measures how much of a core a process needs for a crowd of idle clients, in percent.
func idleCPU(ctx context.Context, at *place, c contestant, n int, s scale) ([]float64, error) {
	if !fits(n, c.files) {
		return []float64{math.NaN()}, nil
	}
	var percent float64
	err := fresh(ctx, c, at.sink, idlers(heartbeat), func(c contestant, clients *child) error {
		if err := clients.gather(n); err != nil {
			return err
		}
		if _, err := settled(ctx, c.pid, s.idle); err != nil {
			return err
		}
		before, err := cpuSeconds(c.pid)
		if err != nil {
			return err
		}
		begin := time.Now()
		timer := time.NewTimer(s.window)
		defer timer.Stop()
		if err := wait(ctx, timer.C); err != nil {
			return err
		}
		after, err := cpuSeconds(c.pid)
		if err != nil {
			return err
		}
		percent = (after - before) / time.Since(begin).Seconds() * 100
		return clients.gather(n)
	})
	return []float64{percent}, err
}

// thousands writes a number with a comma before its last three digits.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}
