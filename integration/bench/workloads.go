package main

import (
	"context"
	"fmt"
	"time"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/integration/bench/client"
	"github.com/shardmq/shardmq/integration/bench/sink"
)

// workload is one thing to measure. measure moves n messages through a contestant and returns how long that took.
type workload struct {
	name     string
	messages int
	measure  func(ctx context.Context, s *sink.Sink, c contestant, n int) (time.Duration, error)
}

// Sizes of bodies, in octets.
const (
	small = 16
	large = 1024
)

// routingKeys is how many different keys there are.
const routingKeys = 1000

// workloads are all there are. Large messages are eight times fewer, for about the same time.
func workloads(messages int) []workload {
	fewer := max(messages/8, routingKeys)
	return []workload{
		{"publish 16 B", messages, publish(plainExchange, small)},
		{"publish 1 KiB", fewer, publish(plainExchange, large)},
		{"publish 1 KiB, confirms", fewer, confirmed(large)},
		{"publish 16 B, sharded", messages, publish(shardedExchange, small)},
		{"publish 1 KiB, sharded", fewer, publish(shardedExchange, large)},
		{"deliver 16 B", messages, deliver(plainQueue, small)},
		{"deliver 1 KiB", fewer, deliver(plainQueue, large)},
		{"deliver 16 B, sharded", messages, deliver(shardedExchange, small)},
		{"deliver 1 KiB, sharded", fewer, deliver(shardedExchange, large)},
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
func publish(exchange string, size int) func(context.Context, *sink.Sink, contestant, int) (time.Duration, error) {
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

// confirmed measures until the last confirm has arrived.
func confirmed(size int) func(context.Context, *sink.Sink, contestant, int) (time.Duration, error) {
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
func deliver(queue string, size int) func(context.Context, *sink.Sink, contestant, int) (time.Duration, error) {
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
