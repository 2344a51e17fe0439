package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
)

// report writes the table: for each workload and contestant the median rate, the median of the ratios to the reference
// within each round with their range, and the CPU time of the proxy over all rounds.
func report(out io.Writer, o options, all []contestant, todo []workload, notes []string, got results) error {
	reference := haproxy
	if !slices.ContainsFunc(all, func(c contestant) bool { return c.name == haproxy }) {
		reference = goCopy
	}
	var text strings.Builder
	fmt.Fprintf(&text, "shardmq bench: medians of %d interleaved rounds on %d cores, which client, proxy and sink share\n\n", o.rounds, runtime.NumCPU())
	fmt.Fprintf(&text, columns, "", "", "", "ratio to", "", "CPU s /")
	fmt.Fprintf(&text, columns, "workload", "through", "M msg/s", reference, "lowest .. highest", "M msgs")
	for _, load := range todo {
		text.WriteString("\n")
		for i, c := range all {
			name := ""
			if i == 0 {
				name = load.name
			}
			own := summarise(got[load.name][c.name], got[load.name][reference], c.pid != 0)
			fmt.Fprintf(&text, columns, name, c.name, own.rate, own.ratio, own.spread, own.cpu)
		}
	}
	text.WriteString("\n")
	fmt.Fprintf(&text, "Sharded: %d shards, %d routing keys; only shardmq shards, the others pass the same messages to one exchange or queue.\n", shardCount, routingKeys)
	for _, note := range notes {
		fmt.Fprintln(&text, "Note:", note)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// columns are the table's: two of text and four of numbers.
const columns = "%-24s%-12s%9s%10s%19s%9s\n"

// summary is one contestant's part of the table.
type summary struct{ rate, ratio, spread, cpu string }

func summarise(own, reference []measurement, isProxy bool) summary {
	rates, ratios := make([]float64, len(own)), make([]float64, len(own))
	var cpu, messages float64
	for i, m := range own {
		rates[i] = m.perSecond
		ratios[i] = m.perSecond / reference[i].perSecond
		cpu += m.cpu
		messages += float64(m.messages)
	}
	s := summary{
		rate:   fmt.Sprintf("%.3f", median(rates)/1e6),
		ratio:  fmt.Sprintf("%.2f", median(ratios)),
		spread: fmt.Sprintf("%.2f .. %.2f", slices.Min(ratios), slices.Max(ratios)),
		cpu:    "-",
	}
	if isProxy {
		s.cpu = fmt.Sprintf("%.3f", cpu/messages*1e6)
	}
	return s
}

// median of at least one number.
func median(numbers []float64) float64 {
	sorted := slices.Sorted(slices.Values(numbers))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
