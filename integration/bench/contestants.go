package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/shardmq/shardmq/integration/bench/sink"
	"github.com/shardmq/shardmq/integration/rig"
)

// The exchange and its shards. "plain" is no policy's: shardmq forwards what goes to it as it came.
const (
	shardedExchange = "images"
	plainExchange   = "plain"
	shardCount      = 4
)

// contestant is a way to the broker or its stand-in.
type contestant struct {
	name   string
	addr   string
	pid    int       // of the process whose CPU time counts, 0: there is none
	shards bool      // it knows what a sharded exchange is
	files  int       // descriptors that it needs for a connection
	broker *rig.Node // behind it, where there is more than one
	stop   func() error
	again  starter // starts another one like it
}

// Names of the contestants.
const (
	direct    = "direct"
	haproxy   = "haproxy"
	amqproxy  = "amqproxy"
	amqpprox  = "amqpprox"
	goCopy    = "go copy"
	shardmq   = "shardmq"
	pluginOwn = "plugin"
)

// openSink starts the broker stand-in and all contestants in front of it.
func openSink(ctx context.Context) (*place, error) {
	s, err := sink.Listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	at, err := field(ctx, s.Addr(), startShardmq)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	at.sink = s
	stop := at.close
	at.close = func() error { return errors.Join(stop(), s.Close()) }
	return at, nil
}

// starter starts a contestant in front of a server. The error of one that is not installed is exec.ErrNotFound.
type starter func(ctx context.Context, server string) (contestant, error)

// field starts all contestants in front of a server, the given shardmq last.
func field(ctx context.Context, server string, own starter) (*place, error) {
	at := &place{reference: haproxy, all: []contestant{{name: direct, addr: server, files: 1, stop: func() error { return nil }}}}
	at.close = func() error { return stopAll(at.all) }
	for _, entrant := range []struct {
		name   string
		start  starter
		advice string
	}{
		{haproxy, startHAProxy, "; integration/scripts/install-deps.sh relay installs it"},
		{amqproxy, startAMQProxy, ""},
		{amqpprox, startAmqpprox, ""},
		{goCopy, startRelay, ""},
		{shardmq, own, ""},
	} {
		c, err := entrant.start(ctx, server)
		switch {
		case errors.Is(err, exec.ErrNotFound):
			at.notes = append(at.notes, entrant.name+" is not installed and left out"+entrant.advice)
			if entrant.name == haproxy {
				at.reference = goCopy
			}
			continue
		case err != nil:
			return nil, errors.Join(fmt.Errorf("%s: %w", entrant.name, err), at.close())
		}
		c.again = entrant.start
		at.all = append(at.all, c)
	}
	return at, nil
}

func stopAll(all []contestant) error {
	var errs []error
	for _, c := range all {
		if err := c.stop(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	return errors.Join(errs...)
}

// startShardmq starts a shardmq in front of the sink, with one sharded exchange.
func startShardmq(ctx context.Context, server string) (contestant, error) {
	return shardmqWith(ctx, rig.ProxyOptions{
		Upstream: "amqp://guest:guest@" + server,
		Shards:   map[string]int{shardedExchange: shardCount},
		Args:     []string{"--node-name", sink.NodeName},
	})
}

func shardmqWith(ctx context.Context, o rig.ProxyOptions) (contestant, error) {
	p, err := rig.StartProxy(ctx, o)
	if err != nil {
		return contestant{}, err
	}
	return contestant{name: shardmq, addr: p.Addr, pid: p.PID(), files: 2, shards: true, stop: func() error {
		code, err := p.Stop()
		if err == nil && code != 0 {
			err = fmt.Errorf("it ended with code %d; its log:\n%s", code, p.Logs())
		}
		return err
	}}, nil
}
