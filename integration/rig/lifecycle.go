package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// shutdownPatience is how long a node may take to shut down in order before it is killed.
const shutdownPatience = 30 * time.Second

// Kill ends the node with SIGKILL, as a power cut would. Its state stays for Restart.
func (n *Node) Kill() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return err
	}
	return n.kill()
}

// usable is nil for a node that is ours and not stopped. Called with mu held.
func (n *Node) usable() error {
	switch {
	case n.external:
		return ErrExternal
	case n.stopped:
		return ErrStopped
	}
	return nil
}

// inUse is usable, called without mu.
func (n *Node) inUse() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.usable()
}

// kill ends the process and waits for its helpers (Erlang starts a few, in sessions of their own, which end when they
// see the node's end). Called with mu held.
func (n *Node) kill() error {
	if n.child == nil {
		return nil
	}
	if err := n.child.Kill(); err != nil {
		return err
	}
	return n.waitHelpers()
}

// waitHelpers waits until no process has this node's folder in its environment, and kills what has not ended by
// itself after a while.
func (n *Node) waitHelpers() error {
	mark := "RABBITMQ_MNESIA_BASE=" + filepath.Join(n.dir, "mnesia")
	deadline := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for patience := 20; ; patience-- {
		left := processesWith(mark)
		switch {
		case len(left) == 0:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("node %s: processes %v are still there", n.Name, left)
		case patience <= 0:
			killAll(left)
		}
		<-tick.C
	}
}

// Shutdown ends the node in order, as an operator does (SIGTERM). Its state stays for Restart.
func (n *Node) Shutdown() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return err
	}
	return n.shutdown()
}

func (n *Node) shutdown() error {
	if n.child == nil || n.child.Ended() {
		return nil
	}
	if _, err := n.child.Terminate(shutdownPatience); err != nil {
		return fmt.Errorf("node %s: %w", n.Name, err)
	}
	return n.waitHelpers()
}

// Restart starts the node again with the same state, name and ports, after shutting it down in order if it runs. It
// returns when a client can log in.
func (n *Node) Restart(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(); err != nil {
		return err
	}
	if err := n.shutdown(); err != nil {
		return err
	}
	return n.start(ctx)
}

// Stop ends the node, at once and for good, and removes its state unless NodeOptions.Dir was given. It does nothing
// to a node stopped before or to a broker given by AMQP_URL.
func (n *Node) Stop() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.external || n.stopped {
		return nil
	}
	n.stopped = true
	space.remove(n)
	end := n.kill
	if n.keep {
		end = n.shutdown // the state is worth something
	}
	return errors.Join(end(), space.dropEpmd(), os.RemoveAll(n.scratch))
}

func (n *Node) abandon() error { return n.Stop() }

// tool runs rabbitmqctl and returns what it printed.
func (n *Node) tool(ctx context.Context, args ...string) (string, error) {
	said := "rabbitmqctl " + strings.Join(args, " ")
	cmd := exec.CommandContext(ctx, filepath.Join(n.sbin, "rabbitmqctl"), append([]string{"-q", "-n", n.Name}, args...)...)
	cmd.WaitDelay = time.Second
	port, err := FreePort() // one for each call: the tool is an Erlang node too, and calls may overlap
	if err != nil {
		return "", err
	}
	var out, errOut bytes.Buffer
	cmd.Env = append(slices.Clone(n.env), fmt.Sprintf("RABBITMQ_CTL_DIST_PORT_MIN=%d", port),
		fmt.Sprintf("RABBITMQ_CTL_DIST_PORT_MAX=%d", port))
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.dir, &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s on %s: %w: %s%s", said, n.Name, err, out.String(), errOut.String())
	}
	return out.String(), nil
}

func (n *Node) running() *Child {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.child
}
