package main

import (
	"fmt"
	"runtime"
	"strings"
)

// markdown is the report as tables of Markdown: first what is to be reached, then everything that was measured.
func markdown(o options, all []outcome) string {
	var text strings.Builder
	fmt.Fprintf(&text, "Medians of up to %d interleaved rounds on %d cores, which client, proxy and server share.\n\n", o.rounds, runtime.NumCPU())
	text.WriteString("| measured | shardmq | wanted | met |\n|---|---|---|---|\n")
	for _, done := range all {
		for _, v := range done.verdicts() {
			fmt.Fprintf(&text, "| %s | %s | %s | %s |\n", v.name, v.number, escaped(v.bar), v.met)
		}
	}
	for _, done := range all {
		done.markdown(&text)
	}
	return text.String()
}

func (o outcome) markdown(out *strings.Builder) {
	last, unit := o.lastColumn()
	fmt.Fprintf(out, "\nMeasured %s:\n\n", o.title)
	fmt.Fprintf(out, "| measured | through | median | ratio to %s | lowest .. highest | %s %s |\n|---|---|---|---|---|---|\n", o.reference, last, unit)
	for _, b := range o.blocks() {
		for _, r := range b.rows {
			name := r.contestant
			if name == shardmq {
				name = "**" + name + "**"
			}
			fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s |\n", b.name, name, show(r.value, b.digits, b.unit), show(r.ratio, 2, ""), r.spread(), r.last())
		}
	}
	for _, note := range o.remarks() {
		fmt.Fprintf(out, "\n%s.\n", note)
	}
}

// escaped keeps comparison signs from being taken for tags.
func escaped(text string) string {
	return strings.NewReplacer("<=", "≤", ">=", "≥").Replace(text)
}
