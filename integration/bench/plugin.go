package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/integration/bench/client"
	"github.com/shardmq/shardmq/integration/rig"
)

// pluginPart is shardmq in front of a RabbitMQ beside another RabbitMQ whose own plugin shards, both of a version that the rig knows; "" is the system's.
func pluginPart(s scale, version string) part {
	broker := strings.TrimSpace("with RabbitMQ " + version)
	p := part{
		title: broker + ", beside its plugin rabbitmq_sharding",
		open:  func(ctx context.Context) (*place, error) { return openPlugin(ctx, version) },
		about: []string{"the plugin: a RabbitMQ with it and without a proxy; shardmq: in front of a RabbitMQ without it; 1 KiB, published and consumed at the same time, without acknowledgements, by as many consumers as there are shards, on four connections"},
	}
	for _, shards := range pluginShards {
		name := fmt.Sprintf("%s, %d shards", broker, shards)
		p.workloads = append(p.workloads, workload{
			name: name, amount: s.queued, warmUp: max(s.queued/10, routingKeys),
			figures: []figure{
				{name: name, unit: "k msg/s", digits: 1, bar: bar{atLeast: 0.97}},
				{name: name + ", broker's CPU", unit: "us each", digits: 1, bar: bar{atMost: 1.05}},
			},
			measure: func(ctx context.Context, _ *place, c contestant, n int) ([]float64, error) {
				return throughRabbitMQ(ctx, c, shards, n)
			},
		})
	}
	return p
}

// pluginShards are the numbers of shards, each of an exchange of its own.
var pluginShards = []int{4, 32}

func pluginExchange(shards int) string { return fmt.Sprintf("%s%d", shardedExchange, shards) }

// openPlugin starts two RabbitMQs. Of a version that is not installed there is nobody at the place.
func openPlugin(ctx context.Context, version string) (at *place, err error) {
	at = &place{reference: pluginOwn}
	var stops []func() error
	at.close = func() error {
		errs := []error{stopAll(at.all)}
		for _, stop := range stops {
			errs = append(errs, stop())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, at.close())
		}
	}()
	stock, err := rig.StartNode(ctx, rig.NodeOptions{Version: version})
	if missing := new(rig.NotInstalledError); version != "" && errors.As(err, &missing) {
		at.notes = append(at.notes, missing.Error())
		return at, nil
	}
	if err != nil {
		return nil, err
	}
	stops = append(stops, stock.Stop)
	own := map[string]int{}
	for _, shards := range pluginShards {
		own[pluginExchange(shards)] = shards
	}
	c, err := shardmqWith(ctx, rig.ProxyOptions{Upstream: stock.URL, Shards: own})
	if err != nil {
		return nil, err
	}
	c.broker = stock
	plugged, err := rig.StartNode(ctx, rig.NodeOptions{Version: version, Plugins: []string{"rabbitmq_sharding"}})
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	stops = append(stops, plugged.Stop)
	for exchange, shards := range own {
		definition := fmt.Sprintf(`{"shards-per-node": %d}`, shards)
		if _, err := plugged.Ctl(ctx, "set_policy", exchange, "^"+exchange+"$", definition, "--apply-to", "exchanges"); err != nil {
			return nil, errors.Join(err, c.stop())
		}
	}
	at.all = []contestant{{name: pluginOwn, addr: plugged.Addr, broker: plugged, stop: func() error { return nil }}, c}
	return at, nil
}

// throughRabbitMQ publishes n messages to a sharded exchange and consumes them meanwhile. It returns thousands of
// messages a second, and the CPU time of the broker for each in microseconds.
func throughRabbitMQ(ctx context.Context, c contestant, shards, n int) (values []float64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	exchange := pluginExchange(shards)
	publisher, err := client.Dial(ctx, c.addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = publisher.Close() }()
	if err := publisher.Call(&frames.ExchangeDeclare{Exchange: exchange, Type: "x-modulus-hash", Durable: true}, &frames.ExchangeDeclareOk{}); err != nil {
		return nil, err
	}
	look, err := client.Dial(ctx, c.broker.Addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = look.Close() }()
	consumers, err := attachAll(ctx, c.addr, exchange, shards)
	for _, cl := range consumers {
		defer func() { _ = cl.Close() }()
	}
	if err != nil {
		return nil, err
	}
	if err := covered(ctx, look, c.broker.Name, exchange, shards); err != nil {
		return nil, err
	}
	before, err := cpuSeconds(c.broker.PID())
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := publishAndConsume(ctx, publisher, consumers, exchange, n); err != nil {
		return nil, err
	}
	took := time.Since(begin)
	after, err := cpuSeconds(c.broker.PID())
	if err != nil {
		return nil, err
	}
	if left, _, err := shardsOf(look, c.broker.Name, exchange, shards); err != nil || left > 0 {
		return nil, errors.Join(err, fmt.Errorf("%d messages more than were sent are in the shards", left))
	}
	return []float64{float64(n) / took.Seconds() / 1e3, (after - before) / float64(n) * 1e6}, nil
}

// attachAll attaches consumers to a sharded exchange, spread over four connections.
func attachAll(ctx context.Context, address, exchange string, n int) ([]*client.Client, error) {
	const connections = 4
	var all []*client.Client
	for range connections {
		cl, err := client.Dial(ctx, address)
		if err != nil {
			return all, err
		}
		all = append(all, cl)
	}
	for i := range n {
		if err := all[i%connections].Attach(exchange); err != nil {
			return all, err
		}
	}
	return all, nil
}

// covered waits until every shard has a consumer.
func covered(ctx context.Context, look *client.Client, node, exchange string, shards int) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		left, fewest, err := shardsOf(look, node, exchange, shards)
		switch {
		case err != nil:
			return err
		case left > 0:
			return fmt.Errorf("there are %d messages in the shards already", left)
		case fewest > 0:
			return nil
		}
		if err := wait(ctx, tick.C); err != nil {
			return fmt.Errorf("waiting for consumers on all shards: %w", err)
		}
	}
}

// shardsOf returns how many messages are in an exchange's shards, and how many consumers the shard with the fewest has.
func shardsOf(look *client.Client, node, exchange string, shards int) (messages, fewest uint32, err error) {
	fewest = math.MaxUint32
	for i := range shards {
		var q frames.QueueDeclareOk
		name := fmt.Sprintf("sharding: %s - %s - %d", exchange, node, i)
		if err := look.Call(&frames.QueueDeclare{Queue: name, Passive: true}, &q); err != nil {
			return 0, 0, err
		}
		messages += q.MessageCount
		fewest = min(fewest, q.ConsumerCount)
	}
	return messages, fewest, nil
}

// publishAndConsume returns when as many messages have come as were published.
func publishAndConsume(ctx context.Context, publisher *client.Client, consumers []*client.Client, exchange string, n int) error {
	var arrived atomic.Int64
	ended := make(chan error, len(consumers)+1)
	complete := make(chan struct{})
	for _, cl := range consumers {
		go func() {
			for {
				if _, err := cl.Next(large); err != nil {
					ended <- err
					return
				}
				if arrived.Add(1) == int64(n) {
					close(complete)
				}
			}
		}()
	}
	messages := batch(exchange, large)
	go func() {
		if err := publisher.Publish(messages, n); err != nil {
			ended <- err
		}
	}()
	select {
	case <-complete:
		return nil
	case err := <-ended:
		return fmt.Errorf("%d of %d messages came: %w", arrived.Load(), n, err)
	case <-ctx.Done():
		return fmt.Errorf("%d of %d messages came: %w", arrived.Load(), n, context.Cause(ctx))
	}
}
