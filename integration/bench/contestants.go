package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/shardmq/shardmq/integration/bench/sink"
	"github.com/shardmq/shardmq/integration/rig"
)

// The exchange and its shards. "plain" is no policy's: shardmq forwards what goes to it as it came.
const (
	shardedExchange = "images"
	plainExchange   = "plain"
	shardCount      = 4
)

// contestant is a way to the sink.
type contestant struct {
	name   string
	addr   string
	pid    int  // of the proxy, 0: there is none
	shards bool // it knows what a sharded exchange is
	stop   func() error
}

// Names of the contestants that others are compared with.
const (
	direct  = "direct"
	haproxy = "haproxy"
	goCopy  = "go copy"
	shardmq = "shardmq"
)

// field starts all contestants. The notes are lines for the reader.
func field(ctx context.Context, s *sink.Sink) (all []contestant, notes []string, err error) {
	all = []contestant{{name: direct, addr: s.Addr(), stop: func() error { return nil }}}
	defer func() {
		if err != nil {
			err = errors.Join(err, stopAll(all))
			all = nil
		}
	}()
	c, err := startHAProxy(ctx, s.Addr())
	switch {
	case errors.Is(err, exec.ErrNotFound):
		notes = append(notes, "haproxy is not installed and left out; ratios are to "+goCopy+" instead "+
			"(integration/scripts/install-deps.sh relay installs it)")
	case err != nil:
		return all, nil, err
	default:
		all = append(all, c)
	}
	if c, err = startRelay(s.Addr()); err != nil {
		return all, nil, err
	}
	all = append(all, c)
	p, err := rig.StartProxy(ctx, rig.ProxyOptions{
		Upstream: "amqp://guest:guest@" + s.Addr(),
		Shards:   map[string]int{shardedExchange: shardCount},
		Args:     []string{"--node-name", sink.NodeName},
	})
	if err != nil {
		return all, nil, err
	}
	all = append(all, contestant{name: shardmq, addr: p.Addr, pid: p.PID(), shards: true, stop: func() error {
		code, err := p.Stop()
		if err == nil && code != 0 {
			err = fmt.Errorf("shardmq ended with code %d; its log:\n%s", code, p.Logs())
		}
		return err
	}})
	return all, notes, nil
}

func stopAll(all []contestant) error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.stop())
	}
	return errors.Join(errs...)
}

// haproxyConfig is HAProxy as a TCP relay, with one thread for each core as it comes.
const haproxyConfig = `global
  maxconn 1000
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen amqp
  bind 127.0.0.1:%d
  server sink %s
`

func startHAProxy(ctx context.Context, server string) (contestant, error) {
	program, err := exec.LookPath("haproxy")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/haproxy"); err != nil { // not on a user's PATH
			return contestant{}, exec.ErrNotFound
		}
	}
	port, err := rig.FreePort()
	if err != nil {
		return contestant{}, err
	}
	dir, err := rig.Folder("haproxy")
	if err != nil {
		return contestant{}, err
	}
	file := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(file, fmt.Appendf(nil, haproxyConfig, port, server), 0o600); err != nil {
		return contestant{}, err
	}
	cmd := exec.Command(program, "-db", "-q", "-f", file)
	cmd.Stderr = os.Stderr
	child, err := rig.Launch(cmd)
	if err != nil {
		return contestant{}, err
	}
	if err := rig.AwaitPort(ctx, child, port); err != nil {
		return contestant{}, errors.Join(fmt.Errorf("haproxy: %w", err), child.Kill())
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return contestant{name: haproxy, addr: addr, pid: child.PID(), stop: child.Kill}, nil
}

func startRelay(server string) (contestant, error) {
	self, err := os.Executable()
	if err != nil {
		return contestant{}, err
	}
	cmd := exec.Command(self, relayCommand, server)
	cmd.Stderr = os.Stderr
	// An end of the pipe for as long as this process lives: the relay ends with it.
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		return contestant{}, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return contestant{}, err
	}
	child, err := rig.Launch(cmd)
	if err != nil {
		return contestant{}, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return contestant{}, errors.Join(fmt.Errorf("relay: %w", err), child.Kill())
	}
	return contestant{name: goCopy, addr: strings.TrimSpace(line), pid: child.PID(), stop: func() error {
		return errors.Join(lifeline.Close(), child.Kill())
	}}, nil
}
