package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// messageID and routingKey are those of message i.
func messageID(i int) string            { return fmt.Sprintf("message-%d", i) }
func (d *demo) routingKey(i int) string { return fmt.Sprintf("user.%d", i%d.keys) }

// publish sends all messages through the proxy and waits for the broker's confirm of each.
func (d *demo) publish(ctx context.Context) error {
	conn, err := amqp.Dial(d.proxy.URL)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	if err := ch.Confirm(false); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	// Mandatory: a message that reaches no queue comes back.
	returned := ch.NotifyReturn(make(chan amqp.Return, 1))
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	begin := time.Now()
	confirms := make([]*amqp.DeferredConfirmation, d.messages)
	for i := range confirms {
		confirms[i], err = ch.PublishWithDeferredConfirm(d.exchange, d.routingKey(i), true, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent,
			MessageId:    messageID(i),
			ContentType:  "text/plain",
			Body:         []byte("hello"),
		})
		if err != nil {
			return fmt.Errorf("publish message %d: %w", i, err)
		}
		d.screen.bar("published", i, d.messages, begin)
	}
	for i, confirm := range confirms {
		timer := time.NewTimer(patience)
		select {
		case <-confirm.Done():
			timer.Stop()
		case r := <-returned:
			return fmt.Errorf("message %s with routing key '%s' came back: %d %s", r.MessageId, r.RoutingKey, r.ReplyCode, r.ReplyText)
		case e := <-closed:
			return fmt.Errorf("the channel closed while messages were being confirmed: %w", e)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return fmt.Errorf("%d of %d messages are confirmed, and no more for %s", i, d.messages, patience)
		}
		if !confirm.Acked() {
			return fmt.Errorf("the broker refused message %d", i)
		}
	}
	d.screen.bar("published", d.messages, d.messages, begin)
	select { // a return precedes the message's confirm, so all are there
	case r := <-returned:
		return fmt.Errorf("message %s with routing key '%s' came back: %d %s", r.MessageId, r.RoutingKey, r.ReplyCode, r.ReplyText)
	default:
	}
	return nil
}

// look finds out at the broker itself, past the proxy, which message is on which shard: it reads every shard without
// acknowledging anything, and gives all back by closing the channel.
func (d *demo) look(ctx context.Context) error {
	for _, s := range d.shards {
		if err := d.lookInto(ctx, s); err != nil {
			return fmt.Errorf("look into '%s': %w", s.queue, err)
		}
	}
	if found := len(d.shard); found != d.messages {
		return fmt.Errorf("%d messages were confirmed, but the shards hold %d different ones", d.messages, found)
	}
	return nil
}

func (d *demo) lookInto(ctx context.Context, s *shard) error {
	ch, err := d.direct.Channel()
	if err != nil {
		return err
	}
	q, err := ch.QueueDeclarePassive(s.queue, true, false, false, false, nil)
	if err != nil {
		return err
	}
	s.published = q.Messages
	deliveries, err := ch.ConsumeWithContext(ctx, s.queue, "", false, true, false, false, nil)
	if err != nil {
		return err
	}
	for range s.published {
		m, err := next(ctx, deliveries)
		if err != nil {
			return err
		}
		if other := d.shard[m.MessageId]; other != nil {
			return fmt.Errorf("message %s is on '%s' as well", m.MessageId, other.queue)
		}
		d.shard[m.MessageId] = s
		s.keys[m.RoutingKey] = true
		for _, other := range d.shards {
			if other != s && other.keys[m.RoutingKey] {
				d.split[m.RoutingKey] = true
			}
		}
	}
	if err := ch.Close(); err != nil {
		return err
	}
	return d.awaitReady(ctx, s.queue, s.published)
}

// awaitReady waits until a queue has so many messages ready: giving messages back, and their acknowledgement, take
// effect a moment after the call.
func (d *demo) awaitReady(ctx context.Context, queue string, messages int) error {
	ch, err := d.direct.Channel()
	if err != nil {
		return err
	}
	deadline := time.Now().Add(patience)
	for {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err != nil {
			return err
		}
		if q.Messages == messages {
			return ch.Close()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("it has %d messages ready and should have %d", q.Messages, messages)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// next waits for a delivery.
func next(ctx context.Context, deliveries <-chan amqp.Delivery) (amqp.Delivery, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case m, ok := <-deliveries:
		if !ok {
			return m, errors.New("the broker ended the consumer")
		}
		return m, nil
	case <-ctx.Done():
		return amqp.Delivery{}, context.Cause(ctx)
	case <-timer.C:
		return amqp.Delivery{}, fmt.Errorf("no message for %s", patience)
	}
}
