package integration

import (
	"context"
	"fmt"
	"strings"
)

// report tells who is here and what the broker has of it, to understand a failure by.
func (c *crowd) report() string {
	var b strings.Builder
	for _, m := range c.here {
		m.mu.Lock()
		fmt.Fprintf(&b, "client %d at proxy %d, prefetch %d, received %d, holds %d\n", m.id, m.proxy, m.prefetch, m.got, m.manners.holds())
		m.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, args := range [][]string{
		{"list_queues", "-p", c.f.e.vhost, "name", "messages_ready", "messages_unacknowledged", "consumers"},
		{"list_consumers", "-p", c.f.e.vhost, "queue_name", "channel_pid", "consumer_tag", "prefetch_count"},
	} {
		out, err := c.f.e.broker.Ctl(ctx, args...)
		fmt.Fprintln(&b, out, err)
	}
	for line := range strings.Lines(c.f.e.broker.LogTail(2000)) {
		if strings.Contains(line, "[error]") {
			b.WriteString(line)
		}
	}
	return b.String()
}
