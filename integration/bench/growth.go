package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/integration/bench/client"
	"github.com/shardmq/shardmq/integration/bench/sink"
	"github.com/shardmq/shardmq/integration/rig"
)

// load is what a message's cost is measured at. There is one of everything and no header in the smallest.
type load struct {
	shards, policies, channels, connections, headers int
}

// growthPart is the CPU time that a message of 16 octets to a sharded exchange takes in shardmq, when there is more and
// more of one thing.
func growthPart(s scale) part {
	p := part{
		title: "in shardmq, as things grow",
		about: []string{fmt.Sprintf("CPU time for each message of 16 octets to a sharded exchange, %d routing keys, in a shardmq of its own; "+
			"of the connections all but one are idle, of the policies the last one matches; ratios are to the smallest", routingKeys)},
		open: func(context.Context) (*place, error) {
			return &place{reference: "smallest", all: []contestant{{name: shardmq}}, close: func() error { return nil }}, nil
		},
	}
	for _, dimension := range []struct {
		name  string
		sizes []int
		of    func(l *load, n int)
	}{
		{"shards", []int{1, 10, 100, 1000}, func(l *load, n int) { l.shards = n }},
		{"policies", []int{1, 10, 100, 1000}, func(l *load, n int) { l.policies = n }},
		{"channels", []int{1, 16, 256, 2047}, func(l *load, n int) { l.channels = n }},
		{"connections", []int{1, 100, s.crowd[0], s.crowd[1]}, func(l *load, n int) { l.connections = n }},
		{"headers", []int{0, 1, 10, 100}, func(l *load, n int) { l.headers = n }},
	} {
		name := func(n int) string { return fmt.Sprintf("growth, %s: %s", dimension.name, thousands(n)) }
		for _, n := range dimension.sizes {
			l := load{shards: 1, policies: 1, channels: 1, connections: 1}
			dimension.of(&l, n)
			p.workloads = append(p.workloads, workload{
				name: name(n), base: name(dimension.sizes[0]), amount: max(s.messages*2/(5+l.headers), routingKeys), atMost: rarely,
				figures: []figure{{name: name(n), unit: "us", digits: 3}},
				measure: func(ctx context.Context, _ *place, _ contestant, messages int) ([]float64, error) {
					if !fits(l.connections, 2) {
						return []float64{math.NaN()}, nil
					}
					each, err := l.cost(ctx, messages)
					return []float64{each}, err
				},
			})
		}
	}
	return p
}

// cost starts a shardmq and returns the CPU time of a message in it, in microseconds.
func (l load) cost(ctx context.Context, messages int) (each float64, err error) {
	s, err := sink.Listen("127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Err(), s.Close()) }()
	c, err := shardmqWith(ctx, rig.ProxyOptions{Config: l.config(s.Addr())})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	crowd, err := startCrowd(c.addr, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, crowd.end()) }()
	if err := crowd.gather(l.connections - 1); err != nil {
		return 0, err
	}
	cl, err := client.DialWith(ctx, c.addr, client.Options{Channels: l.channels})
	if err != nil {
		return 0, err
	}
	defer func() { _ = cl.Close() }()
	if err := declareSharded(cl); err != nil {
		return 0, err
	}
	work := l.batch()
	if err := l.publish(ctx, s, cl, work, routingKeys); err != nil { // warm up
		return 0, err
	}
	before, err := cpuSeconds(c.pid)
	if err != nil {
		return 0, err
	}
	if err := l.publish(ctx, s, cl, work, messages); err != nil {
		return 0, err
	}
	after, err := cpuSeconds(c.pid)
	return (after - before) / float64(messages) * 1e6, err
}

func (l load) publish(ctx context.Context, s *sink.Sink, cl *client.Client, work *client.Batch, n int) error {
	tally := s.Count(shardedExchange, true)
	if err := cl.Publish(work, n); err != nil {
		return err
	}
	if err := tally.Await(ctx, uint64(n)); err != nil {
		return err
	}
	return checkTally(tally, n, false)
}

// batch has a message for each key, or for each channel if there are more of these, which take turns.
func (l load) batch() *client.Batch {
	var headers frames.Table
	for i := range l.headers {
		headers = frames.AppendString(headers, fmt.Sprintf("header-%03d", i), "value")
	}
	messages := make([]client.Message, max(routingKeys, l.channels))
	for i := range messages {
		messages[i] = client.Message{
			Channel: uint16(1 + i%l.channels), Exchange: shardedExchange, RoutingKey: fmt.Sprintf("key.%04d", i%routingKeys),
			Headers: headers, Body: make([]byte, small),
		}
	}
	return client.NewBatchOf(messages)
}

// config has policies that are looked at before the one that matches.
func (l load) config(server string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "listeners: [{address: \"127.0.0.1:0\"}]\nupstream: {nodes: [{name: %s, address: %q}]}\npolicies:\n", sink.NodeName, server)
	const policy = "  - {name: %s, pattern: %q, priority: %d, definition: {shards-per-node: %d}}\n"
	for i := range l.policies - 1 {
		fmt.Fprintf(&text, policy, fmt.Sprintf("other%d", i), fmt.Sprintf("^other%d[.]", i), 1, 1)
	}
	fmt.Fprintf(&text, policy, shardedExchange, "^"+shardedExchange+"$", 0, l.shards)
	return text.String()
}
