package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/shardmq/shardmq/integration/rig"
)

// subcommand runs what this program was started for as somebody's child: a relay or a crowd. They have to be processes
// of their own: for their CPU time to be read, and because a process may have so and so many descriptors.
func subcommand(args []string) (known bool, err error) {
	switch {
	case len(args) == 3 && args[0] == relayCommand:
		return true, relay(args[1], args[2])
	case len(args) == 3 && args[0] == crowdCommand:
		return true, crowd(args[1], args[2], os.Stdin, os.Stdout)
	case len(args) == 3 && args[0] == stuckCommand:
		return true, stuckCrowd(args[1], args[2], os.Stdin, os.Stdout)
	}
	return false, nil
}

// child is this program as a process of its own. It ends when its standard input does, at the latest with this process.
type child struct {
	*rig.Child
	in  io.WriteCloser
	out *bufio.Reader
}

func startChild(args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c, err := rig.Launch(cmd)
	if err != nil {
		return nil, err
	}
	return &child{c, in, bufio.NewReader(out)}, nil
}

// line is the next line that the child prints.
func (c *child) line() (string, error) {
	line, err := c.out.ReadString('\n')
	return strings.TrimSpace(line), err
}

func (c *child) end() error { return errors.Join(c.in.Close(), c.Kill()) }

func startRelay(_ context.Context, server string) (contestant, error) {
	c, err := startChild(relayCommand, server, "127.0.0.1:0")
	if err != nil {
		return contestant{}, err
	}
	addr, err := c.line()
	if err != nil {
		return contestant{}, errors.Join(err, c.end())
	}
	const files = 6 // two sockets, and a pipe each way for splicing
	return contestant{name: goCopy, addr: addr, pid: c.PID(), files: files, stop: c.end}, nil
}
