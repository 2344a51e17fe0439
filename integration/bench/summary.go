package main

import (
	"math"
	"slices"
)

// block is what a figure came to, a row for each contestant.
type block struct {
	figure
	rows []row
}

// row is one contestant's. Numbers are NaN where there are none.
type row struct {
	contestant      string
	value           float64 // median
	ratio           float64 // to the reference within a round, median
	lowest, highest float64 // of these ratios
	cpu             float64 // microseconds for each message or connection, over all rounds
	over            float64 // more than direct within a round, median
}

// blocks are those of all figures, in order.
func (o outcome) blocks() []block {
	var all []block
	for _, w := range o.workloads {
		for i, f := range w.figures {
			b := block{figure: f}
			for _, c := range o.all {
				r := o.row(w, i, c)
				if w.each != "" && i == 0 && c.pid != 0 {
					r.cpu = o.cpuEach(w, c.name)
				}
				if f.overDirect && c.name != direct {
					r.over = median(o.pairs(w, i, c.name, direct, func(own, other float64) float64 { return own - other }))
				}
				if !math.IsNaN(r.value) {
					b.rows = append(b.rows, r)
				}
			}
			all = append(all, b)
		}
	}
	return all
}

// row is one contestant's part of a workload's figure.
func (o outcome) row(w workload, figure int, c contestant) row {
	var values []float64
	for _, m := range o.got[w.name][c.name] {
		if v := m.values[figure]; !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	ratios := o.pairs(w, figure, c.name, o.reference, quotient)
	r := row{contestant: c.name, value: median(values), ratio: median(ratios), lowest: math.NaN(), highest: math.NaN(), cpu: math.NaN(), over: math.NaN()}
	if len(ratios) > 0 {
		r.lowest, r.highest = slices.Min(ratios), slices.Max(ratios)
	}
	return r
}

func quotient(own, other float64) float64 { return own / other }

// pairs combines two contestants' values of each round that has both; where the workload has a base, one contestant's
// values of both.
func (o outcome) pairs(w workload, figure int, name, otherName string, combine func(own, other float64) float64) []float64 {
	others := o.got[w.name][otherName]
	if w.base != "" {
		others = o.got[w.base][name]
	}
	var all []float64
	for round, own := range o.got[w.name][name] {
		other, ok := others[round]
		if !ok {
			continue
		}
		if v := combine(own.values[figure], other.values[figure]); !math.IsNaN(v) {
			all = append(all, v)
		}
	}
	return all
}

// cpuEach is the CPU time of a contestant's process for each message, in microseconds: over all rounds together,
// because the clock of processes is coarse.
func (o outcome) cpuEach(w workload, name string) float64 {
	var seconds float64
	var n int
	for _, m := range o.got[w.name][name] {
		seconds += m.cpu
		n += m.amount
	}
	return seconds / float64(n) * 1e6
}

// median of numbers; NaN of none.
func median(numbers []float64) float64 {
	if len(numbers) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(numbers))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
