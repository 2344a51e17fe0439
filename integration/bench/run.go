package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// patience is how long one measurement may take before the run is given up: something has stopped.
const patience = 5 * time.Minute

// outcome is what the workloads of a part came to.
type outcome struct {
	part
	place
	got results
}

// run measures everything that is asked for and writes the tables.
func run(ctx context.Context, o options, out io.Writer) error {
	var all []outcome
	for _, p := range parts(o) {
		p.workloads = slices.DeleteFunc(p.workloads, func(w workload) bool { return !o.only.MatchString(w.name) })
		if len(p.workloads) == 0 {
			continue
		}
		done, err := p.run(ctx, o)
		if err != nil {
			return fmt.Errorf("%s: %w", p.title, err)
		}
		all = append(all, done)
	}
	progress("")
	if len(all) == 0 {
		return errors.New("-only matches the name of no workload")
	}
	return publishReport(out, o, all)
}

// run measures the part's workloads round by round.
func (p part) run(ctx context.Context, o options) (done outcome, err error) {
	at, err := p.open(ctx)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, at.close()) }()
	done = outcome{part: p, place: *at, got: results{}}
	first := 0
	if o.cold {
		first = 1
	}
	for round := first; round <= o.rounds; round++ {
		for _, w := range p.workloads {
			if err := w.round(ctx, at, round, done.got); err != nil {
				return done, err
			}
			progress("%s, round %d of %d", w.name, round, o.rounds)
		}
	}
	return done, nil
}

// round has a workload go through every contestant. Round 0 warms up, and does not count.
func (w workload) round(ctx context.Context, at *place, round int, got results) error {
	amount := w.amount
	if round == 0 {
		amount = w.warmUp
	}
	if amount == 0 || w.atMost > 0 && round > w.atMost {
		return nil
	}
	for i := range at.all {
		c := at.all[(i+round)%len(at.all)]
		if w.proxies && c.pid == 0 {
			continue
		}
		m, err := w.once(ctx, at, c, amount)
		if err != nil {
			return fmt.Errorf("%s through %s: %w", w.name, c.name, err)
		}
		if round > 0 {
			got.add(w, c, round, m)
		}
	}
	return nil
}

// once is one measurement.
func (w workload) once(ctx context.Context, at *place, c contestant, amount int) (measurement, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no end after %s", patience))
	defer cancel()
	before, err := cpuSeconds(c.pid)
	if err != nil {
		return measurement{}, err
	}
	values, err := w.measure(ctx, at, c, amount)
	if err = errors.Join(err, at.err()); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = errors.Join(cause, err)
		}
		return measurement{}, err
	}
	after, err := cpuSeconds(c.pid)
	if err != nil {
		return measurement{}, err
	}
	return measurement{values: values, cpu: after - before, amount: amount}, nil
}

// progress rewrites a line on a terminal; elsewhere the tables are all there is to read.
func progress(format string, args ...any) {
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		fmt.Fprintf(os.Stderr, "\r\x1b[K"+format, args...)
	}
}
