package main

import (
	"fmt"
	"math"
)

// verdict is what shardmq reached of one bar.
type verdict struct {
	name, number, bar, met string
}

// verdicts are those of all bars that an outcome has something for.
func (o outcome) verdicts() []verdict {
	var all []verdict
	for _, w := range o.workloads {
		if len(o.got[w.name][shardmq]) == 0 {
			continue
		}
		for i, f := range w.figures {
			own := o.row(w, i, contestant{name: shardmq})
			switch {
			case f.bar.asks() && f.bar.absolute:
				all = append(all, o.verdict(f.name, own.value, f.unit, f.bar))
			case f.bar.asks():
				all = append(all, o.verdict(f.name, own.ratio, "x "+o.reference, f.bar))
			}
		}
		if w.cpu.asks() {
			ratio := o.cpuEach(w, shardmq) / o.cpuEach(w, o.reference)
			all = append(all, o.verdict(w.name+", "+o.cpuOf+"'s CPU a "+w.each, ratio, "x "+o.reference, w.cpu))
		}
	}
	return all
}

func (o outcome) verdict(name string, number float64, unit string, b bar) verdict {
	v := verdict{name: name, number: show(number, 2, unit), bar: b.text(unit), met: "no"}
	switch {
	case math.IsNaN(number) || !b.absolute && o.reference == goCopy: // which stands in for what the bar is about
		v.met = "-"
	case b.met(number):
		v.met = "yes"
	}
	return v
}

func (b bar) text(unit string) string {
	if b.atLeast != 0 {
		return fmt.Sprintf(">= %g %s", b.atLeast, unit)
	}
	return fmt.Sprintf("<= %g %s", b.atMost, unit)
}

// show writes a number and its unit; "-" for none.
func show(number float64, digits int, unit string) string {
	switch {
	case math.IsNaN(number):
		return "-"
	case unit == "":
		return fmt.Sprintf("%.*f", digits, number)
	}
	return fmt.Sprintf("%.*f %s", digits, number, unit)
}
