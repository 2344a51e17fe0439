package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/integration/bench/client"
	"github.com/shardmq/shardmq/integration/bench/sink"
)

// Sizes of bodies, in octets.
const (
	small = 16
	large = 1024
)

// routingKeys is how many different keys there are.
const routingKeys = 1000

// throughput are the workloads of messages a second through a contestant to the sink, or from it. Large messages are
// eight times fewer, for about the same time, and those with a write each fewer still.
func throughput(s scale) []workload {
	fewer, slow := max(s.messages/8, routingKeys), max(s.messages/10, routingKeys)
	atLeast := func(ratio float64) bar { return bar{atLeast: ratio} }
	return []workload{
		rate("publish 16 B", s.messages, publish(plainExchange, small), atLeast(1), bar{atMost: 1}),
		rate("publish 1 KiB", fewer, publish(plainExchange, large), atLeast(1.25), bar{atMost: 0.7}),
		rate("publish 1 KiB, confirms", fewer, confirmed(large), bar{}, bar{}),
		rate("publish 16 B, sharded", s.messages, publish(shardedExchange, small), atLeast(0.5), bar{}),
		rate("publish 1 KiB, sharded", fewer, publish(shardedExchange, large), atLeast(1), bar{}),
		rate("publish 16 B, one a write, 2 connections", slow, spread(2, small, (*client.Client).PublishEach), atLeast(1), bar{}),
		rate("publish 1 KiB, one a write, 2 connections", slow, spread(2, large, (*client.Client).PublishEach), atLeast(1), bar{}),
		rate("deliver 16 B", s.messages, deliver(plainQueue, small), atLeast(0.95), bar{}),
		rate("deliver 1 KiB", fewer, deliver(plainQueue, large), atLeast(1.25), bar{}),
		rate("deliver 16 B, sharded", s.messages, deliver(shardedExchange, small), atLeast(0.6), bar{}),
		rate("deliver 1 KiB, sharded", fewer, deliver(shardedExchange, large), atLeast(1), bar{}),
	}
}

// timed moves n messages through a contestant and returns how long that took.
type timed func(ctx context.Context, s *sink.Sink, c contestant, n int) (time.Duration, error)

// rate is a workload of messages a second.
func rate(name string, n int, work timed, speed, cpu bar) workload {
	return workload{
		name: name, amount: n, warmUp: max(n/20, routingKeys), each: "message", cpu: cpu,
		figures: []figure{{name: name, unit: "M msg/s", digits: 3, bar: speed}},
		measure: func(ctx context.Context, at *place, c contestant, n int) ([]float64, error) {
			took, err := work(ctx, at.sink, c, n)
			return []float64{float64(n) / took.Seconds() / 1e6}, err
		},
	}
}

func batch(exchange string, size int) *client.Batch {
	keys := make([]string, routingKeys)
	for i := range keys {
		keys[i] = fmt.Sprintf("key.%04d", i)
	}
	return client.NewBatch(exchange, keys, make([]byte, size))
}

// publish measures from the first write until the sink has everything. Only shardmq shards: to the other contestants,
// and to the sink, the exchange is a name like any other.
func publish(exchange string, size int) timed {
	messages := batch(exchange, size)
	return func(ctx context.Context, s *sink.Sink, c contestant, n int) (time.Duration, error) {
		cl, err := client.Dial(ctx, c.addr)
		if err != nil {
			return 0, err
		}
		defer func() { _ = cl.Close() }()
		sharded := c.shards && exchange == shardedExchange
		if sharded {
			if err := declareSharded(cl); err != nil {
				return 0, err
			}
		}
		tally := s.Count(exchange, sharded)
		begin := time.Now()
		if err := cl.Publish(messages, n); err != nil {
			return 0, err
		}
		if err := tally.Await(ctx, uint64(n)); err != nil {
			return 0, err
		}
		took := time.Since(begin)
		return took, checkTally(tally, n, sharded)
	}
}

