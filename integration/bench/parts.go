package main

import (
	"fmt"
	"time"
)

// scale is how much there is of everything. What takes time on purpose is short in a test.
type scale struct {
	messages int           // of 16 octets in one measurement; of larger ones there are fewer
	opens    int           // connections opened and closed in one measurement
	crowd    [2]int        // idle connections, for the memory they take; the first also for the CPU time
	stuck    [2]int        // connections that nobody reads from, for the memory they take
	idle     time.Duration // how long a crowd does nothing before it is measured
	window   time.Duration // over which its CPU time is measured
	paced    int           // messages of a latency measurement
	calls    int           // calls beside a flood in one measurement
	queued   int           // messages through RabbitMQ in one measurement
	brokers  []string      // versions of RabbitMQ, for the comparison with its plugin; "" is the system's
}

// fullScale is that of a run whose numbers are worth something, but for the messages.
var fullScale = scale{
	messages: 5_000_000,
	opens:    4000,
	crowd:    [2]int{1000, 9000},
	stuck:    [2]int{1000, 3000}, // the kernel has a quarter of a MiB in the sockets of each
	idle:     10 * time.Second,
	window:   30 * time.Second,
	paced:    2500,
	calls:    2500,
	queued:   200_000,
	brokers:  []string{"", "4.0", "4.3"},
}

// parts are all there are, in the order in which they are measured.
func parts(o options) []part {
	atSink := part{title: "in front of a broker stand-in", cpuOf: "proxy", open: openSink, about: []string{
		fmt.Sprintf("sharded: %d shards, %d routing keys; only shardmq shards, the others pass the same messages to one exchange or queue", shardCount, routingKeys),
		fmt.Sprintf("beside a flood: %d connections make %d calls a second each, while another one publishes 16 B as fast as it goes", callers, callsPerSecond),
		"a stuck connection: its client publishes 1 KiB until its writes block, and the broker reads nothing",
	}}
	atSink.workloads = append(throughput(o.scale), opens(o.scale), fairness(o.scale))
	atSink.workloads = append(atSink.workloads, idleWorkloads(o.scale)...)
	atSink.workloads = append(atSink.workloads, stuckWorkload(o.scale))
	all := []part{atSink, latencyPart(o.scale)}
	for _, version := range o.scale.brokers {
		all = append(all, pluginPart(o.scale, version))
	}
	if o.plot != "" {
		all = append(all, plotPart(o.scale))
	}
	if o.growth {
		all = append(all, growthPart(o.scale))
	}
	return all
}
