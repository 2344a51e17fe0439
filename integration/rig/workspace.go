package rig

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// workspacePrefix begins the name of every finished workspace folder in os.TempDir; a folder being set up has another.
const (
	workspacePrefix = "shardmq-rig-run-"
	settingUpPrefix = "shardmq-rig-new-"
)

// workspace is this process's temporary folder and what runs out of it.
type workspace struct {
	mu      sync.Mutex
	dir     string   // "" until first used
	lock    *os.File // flocked as long as the process lives: tells other runs that the folder is in use
	cookie  string   // shared by all nodes of this process, so that they can form clusters
	epmd    *Child   // one port mapper for all nodes, private to this process
	port    int      // epmd's
	users   int      // nodes that need epmd
	next    int      // numbers the folders within
	running map[stopper]bool
}

// stopper is what Cleanup ends: a Node or a Proxy.
type stopper interface{ abandon() error }

var space workspace

// Cleanup stops everything that this process started through the rig and removes its workspace. Later starts make a
// new one. Safe to call twice.
func Cleanup() error {
	space.mu.Lock()
	left := make([]stopper, 0, len(space.running))
	for s := range space.running {
		left = append(left, s)
	}
	space.mu.Unlock()
	var errs []error
	for _, s := range left {
		errs = append(errs, s.abandon())
	}
	space.mu.Lock()
	defer space.mu.Unlock()
	if space.epmd != nil {
		errs = append(errs, space.epmd.Kill())
		space.epmd, space.users = nil, 0
	}
	if space.dir != "" {
		errs = append(errs, os.RemoveAll(space.dir), space.lock.Close())
		space.dir, space.lock = "", nil
	}
	forgetBuild()
	return errors.Join(errs...)
}

// Folder makes a new folder in the workspace, which Cleanup, or the next run, removes.
func Folder(name string) (string, error) { return space.folder(name) }

// folder makes a new folder in the workspace.
func (w *workspace) folder(name string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.open(); err != nil {
		return "", err
	}
	w.next++
	dir := filepath.Join(w.dir, strconv.Itoa(w.next)+"-"+name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("workspace: %w", err)
	}
	return dir, nil
}

// open creates the workspace if there is none. The folder gets its final name only when its lock is held: a sweeping
// process can never take it for a dead one's. Called with mu held.
func (w *workspace) open() error {
	if w.dir != "" {
		return nil
	}
	sweep(os.TempDir())
	fresh, err := os.MkdirTemp("", settingUpPrefix)
	if err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	lock, err := takeLock(fresh, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return errors.Join(fmt.Errorf("workspace: %w", err), os.RemoveAll(fresh))
	}
	dir := filepath.Join(os.TempDir(), workspacePrefix+strings.TrimPrefix(filepath.Base(fresh), settingUpPrefix))
	if err := os.Rename(fresh, dir); err != nil {
		return errors.Join(fmt.Errorf("workspace: %w", err), lock.Close(), os.RemoveAll(fresh))
	}
	var secret [16]byte
	_, _ = rand.Read(secret[:]) // never fails
	w.dir, w.lock, w.cookie, w.running = dir, lock, hex.EncodeToString(secret[:]), map[stopper]bool{}
	return nil
}

func takeLock(dir string, flags int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// sweep removes the workspaces of processes that died without Cleanup. Whatever it cannot lock or remove, it leaves.
func sweep(tmp string) {
	old, _ := filepath.Glob(filepath.Join(tmp, workspacePrefix+"*"))
	for _, dir := range old {
		lock, err := takeLock(dir, os.O_RDWR)
		if err != nil {
			continue
		}
		_ = os.RemoveAll(dir)
		_ = lock.Close()
	}
}

func (w *workspace) add(s stopper) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running[s] = true
}

func (w *workspace) remove(s stopper) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, s)
}

// useEpmd starts the private port mapper for the first node and returns its port. Every successful call is paired
// with one of dropEpmd.
func (w *workspace) useEpmd(ctx context.Context, program string) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.epmd != nil && !w.epmd.Ended() {
		w.users++
		return w.port, nil
	}
	for range 5 { // another process may take the port between choosing and listening
		port, err := FreePort()
		if err != nil {
			return 0, err
		}
		cmd := exec.Command(program, "-port", strconv.Itoa(port), "-address", "127.0.0.1")
		cmd.Env = baseEnv()
		child, err := Launch(cmd)
		if err != nil {
			return 0, fmt.Errorf("epmd: %w", err)
		}
		if err := AwaitPort(ctx, child, port); err == nil {
			w.epmd, w.port, w.users = child, port, w.users+1
			return port, nil
		}
		if err := child.Kill(); err != nil {
			return 0, fmt.Errorf("epmd: %w", err)
		}
		if ctx.Err() != nil {
			return 0, fmt.Errorf("epmd: %w", context.Cause(ctx))
		}
	}
	return 0, errors.New("epmd: it does not start on any of 5 free ports")
}

func (w *workspace) dropEpmd() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users--; w.users > 0 || w.epmd == nil {
		return nil
	}
	child := w.epmd
	w.epmd, w.users = nil, 0
	return child.Kill()
}

// AwaitPort waits until a child accepts connections on a loopback port. It fails when the child ends, or with ctx.
func AwaitPort(ctx context.Context, c *Child, port int) error {
	return poll(ctx, c, func() error {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// errEnded is why waiting for a child's readiness ended: it is gone.
var errEnded = errors.New("the program ended while it was starting")

// poll repeats a check until it succeeds, the child ends or ctx is done; the last failure is part of the error.
func poll(ctx context.Context, c *Child, check func() error) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last try: %w)", context.Cause(ctx), err)
		case <-c.Done():
			return errEnded
		case <-tick.C:
		}
	}
}
