package main

import (
	"context"
	"math"

	"github.com/shardmq/shardmq/integration/bench/sink"
)

// part is workloads that are measured at the same place.
type part struct {
	title     string
	cpuOf     string   // whose CPU time is measured, for the table's head; "": nobody's
	about     []string // for the reader of its table
	workloads []workload
	open      func(ctx context.Context) (*place, error)
}

// place is where workloads are measured: a broker, or its stand-in, and the contestants' ways to it.
type place struct {
	sink      *sink.Sink // the stand-in; nil at a real broker
	all       []contestant
	reference string       // the contestant that others are compared with
	notes     []string     // for the reader
	close     func() error // ends everything
}

// err is what has gone wrong at the place while nobody looked.
func (p *place) err() error {
	if p.sink == nil {
		return nil
	}
	return p.sink.Err()
}

// workload is one kind of work, which goes through each contestant once in every round.
type workload struct {
	name    string
	amount  int // of messages or whatever it counts in, for one measurement
	warmUp  int // the amount in the round before the first, which does not count; 0: not in that round
	atMost  int // rounds; 0: as many as there are
	figures []figure
	// each is what CPU time is told for; "": for nothing.
	each string
	// cpu is the bar for the ratio of that CPU time.
	cpu bar
	// base is the workload that ratios are to, of the same contestant; "": to this one through the reference.
	base string
	// proxies: not for contestants without a process of their own.
	proxies bool
	// measure does the work and returns a value for each figure, NaN for one that this contestant cannot have.
	measure func(ctx context.Context, p *place, c contestant, amount int) ([]float64, error)
}

// figure is a number that a workload comes to.
type figure struct {
	name   string // the row's
	unit   string
	digits int // behind the point
	bar    bar
	// overDirect: what is more than in direct in the same round is a number of its own.
	overDirect bool
}

// bar is what shardmq is to reach; the zero value asks for nothing.
type bar struct {
	atLeast, atMost float64 // 0: no such limit
	absolute        bool    // of the figure itself, not of its ratio to the reference
}

func (b bar) asks() bool { return b.atLeast != 0 || b.atMost != 0 }

// met says whether a number is as it should be. What could not be measured is not.
func (b bar) met(number float64) bool {
	if math.IsNaN(number) || b.atLeast != 0 && number < b.atLeast {
		return false
	}
	return b.atMost == 0 || number <= b.atMost
}

// measurement is one workload through one contestant in one round.
type measurement struct {
	values []float64 // by figure
	cpu    float64   // seconds, of the contestant's process
	amount int
}

// results are measurements by workload and contestant name, and by round.
type results map[string]map[string]map[int]measurement

func (r results) add(w workload, c contestant, round int, m measurement) {
	if r[w.name] == nil {
		r[w.name] = map[string]map[int]measurement{}
	}
	if r[w.name][c.name] == nil {
		r[w.name][c.name] = map[int]measurement{}
	}
	r[w.name][c.name][round] = m
}
