package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/integration/bench/client"
	"github.com/shardmq/shardmq/integration/bench/sink"
)

// Who makes calls beside a flood: so many connections, at a pace that is no load by itself.
const (
	callers        = 100
	callsPerSecond = 10 // of each
)

// calledQueue is what they declare.
const calledQueue = "called"

// fairness is how long calls take while one connection publishes as fast as it goes: a contestant should not have all
// others wait for it.
func fairness(s scale) workload {
	return workload{
		name: "fairness", amount: s.calls, warmUp: max(s.calls/10, callers),
		figures: []figure{
			{name: "call beside a flood, p50", unit: "us"},
			{name: "call beside a flood, p99", unit: "us", bar: bar{atMost: 1.5}},
		},
		measure: func(ctx context.Context, at *place, c contestant, n int) ([]float64, error) {
			took, err := besideFlood(ctx, at.sink, c.addr, max(n/callers, 1))
			if err != nil {
				return nil, err
			}
			slices.Sort(took)
			return []float64{micros(took[len(took)/2]), micros(took[len(took)*99/100])}, nil
		},
	}
}

// besideFlood returns how long calls took, so many of each caller, while another connection floods the address.
func besideFlood(ctx context.Context, s *sink.Sink, address string, each int) (took []time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := make([]*client.Client, callers)
	for i := range all {
		if all[i], err = client.Dial(ctx, address); err != nil {
			return nil, err
		}
		defer func() { _ = all[i].Close() }()
	}
	flooder, err := client.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = flooder.Close() }()

	tally := s.Count(plainExchange, false)
	done, flooded := make(chan struct{}), make(chan error, 1)
	sent := 0
	go func() {
		err := flood(flooder, done, &sent)
		if err != nil {
			cancel() // without a flood there is nothing to be measured
		}
		flooded <- err
	}()
	err = tally.Await(ctx, 1)
	if err == nil {
		took, err = callAll(ctx, all, each)
	}
	if err != nil {
		cancel() // ends a write that is blocked
	}
	close(done)
	if err = errors.Join(err, <-flooded); err != nil {
		return nil, err
	}
	if err := tally.Await(ctx, uint64(sent)); err != nil {
		return nil, err
	}
	return took, checkTally(tally, sent, false)
}

// flood publishes until it is done, and counts what it has sent.
func flood(cl *client.Client, done <-chan struct{}, sent *int) error {
	messages := batch(plainExchange, small)
	for {
		select {
		case <-done:
			return nil
		default:
		}
		if err := cl.Publish(messages, routingKeys); err != nil {
			return err
		}
		*sent += routingKeys
	}
}

// callAll has all clients make their calls at the same time, and returns how long each call took.
func callAll(ctx context.Context, all []*client.Client, each int) ([]time.Duration, error) {
	type result struct {
		took []time.Duration
		err  error
	}
	ended := make(chan result, len(all))
	for i, cl := range all {
		go func() {
			took, err := calls(ctx, cl, time.Second/callsPerSecond*time.Duration(i)/time.Duration(len(all)), each)
			ended <- result{took, err}
		}()
	}
	var took []time.Duration
	var err error // the first, of a hundred that say the same
	for range all {
		r := <-ended
		took = append(took, r.took...)
		if err == nil {
			err = r.err
		}
	}
	return took, err
}

// calls makes n calls at a steady pace, the first after a delay that has it be between those of others. The time of a
// call is from its write to its answer; one that is late because of the call before it is made at once.
func calls(ctx context.Context, cl *client.Client, delay time.Duration, n int) ([]time.Duration, error) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	if err := wait(ctx, timer.C); err != nil {
		return nil, err
	}
	tick := time.NewTicker(time.Second / callsPerSecond)
	defer tick.Stop()
	took := make([]time.Duration, n)
	for i := range took {
		if err := wait(ctx, tick.C); err != nil {
			return nil, err
		}
		begin := time.Now()
		if err := cl.Call(&frames.QueueDeclare{Queue: calledQueue}, &frames.QueueDeclareOk{}); err != nil {
			return nil, fmt.Errorf("call %d: %w", i, err)
		}
		took[i] = time.Since(begin)
	}
	return took, nil
}
