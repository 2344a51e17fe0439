package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
)

// publishReport writes the tables of all parts as text and, if asked for, as Markdown.
func publishReport(out io.Writer, o options, all []outcome) error {
	var text strings.Builder
	fmt.Fprintf(&text, "shardmq bench: medians of up to %d interleaved rounds on %d cores, which client, proxy and server share\n", o.rounds, runtime.NumCPU())
	for _, done := range all {
		done.text(&text)
	}
	verdictsText(&text, all)
	if _, err := io.WriteString(out, text.String()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := draw(o, all); err != nil {
		return err
	}
	if o.markdown == "" {
		return nil
	}
	if err := os.WriteFile(o.markdown, []byte(markdown(o, all)), 0o644); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// columns are a table's: two of text, a number with its unit, and four of numbers.
const columns = "%-43s%-10s%10s %-12s%10s%19s%12s\n"

// text writes the part's table: for each figure and contestant the median, the median of the ratios to the reference
// within each round with their range, and the CPU time over all rounds.
func (o outcome) text(out *strings.Builder) {
	last, unit := o.lastColumn()
	fmt.Fprintf(out, "\n== %s\n\n", o.title)
	fmt.Fprintf(out, columns, "", "", "", "", "ratio to", "", last)
	fmt.Fprintf(out, columns, "measured", "through", "", "", o.reference, "lowest .. highest", unit)
	for i, b := range o.blocks() {
		if i == 0 || len(b.rows) > 1 {
			out.WriteString("\n")
		}
		name := b.name
		for _, r := range b.rows {
			fmt.Fprintf(out, columns, name, r.contestant, show(r.value, b.digits, ""), b.unit, show(r.ratio, 2, ""), r.spread(), r.last())
			name = ""
		}
	}
	out.WriteString("\n")
	for _, note := range o.remarks() {
		fmt.Fprintln(out, "Note:", note)
	}
}

// lastColumn is the head of the column that parts use differently, or not at all.
func (o outcome) lastColumn() (head, unit string) {
	for _, w := range o.workloads {
		switch {
		case w.figures[0].overDirect:
			return "more than", direct
		case w.each != "":
			return o.cpuOf + "'s", "CPU us each"
		}
	}
	return "", ""
}

// last is the column of CPU times, or of what is more than direct.
func (r row) last() string {
	switch {
	case !math.IsNaN(r.over):
		return fmt.Sprintf("%+.0f", r.over)
	case r.cpu < 10:
		return show(r.cpu, 3, "")
	}
	return show(r.cpu, 0, "")
}

func (r row) spread() string {
	if math.IsNaN(r.lowest) {
		return "-"
	}
	return fmt.Sprintf("%.2f .. %.2f", r.lowest, r.highest)
}

// remarks are what a reader of the part's table has to know.
func (o outcome) remarks() []string {
	notes := slices.Clone(o.notes)
	if o.reference == goCopy {
		notes = append(notes, "ratios are to "+goCopy+" instead of to "+haproxy)
	}
	return append(notes, o.about...)
}

func verdictsText(out *strings.Builder, all []outcome) {
	if !slices.ContainsFunc(all, func(o outcome) bool { return len(o.verdicts()) > 0 }) {
		return
	}
	const columns = "%-70s%20s%22s%6s\n"
	out.WriteString("\n== what shardmq is to reach\n\n")
	fmt.Fprintf(out, columns, "measured", "shardmq", "wanted", "met")
	for _, o := range all {
		for _, v := range o.verdicts() {
			fmt.Fprintf(out, columns, v.name, v.number, v.bar, v.met)
		}
	}
}
