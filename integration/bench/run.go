package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/shardmq/shardmq/integration/bench/sink"
)

// patience is how long one measurement may take before the run is given up: something has stopped.
const patience = 2 * time.Minute

// measurement is one workload through one contestant in one round.
type measurement struct {
	perSecond float64 // messages
	cpu       float64 // seconds of the proxy's process
	messages  int
}

// results are measurements by workload name and contestant name, one for each round.
type results map[string]map[string][]measurement

func (r results) add(w workload, c contestant, m measurement) {
	if r[w.name] == nil {
		r[w.name] = map[string][]measurement{}
	}
	r[w.name][c.name] = append(r[w.name][c.name], m)
}

// run measures everything and writes the table.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	s, err := sink.Listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	all, notes, err := field(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopAll(all)) }()
	var todo []workload
	for _, w := range workloads(o.messages) {
		if o.only.MatchString(w.name) {
			todo = append(todo, w)
		}
	}
	got := results{}
	for round := range o.rounds + 1 {
		for _, w := range todo {
			for i := range all {
				c := all[(i+round)%len(all)]
				warmUp := round == 0
				if warmUp {
					w.messages = max(w.messages/20, routingKeys)
				}
				progress("round %d of %d: %-25s %s", round, o.rounds, w.name, c.name)
				m, err := measure(ctx, s, w, c)
				if err != nil {
					return fmt.Errorf("%s through %s: %w", w.name, c.name, err)
				}
				if !warmUp {
					got.add(w, c, m)
				}
			}
		}
	}
	progress("")
	return report(out, o, all, todo, notes, got)
}

// measure is one measurement.
func measure(ctx context.Context, s *sink.Sink, w workload, c contestant) (measurement, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no end after %s", patience))
	defer cancel()
	before, err := cpuSeconds(c.pid)
	if err != nil {
		return measurement{}, err
	}
	took, err := w.measure(ctx, s, c, w.messages)
	if err = errors.Join(err, s.Err()); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = errors.Join(cause, err)
		}
		return measurement{}, err
	}
	after, err := cpuSeconds(c.pid)
	if err != nil {
		return measurement{}, err
	}
	return measurement{perSecond: float64(w.messages) / took.Seconds(), cpu: after - before, messages: w.messages}, nil
}

// progress rewrites a line on a terminal; elsewhere the table is all there is to read.
func progress(format string, args ...any) {
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		fmt.Fprintf(os.Stderr, "\r\x1b[K"+format, args...)
	}
}
