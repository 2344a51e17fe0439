package jobxml

import (
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with a job.xml.
type Problem struct {
	Line int    // from 1
	Path string // the element or attribute, e.g. job "mail" retry; may be empty
	Text string // what is wrong; what to do. It holds no password
}

// Problems is everything that is wrong, in the order of the lines.
type Problems []Problem

// Error returns one line for each problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = fmt.Sprintf("line %d: %s: %s", p.Line, p.Path, p.Text)
	}
	return strings.Join(lines, "\n")
}

// Note is something that is not carried over as it is in the file.
type Note struct {
	Line int
	Path string
	Text string
}

// clip shortens a value for a message.
func clip(s string) string {
	const limit = 60
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "..."
	}
	return s
}
