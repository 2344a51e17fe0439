package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Problem is one thing that is wrong with a configuration file.
type Problem struct {
	File string
	Line int    // from 1; 0 if it concerns the file as a whole
	Path string // the key, e.g. "policies[0].definition.shards-per-node"; may be empty
	Text string // what is wrong; what to do
}

// String returns "file:line: key: text".
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	b.WriteString(": ")
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Text)
	return strings.Map(printable, b.String())
}

// printable keeps a problem on one line, and control characters of the file
// from reaching a terminal.
func printable(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}

// Problems is everything that is wrong with a file, in the order of its lines.
type Problems []Problem

// Error returns one line per problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// sort orders by line and keeps the order of discovery within a line.
func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
}
