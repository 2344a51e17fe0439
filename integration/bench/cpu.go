package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ticksPerSecond is the unit of the times in /proc: USER_HZ, which is 100 on every architecture Go runs on under Linux.
const ticksPerSecond = 100

// cpuSeconds is how much CPU time a process has used so far, in user and kernel mode, all threads together. 0 for pid 0.
func cpuSeconds(pid int) (float64, error) {
	if pid == 0 {
		return 0, nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("CPU time: %w", err)
	}
	return parseStat(string(text))
}

// parseStat reads utime and stime, fields 14 and 15 of proc(5)'s stat. The second field is a name in parentheses that
// may itself contain anything.
func parseStat(text string) (float64, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const first = 3 // the number of fields[0]
	if len(fields) <= 15-first {
		return 0, fmt.Errorf("CPU time: unreadable %q", text)
	}
	var ticks uint64
	for _, field := range fields[14-first : 16-first] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("CPU time: %w", err)
		}
		ticks += n
	}
	return float64(ticks) / ticksPerSecond, nil
}
