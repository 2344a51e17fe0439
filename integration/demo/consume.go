package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// prefetch is the consumers'.
const prefetch = 100

// arrival is a message that consumer number by has got and acknowledged.
type arrival struct {
	by int
	amqp.Delivery
}

// consume receives everything from the pseudo-queue through the proxy, with several consumers, each on a connection
// of its own.
func (d *demo) consume(ctx context.Context) error {
	d.shares = make([]int, d.consumers)
	arrivals := make(chan arrival)
	failed := make(chan error, d.consumers)
	stop := make(chan struct{}) // nobody takes arrivals any more
	var (
		channels  []*amqp.Channel
		conns     []*amqp.Connection
		consumers sync.WaitGroup
	)
	defer func() {
		close(stop)
		for _, conn := range conns {
			_ = conn.Close() // ends what still waits for deliveries
		}
		consumers.Wait()
	}()
	for range d.consumers {
		conn, err := amqp.Dial(d.proxy.URL)
		if err != nil {
			return fmt.Errorf("consume: %w", err)
		}
		conns = append(conns, conn)
		ch, err := conn.Channel()
		if err != nil {
			return fmt.Errorf("consume: %w", err)
		}
		channels = append(channels, ch)
	}
	for i, ch := range channels {
		consumers.Go(func() {
			if err := take(ch, i, d.exchange, arrivals, stop); err != nil {
				failed <- fmt.Errorf("consumer %d: %w", i+1, err)
			}
		})
	}
	if err := d.receive(ctx, arrivals, failed); err != nil {
		return err
	}
	if err := d.countConsumers(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		err := cancelAll(channels)
		consumers.Wait() // they pass on what had already come
		ended <- err
	}()
	return d.drain(ctx, arrivals, failed, ended)
}

func cancelAll(channels []*amqp.Channel) error {
	var errs []error
	for i, ch := range channels {
		errs = append(errs, ch.Cancel(consumerTag(i), false))
	}
	return errors.Join(errs...)
}

// take is one consumer: it passes on what it gets and acknowledges it.
func take(ch *amqp.Channel, number int, queue string, arrivals chan<- arrival, stop <-chan struct{}) error {
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.Consume(queue, consumerTag(number), false, false, false, false, nil)
	if err != nil {
		return err
	}
	for m := range deliveries {
		if err := m.Ack(false); err != nil {
			return err
		}
		select {
		case arrivals <- arrival{number, m}:
		case <-stop:
			return nil
		}
	}
	return nil
}

func consumerTag(number int) string { return fmt.Sprintf("consumer-%d", number+1) }

// receive checks every message, until all have arrived.
func (d *demo) receive(ctx context.Context, arrivals <-chan arrival, failed <-chan error) error {
	seen := make(map[string]bool, d.messages)
	begin := time.Now()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for len(seen) < d.messages {
		select {
		case m := <-arrivals:
			if err := d.check(m, seen); err != nil {
				return err
			}
			d.screen.bar("consumed", len(seen), d.messages, begin)
			timer.Reset(patience)
		case err := <-failed:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return fmt.Errorf("%s of %s messages arrived at the consumers, and no more for %s", grouped(len(seen)), grouped(d.messages), patience)
		}
	}
	return nil
}

// check looks at one message: it has to be one that was published, as it was published, and new.
func (d *demo) check(m arrival, seen map[string]bool) error {
	s := d.shard[m.MessageId]
	var number int
	_, err := fmt.Sscanf(m.MessageId, "message-%d", &number)
	switch {
	case s == nil || err != nil:
		return fmt.Errorf("a message arrived that was not published: '%s'", m.MessageId)
	case seen[m.MessageId]:
		return fmt.Errorf("message %s arrived twice", m.MessageId)
	case m.Exchange != d.exchange || m.RoutingKey != d.routingKey(number):
		return fmt.Errorf("message %s was published to '%s' with routing key '%s' and arrived as '%s', '%s'",
			m.MessageId, d.exchange, d.routingKey(number), m.Exchange, m.RoutingKey)
	case len(m.Headers) != 0:
		return fmt.Errorf("message %s was published without headers and arrived with %v", m.MessageId, m.Headers)
	case m.ConsumerTag != consumerTag(m.by):
		return fmt.Errorf("message %s came to '%s' for consumer '%s'", m.MessageId, consumerTag(m.by), m.ConsumerTag)
	}
	seen[m.MessageId] = true
	s.received++
	d.shares[m.by]++
	return nil
}

// countConsumers asks the broker how many consumers each shard has.
func (d *demo) countConsumers() error {
	ch, err := d.direct.Channel()
	if err != nil {
		return fmt.Errorf("count consumers: %w", err)
	}
	for _, s := range d.shards {
		q, err := ch.QueueDeclarePassive(s.queue, true, false, false, false, nil)
		if err != nil {
			return fmt.Errorf("count consumers: %w", err)
		}
		s.consumers = q.Consumers
	}
	return ch.Close()
}

// drain looks for messages too many, while the consumers are being cancelled: more deliveries, or something left on a
// shard after that.
func (d *demo) drain(ctx context.Context, arrivals <-chan arrival, failed, ended <-chan error) error {
	select {
	case m := <-arrivals:
		return fmt.Errorf("message %s arrived after all had arrived", m.MessageId)
	case err := <-failed:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("cancel the consumers: %w", err)
		}
	}
	for _, s := range d.shards {
		if err := d.awaitReady(ctx, s.queue, 0); err != nil {
			return fmt.Errorf("after everything was acknowledged, '%s': %w", s.queue, err)
		}
	}
	return nil
}
