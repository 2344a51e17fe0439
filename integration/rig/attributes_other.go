//go:build unix && !linux

package rig

import "syscall"

// childAttributes: own process group. Without Linux's parent-death signal an aborted run can leave programs behind.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
