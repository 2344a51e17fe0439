package main

import (
	"fmt"
	"os"

	"github.com/shardmq/shardmq/integration/bench/client"
	"github.com/shardmq/shardmq/integration/bench/plot"
)

const plotTitle = "against body size and number of connections"

// What is on the axes of the picture.
var (
	bodySizes        = []int{0, 16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10}
	connectionCounts = []int{1, 2, 4, 8, 16, 32, 64}
)

// plotPart is throughput at many sizes of bodies, and over many connections at once.
func plotPart(s scale) part {
	p := part{title: plotTitle, cpuOf: "proxy", open: openSink}
	for _, size := range bodySizes {
		const rest = 80 // octets of frames and socket calls that a message costs beside its body, about
		n := max(s.messages*rest/(size+rest), routingKeys)
		p.workloads = append(p.workloads, rate(sizeName(size), n, publish(plainExchange, size), bar{}, bar{}))
	}
	for _, count := range connectionCounts {
		n := max(s.messages/8, routingKeys)
		p.workloads = append(p.workloads, rate(countName(count), n, spread(count, large, (*client.Client).Publish), bar{}, bar{}))
	}
	return p
}

func sizeName(size int) string   { return "plot, publish " + octets(size) }
func countName(count int) string { return fmt.Sprintf("plot, publish 1 KiB, connections: %d", count) }

func octets(n int) string {
	if n >= 1<<10 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// draw writes the picture, if it is asked for and was measured.
func draw(o options, all []outcome) error {
	for _, done := range all {
		if done.title != plotTitle {
			continue
		}
		y := "messages a second, ratio to " + done.reference
		var sizes, counts []string
		bySize := plot.Chart{Title: "Publish, by size of the body", X: "body", Y: y}
		for _, size := range bodySizes {
			bySize.Ticks, sizes = append(bySize.Ticks, octets(size)), append(sizes, sizeName(size))
		}
		byCount := plot.Chart{Title: "Publish 1 KiB, by number of connections", X: "connections", Y: y}
		for _, count := range connectionCounts {
			byCount.Ticks, counts = append(byCount.Ticks, fmt.Sprint(count)), append(counts, countName(count))
		}
		bySize.Series, byCount.Series = done.series(sizes), done.series(counts)
		if err := os.WriteFile(string(o.plot), []byte(plot.SVG(bySize, byCount)), 0o644); err != nil {
			return fmt.Errorf("plot: %w", err)
		}
	}
	return nil
}

// series are each contestant's ratios of the workloads of these names.
func (o outcome) series(workloads []string) []plot.Series {
	var all []plot.Series
	for _, c := range o.all {
		s := plot.Series{Name: c.name}
		for _, name := range workloads {
			s.Values = append(s.Values, o.row(workload{name: name}, 0, c).ratio)
		}
		all = append(all, s)
	}
	return all
}
