package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/integration/rig"
	"github.com/shardmq/shardmq/shards/coordination"
)

// patience is how long to wait for the next message or confirm: something is broken when none comes any more.
const patience = 30 * time.Second

// demo is one run. The fields are filled in as it goes along.
type demo struct {
	options
	screen *screen
	broker *rig.Node
	proxy  *rig.Proxy
	direct *amqp.Connection // to the broker itself, past the proxy: to look and to clean up
	first  bool             // no proxy has been at this broker before
	made   bool             // the exchange is declared, so there is something to remove
	shards []*shard
	shard  map[string]*shard // by message id: where the broker has it
	split  map[string]bool   // routing keys found on more than one shard
	shares []int             // messages by consumer
}

// shard is one shard queue and what was seen of it.
type shard struct {
	queue     string
	published int // messages in it after publishing
	received  int // messages of it that the consumers got
	keys      map[string]bool
	consumers int // attached while everything was consumed
}

// run is the whole demonstration.
func run(ctx context.Context, o options, s *screen) (err error) {
	d := &demo{options: o, screen: s, shard: map[string]*shard{}, split: map[string]bool{}}
	defer func() {
		if err != nil && d.proxy != nil {
			err = fmt.Errorf("%w\n\nThe proxy's log:\n%s", err, d.proxy.Logs())
		}
		err = errors.Join(err, d.tearDown())
	}()
	for _, step := range []func(context.Context) error{d.start, d.checkUnused, d.declare, d.publish, d.look, d.consume} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	d.table()
	return d.verdict()
}

// start brings up the broker and the proxy.
func (d *demo) start(ctx context.Context) (err error) {
	begin := time.Now()
	if d.broker, err = rig.Broker(ctx); err != nil {
		return err
	}
	if d.broker.External() {
		d.screen.printf("RabbitMQ   %s, given by AMQP_URL", d.broker.Addr)
	} else {
		d.screen.printf("RabbitMQ   %s, a private node started in %.1f s", d.broker.Addr, time.Since(begin).Seconds())
	}
	if d.direct, err = amqp.Dial(d.broker.URL); err != nil {
		return fmt.Errorf("connect to the broker: %w", err)
	}
	before, err := ask(d.direct, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(coordination.MembersExchange, "fanout", true, false, false, false, nil)
	})
	if err != nil {
		return err
	}
	d.first = !before
	o := rig.ProxyOptions{Upstream: d.broker.URL, Shards: map[string]int{d.exchange: d.options.shards}}
	if d.broker.Name != "" {
		o.Args = []string{"--node-name", d.broker.Name}
	}
	if d.proxy, err = rig.StartProxy(ctx, o); err != nil {
		return err
	}
	d.screen.printf("shardmq    %s in front of it: --shard %s=%d", d.proxy.Addr, d.exchange, d.options.shards)
	return nil
}

// checkUnused makes sure that nothing of ours exists yet: the demo deletes what it made, and must not touch others'.
func (d *demo) checkUnused(context.Context) error {
	exists, err := ask(d.direct, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(d.exchange, "direct", true, false, false, false, nil)
	})
	if err != nil {
		return err
	}
	if exists {
		return fmt.Errorf("the broker has an exchange named '%s' already, and the demo would mix its messages with yours; "+
			"choose another name with -exchange, or delete it if it is left from a demo that was interrupted", d.exchange)
	}
	return nil
}

// ask runs a passive declare on a channel of its own; false when the broker says 404.
func ask(conn *amqp.Connection, passive func(*amqp.Channel) error) (bool, error) {
	ch, err := conn.Channel()
	if err != nil {
		return false, fmt.Errorf("open a channel: %w", err)
	}
	err = passive(ch)
	var refused *amqp.Error
	if errors.As(err, &refused) && refused.Code == amqp.NotFound {
		return false, nil
	}
	return err == nil, errors.Join(err, ch.Close())
}

// declare declares the sharded exchange as a client would on a broker with the sharding plugin, and finds its shards.
func (d *demo) declare(context.Context) error {
	conn, err := amqp.Dial(d.proxy.URL)
	if err != nil {
		return fmt.Errorf("connect through the proxy: %w", err)
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("open a channel through the proxy: %w", err)
	}
	if err := ch.ExchangeDeclare(d.exchange, "x-modulus-hash", true, false, false, false, nil); err != nil {
		return fmt.Errorf("declare exchange '%s' of type x-modulus-hash: %w", d.exchange, err)
	}
	d.made = true
	return d.findShards()
}

func (d *demo) shardQueue(node string, index int) string {
	return fmt.Sprintf("sharding: %s - %s - %d", d.exchange, node, index)
}

// findShards looks at the broker for the shard queues. Their names contain that of the node.
func (d *demo) findShards() error {
	var tried []string
	for _, node := range d.nodeNames() {
		name := d.shardQueue(node, 0)
		tried = append(tried, name)
		found, err := ask(d.direct, func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
			return err
		})
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		for i := range d.options.shards {
			d.shards = append(d.shards, &shard{queue: d.shardQueue(node, i), keys: map[string]bool{}})
		}
		return nil
	}
	return fmt.Errorf("the proxy made no shard at the broker: there is none of %q", tried)
}

// tearDown stops everything, and removes what the demo made from a broker that is not its own.
func (d *demo) tearDown() error {
	var errs []error
	if d.proxy != nil {
		if code, err := d.proxy.Stop(); err != nil || code != 0 {
			errs = append(errs, fmt.Errorf("the proxy ended with exit code %d", code), err)
		}
	}
	if d.direct != nil {
		if d.broker.External() && d.made {
			errs = append(errs, d.remove())
		}
		if d.broker.External() && d.first {
			errs = append(errs, d.removeTraces())
		}
		_ = d.direct.Close() // nothing depends on it any more
	}
	if d.broker != nil {
		errs = append(errs, d.broker.Stop())
	}
	return errors.Join(errs...)
}

// remove deletes the exchange, its catch-all and its shards.
func (d *demo) remove() error {
	ch, err := d.direct.Channel()
	if err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	var errs []error
	for _, exchange := range []string{d.exchange, d.exchange + ".unsharded"} {
		errs = append(errs, ch.ExchangeDelete(exchange, false, false))
	}
	for _, node := range d.nodeNames() {
		for i := range d.options.shards {
			_, err := ch.QueueDelete(d.shardQueue(node, i), false, false, false) // no error if there is none
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	d.screen.printf("Removed exchange '%s' and its shards from the broker.", d.exchange)
	return nil
}
