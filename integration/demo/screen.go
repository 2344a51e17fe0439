package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// screen prints for a person: with a progress bar on a terminal, with plain lines elsewhere. Used by one goroutine.
type screen struct {
	out      io.Writer
	terminal bool
	drawn    time.Time // when the bar was last drawn
}

func newScreen(f *os.File) *screen {
	info, err := f.Stat()
	return &screen{out: f, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

func (s *screen) printf(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

const (
	barWidth = 30
	redraw   = 50 * time.Millisecond
)

// bar shows how far a step has come. The last call, with done == total, leaves a line that stays.
func (s *screen) bar(step string, done, total int, begin time.Time) {
	took := time.Since(begin)
	rate := grouped(int(float64(done) / max(took.Seconds(), 1e-3)))
	if done == total {
		if s.terminal {
			fmt.Fprint(s.out, "\r\x1b[K")
		}
		s.printf("%-9s  %s messages in %.1f s, %s a second", step, grouped(done), took.Seconds(), rate)
		return
	}
	if !s.terminal || time.Since(s.drawn) < redraw {
		return
	}
	s.drawn = time.Now()
	full := barWidth * done / total
	fmt.Fprintf(s.out, "\r\x1b[K%-9s  [%s%s] %s of %s, %s a second", step, strings.Repeat("█", full), strings.Repeat("·", barWidth-full),
		grouped(done), grouped(total), rate)
}

// grouped writes a number with commas: 10,000.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
