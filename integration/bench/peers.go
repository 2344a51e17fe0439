package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/shardmq/shardmq/integration/rig"
)

// find looks for a program on PATH, and where administrators' programs are, which is not on every user's.
func find(name string) (string, error) {
	program, err := exec.LookPath(name)
	if err == nil {
		return program, nil
	}
	if program, err = exec.LookPath("/usr/sbin/" + name); err == nil {
		return program, nil
	}
	return "", exec.ErrNotFound
}

// haproxyConfig is HAProxy as a TCP relay, with one thread for each core as it comes.
const haproxyConfig = `global
  maxconn %d
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
	return launch(ctx, haproxy, 2, func(program, dir string, port int) (*exec.Cmd, error) {
		file := filepath.Join(dir, "haproxy.cfg")
		text := fmt.Appendf(nil, haproxyConfig, maxConnections(), port, server)
		return exec.Command(program, "-db", "-q", "-f", file), os.WriteFile(file, text, 0o600)
	})
}

// startAMQProxy starts CloudAMQP's proxy. It keeps connections to the server open for others of the same user.
func startAMQProxy(ctx context.Context, server string) (contestant, error) {
	return launch(ctx, amqproxy, 2, func(program, _ string, port int) (*exec.Cmd, error) {
		http, err := rig.FreePort()
		return exec.Command(program, "-l", "127.0.0.1", "-p", strconv.Itoa(port), "-b", strconv.Itoa(http), "amqp://"+server), err
	})
}

// startAmqpprox starts Bloomberg's proxy, in its mode of one destination. It listens on all interfaces.
func startAmqpprox(ctx context.Context, server string) (contestant, error) {
	host, serverPort, err := net.SplitHostPort(server)
	if err != nil {
		return contestant{}, err
	}
	return launch(ctx, amqpprox, 2, func(program, dir string, port int) (*exec.Cmd, error) {
		return exec.Command(program, "--logDirectory", filepath.Join(dir, "logs"), "--controlSocket", filepath.Join(dir, "control"),
			"--listenPort", strconv.Itoa(port), "--destinationDNS", host, "--destinationPort", serverPort), nil
	})
}

// launch starts an installed program with the command that is made for it, and waits until it listens on the port.
func launch(ctx context.Context, name string, files int, command func(program, dir string, port int) (*exec.Cmd, error)) (contestant, error) {
	program, err := find(name)
	if err != nil {
		return contestant{}, err
	}
	port, err := rig.FreePort()
	if err != nil {
		return contestant{}, err
	}
	dir, err := rig.Folder(name)
	if err != nil {
		return contestant{}, err
	}
	cmd, err := command(program, dir, port)
	if err != nil {
		return contestant{}, err
	}
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	child, err := rig.Launch(cmd)
	if err != nil {
		return contestant{}, err
	}
	if err := rig.AwaitPort(ctx, child, port); err != nil {
		return contestant{}, errors.Join(err, child.Kill())
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return contestant{name: name, addr: addr, pid: child.PID(), files: files, stop: child.Kill}, nil
}
