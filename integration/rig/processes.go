package rig

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// processesWith returns the ids of the running processes that have NAME=VALUE in their environment. Processes that
// cannot be read (another user's) and zombies do not count. Where there is no /proc it finds none.
func processesWith(nameValue string) []int {
	mark := []byte(nameValue)
	entries, _ := os.ReadDir("/proc")
	var found []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err != nil { // gone meanwhile, or not ours
			continue
		}
		for v := range bytes.SplitSeq(env, []byte{0}) {
			if bytes.Equal(v, mark) {
				found = append(found, pid)
				break
			}
		}
	}
	return found
}

func killAll(pids []int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
	}
}
