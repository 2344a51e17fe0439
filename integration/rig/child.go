package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Child is a running program, in a process group of its own, that dies with this process. Safe for concurrent use.
type Child struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the program has ended and was waited for
	err  error         // what Wait said; read after done
}

// Launch starts cmd. A program in its own process group does not get the terminal's interrupt: whoever started it
// ends it in the order that suits.
func Launch(cmd *exec.Cmd) (*Child, error) {
	cmd.SysProcAttr = childAttributes()
	// Grandchildren may keep our pipe open for a moment after the program itself is gone.
	cmd.WaitDelay = 2 * time.Second
	c := &Child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go c.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return c, nil
}

// run starts the program and waits for it on one OS thread: the kernel's parent-death signal is sent when the
// *thread* that forked ends, so that thread has to live as long as the program.
func (c *Child) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	c.err = c.cmd.Wait()
	close(c.done)
}

// PID returns the process id, which is the group's too.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Done is closed when the program has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Ended says whether the program has ended.
func (c *Child) Ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Wait waits for the end and returns the exit code: -1 when a signal ended it. The error is nil unless waiting itself
// failed.
func (c *Child) Wait() (int, error) {
	<-c.done
	var exit *exec.ExitError
	if c.err != nil && !errors.As(c.err, &exit) && !errors.Is(c.err, exec.ErrWaitDelay) {
		return -1, fmt.Errorf("wait for %s: %w", c.cmd.Path, c.err)
	}
	return c.cmd.ProcessState.ExitCode(), nil
}

// Signal sends a signal to the program alone. A program that has ended gives os.ErrProcessDone.
func (c *Child) Signal(s os.Signal) error {
	if c.Ended() {
		return os.ErrProcessDone
	}
	if err := c.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("signal %v: %w", s, err)
	}
	return nil
}

// Kill ends the whole process group with SIGKILL and waits until the program is gone. It is no error if it had ended.
func (c *Child) Kill() error {
	if c.Ended() {
		return nil
	}
	if err := syscall.Kill(-c.PID(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill process group %d: %w", c.PID(), err)
	}
	<-c.done
	return nil
}

// Terminate asks with SIGTERM, waits up to patience and then kills the group. It returns the exit code as Wait does.
func (c *Child) Terminate(patience time.Duration) (int, error) {
	if err := c.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return -1, err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		if err := c.Kill(); err != nil {
			return -1, err
		}
		return -1, fmt.Errorf("%s did not end within %s of SIGTERM and was killed", c.cmd.Path, patience)
	}
	return c.Wait()
}
