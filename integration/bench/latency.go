package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/integration/bench/client"
	"github.com/shardmq/shardmq/integration/rig"
)

// perSecond is how many messages a latency measurement sends in a second: few, so that none waits for another.
const perSecond = 500

// latencyPart is the time from publish to delivery through a real RabbitMQ.
func latencyPart(s scale) part {
	atMost := bar{atMost: 1}
	return part{
		title: "in front of RabbitMQ",
		open:  openBroker,
		about: []string{fmt.Sprintf("latency is the time from a publish to its delivery to a consumer beside the publisher, 1 KiB, %d messages a second; the last column is in microseconds", perSecond)},
		workloads: []workload{{
			name: "latency", amount: s.paced, warmUp: max(s.paced/10, 10),
			figures: []figure{
				{name: "latency, p50", unit: "us", bar: atMost, overDirect: true},
				{name: "latency, p99", unit: "us", bar: atMost, overDirect: true},
			},
			measure: func(ctx context.Context, _ *place, c contestant, n int) ([]float64, error) {
				took, err := latencies(ctx, c.addr, n)
				if err != nil {
					return nil, err
				}
				slices.Sort(took)
				return []float64{micros(took[n/2]), micros(took[min(n*99/100, n-1)])}, nil
			},
		}},
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// openBroker starts a RabbitMQ and all contestants in front of it.
func openBroker(ctx context.Context) (*place, error) {
	node, err := rig.StartNode(ctx, rig.NodeOptions{})
	if err != nil {
		return nil, err
	}
	at, err := field(ctx, node.Addr, func(ctx context.Context, _ string) (contestant, error) {
		return shardmqWith(ctx, rig.ProxyOptions{Upstream: node.URL})
	})
	if err != nil {
		return nil, errors.Join(err, node.Stop())
	}
	stop := at.close
	at.close = func() error { return errors.Join(stop(), node.Stop()) }
	return at, nil
}

// latencies sends n messages through an address, one after the other at a steady pace, and returns how long each took
// to come back.
func latencies(ctx context.Context, address string, n int) ([]time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	consumer, err := client.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = consumer.Close() }() // with it goes the queue
	var queue frames.QueueDeclareOk
	if err := consumer.Call(&frames.QueueDeclare{Exclusive: true}, &queue); err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	publisher, err := client.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = publisher.Close() }()

	epoch := time.Now()
	failed := make(chan error, 1)
	if err := consumer.Attach(queue.Queue); err != nil {
		return nil, err
	}
	go func() {
		err := pace(ctx, publisher, queue.Queue, epoch, n)
		if err != nil {
			cancel() // nothing is to be waited for
		}
		failed <- err
	}()
	took := make([]time.Duration, 0, n)
	for len(took) < n {
		body, err := consumer.Next(large)
		if err != nil {
			cancel()
			return nil, errors.Join(fmt.Errorf("%d of %d messages came back: %w", len(took), n, err), <-failed)
		}
		sent := time.Duration(binary.BigEndian.Uint64(body))
		took = append(took, time.Since(epoch)-sent)
	}
	return took, <-failed
}

// pace publishes n messages to a queue, each with the time since epoch at which it is written.
func pace(ctx context.Context, publisher *client.Client, queue string, epoch time.Time, n int) error {
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	body := make([]byte, large)
	message := client.NewBatchOf([]client.Message{{RoutingKey: queue, Body: body}})
	stamp := message.Body(0)
	for range n {
		if err := wait(ctx, tick.C); err != nil {
			return err
		}
		binary.BigEndian.PutUint64(stamp, uint64(time.Since(epoch)))
		if err := publisher.PublishOne(message, 0); err != nil {
			return err
		}
	}
	return nil
}