func declareSharded(cl *client.Client) error {
	return cl.Call(&frames.ExchangeDeclare{Exchange: shardedExchange, Type: "x-modulus-hash", Durable: true}, &frames.ExchangeDeclareOk{})
}

// checkTally makes sure that the sink got what was sent: no message more, and with sharding some on every shard.
func checkTally(t *sink.Tally, n int, sharded bool) error {
	if got := t.Messages(); got != uint64(n) {
		return fmt.Errorf("%d messages arrived of %d sent", got, n)
	}
	const enough = 100_000 // for a hundred samples
	if samples := t.Samples(); sharded && n >= enough && len(samples) != shardCount {
		return fmt.Errorf("the messages looked into went to the queues %v, want all %d shards", samples, shardCount)
	}
	return nil
}

// writing is how a client publishes n messages of a batch.
type writing func(cl *client.Client, b *client.Batch, n int) error

// spread measures several clients that publish to a plain exchange, until the sink has everything.
func spread(clients, size int, write writing) timed {
	messages := batch(plainExchange, size)
	return func(ctx context.Context, s *sink.Sink, c contestant, n int) (time.Duration, error) {
		all := make([]*client.Client, clients)
		for i := range all {
			var err error
			if all[i], err = client.Dial(ctx, c.addr); err != nil {
				return 0, err
			}
			defer func() { _ = all[i].Close() }()
		}
		tally := s.Count(plainExchange, false)
		begin := time.Now()
		ended := make(chan error, clients)
		for i, cl := range all {
			share := n / clients
			if i < n%clients {
				share++
			}
			go func() { ended <- write(cl, messages, share) }()
		}
		var errs []error
		for range all {
			errs = append(errs, <-ended)
		}
		if err := errors.Join(errs...); err != nil {
			return 0, err
		}
		if err := tally.Await(ctx, uint64(n)); err != nil {
			return 0, err
		}
		took := time.Since(begin)
		return took, checkTally(tally, n, false)
	}
}

// confirmed measures until the last confirm has arrived.
func confirmed(size int) timed {
	messages := batch(plainExchange, size)
	return func(ctx context.Context, s *sink.Sink, c contestant, n int) (time.Duration, error) {
		cl, err := client.Dial(ctx, c.addr)
		if err != nil {
			return 0, err
		}
		defer func() { _ = cl.Close() }()
		if err := cl.Call(&frames.ConfirmSelect{}, &frames.ConfirmSelectOk{}); err != nil {
			return 0, err
		}
		tally := s.Count(plainExchange, false)
		begin := time.Now()
		if err := cl.Confirmed(messages, n); err != nil {
			return 0, err
		}
		took := time.Since(begin)
		return took, checkTally(tally, n, false)
	}
}

// plainQueue is what contestants that do not shard consume from.
const plainQueue = "queue"

// deliver measures from the first delivery to the last. From a sharded exchange shardmq consumes the pseudo-queue,
// whose shards send a part each.
func deliver(queue string, size int) timed {
	body := make([]byte, size)
	return func(ctx context.Context, s *sink.Sink, c contestant, n int) (time.Duration, error) {
		cl, err := client.Dial(ctx, c.addr)
		if err != nil {
			return 0, err
		}
		defer func() { _ = cl.Close() }()
		if !c.shards || queue != shardedExchange {
			s.Load(plainQueue, &sink.Load{Count: n, Body: body, Exchange: plainExchange, RoutingKey: "key.0000"})
			return cl.Consume(plainQueue, n, size)
		}
		if err := declareSharded(cl); err != nil {
			return 0, err
		}
		n -= n % shardCount
		for i := range shardCount {
			s.Load(fmt.Sprintf("sharding: %s - %s - %d", shardedExchange, sink.NodeName, i),
				&sink.Load{Count: n / shardCount, Body: body, Exchange: shardedExchange, RoutingKey: "key.0000"})
		}
		return cl.Consume(queue, n, size)
	}
}
