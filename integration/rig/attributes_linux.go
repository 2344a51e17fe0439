package rig

import "syscall"

// childAttributes: own process group, and SIGKILL from the kernel when the starting thread dies.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
