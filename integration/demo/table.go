package main

import (
	"errors"
	"fmt"
	"strings"
)

// table prints what went where.
func (d *demo) table() {
	width := len("shard queue")
	for _, s := range d.shards {
		width = max(width, len(s.queue))
	}
	line := func(queue, published, share, keys, consumers, received string) {
		d.screen.printf("%-*s %10s %8s %7s %10s %9s", width, queue, published, share, keys, consumers, received)
	}
	d.screen.printf("")
	line("shard queue", "published", "share", "keys", "consumers", "received")
	line(strings.Repeat("-", width), "---------", "------", "-----", "---------", "--------")
	var published, received, consumers int
	keys := map[string]bool{}
	for _, s := range d.shards {
		line(s.queue, grouped(s.published), fmt.Sprintf("%.1f %%", 100*float64(s.published)/float64(d.messages)),
			grouped(len(s.keys)), grouped(s.consumers), grouped(s.received))
		published, received, consumers = published+s.published, received+s.received, consumers+s.consumers
		for key := range s.keys {
			keys[key] = true
		}
	}
	line("total", grouped(published), "", grouped(len(keys)), grouped(consumers), grouped(received))
	d.screen.printf("")
	for i, n := range d.shares {
		d.screen.printf("%s on queue '%s' received %s messages", consumerTag(i), d.exchange, grouped(n))
	}
	d.screen.printf("")
}

// verdict prints the checks and returns those that failed. That messages arrived once and as published was checked on
// the way; it is repeated here because it is what the demo is about.
func (d *demo) verdict() error {
	enough := d.keys >= 20*len(d.shards) // with fewer keys a shard may well get none
	var empty, idle []string
	for _, s := range d.shards {
		if s.published == 0 {
			empty = append(empty, s.queue)
		}
		if s.consumers == 0 {
			idle = append(idle, s.queue)
		}
	}
	received := 0
	for _, s := range d.shards {
		received += s.received
	}
	var errs []error
	check := func(ok bool, claim, fault string, args ...any) {
		if ok {
			d.screen.printf("ok  %s", claim)
			return
		}
		errs = append(errs, fmt.Errorf(fault, args...))
	}
	check(received == d.messages, "every message arrived exactly once, with its own exchange and routing key",
		"%d messages of %d arrived", received, d.messages)
	check(len(d.split) == 0, "every routing key stayed on one shard", "%d routing keys are on more than one shard", len(d.split))
	check(len(empty) == 0 || !enough, "every shard got messages", "no message went to %q", empty)
	check(len(idle) == 0, "every shard had a consumer", "no consumer was attached to %q", idle)
	return errors.Join(errs...)
}
