package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
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

// residentKiB is how much memory a process has in use.
func residentKiB(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	return parseStatus(string(text))
}

// parseStatus reads the line VmRSS of proc(5)'s status.
func parseStatus(text string) (int, error) {
	for line := range strings.Lines(text) {
		value, is := strings.CutPrefix(line, "VmRSS:")
		if !is {
			continue
		}
		kib, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")))
		if err != nil {
			return 0, fmt.Errorf("memory: %w", err)
		}
		return kib, nil
	}
	return 0, errors.New("memory: no VmRSS in the process's status")
}

// descriptors is how many files and sockets a process has open.
func descriptors(pid int) (int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0, fmt.Errorf("descriptors: %w", err)
	}
	return len(entries), nil
}

// settled waits until a process has had the time to become quiet and its memory has then been the same for several
// looks, but for no more than that time again: a program that is never quite still is taken as it is. It returns what
// the memory is, in KiB.
func settled(ctx context.Context, pid int, quiet time.Duration) (int, error) {
	const enough = 4
	tick := time.NewTicker(max(quiet/20, 10*time.Millisecond))
	defer tick.Stop()
	begin, last, same := time.Now(), -1, 0
	for {
		kib, err := residentKiB(pid)
		if err != nil {
			return 0, err
		}
		if same++; kib != last {
			last, same = kib, 0
		}
		if waited := time.Since(begin); waited >= quiet && (same >= enough || waited >= 2*quiet) {
			return kib, nil
		}
		if err := wait(ctx, tick.C); err != nil {
			return 0, err
		}
	}
}

// wait waits for a tick.
func wait(ctx context.Context, tick <-chan time.Time) error {
	select {
	case <-tick:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// raiseLimit has this process and all it starts open as many files as it may.
func raiseLimit() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	return nil
}

// fits says whether a process may have so many connections with so many descriptors each, and some files of its own.
func fits(connections, files int) bool {
	var limit syscall.Rlimit
	const own = 200
	return syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil && uint64(connections*files+own) <= limit.Cur
}

// maxConnections is how many connections a relay is configured for: 9,500, or as many as it may have descriptors for.
func maxConnections() int {
	n := 9500
	for n > 100 && !fits(n, 2) {
		n -= 100
	}
	return n
}
