package control

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards/coordination"
)

// inspect asks for a queue's counts.
func inspect(ctx context.Context, d *desk, queue string) (amqp.Queue, error) {
	return at(ctx, d, func(ch *amqp.Channel) (amqp.Queue, error) {
		return ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	})
}

// declare makes a queue for the lead.
func declare(ctx context.Context, d *desk, queue string) (amqp.Queue, error) {
	return at(ctx, d, func(ch *amqp.Channel) (amqp.Queue, error) {
		return ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "classic"})
	})
}

// inspectOrDeclare makes the queue if there is none.
func inspectOrDeclare(ctx context.Context, d *desk, queue string) (amqp.Queue, error) {
	q, err := inspect(ctx, d, queue)
	if isCode(err, frames.NotFound) {
		q, err = declare(ctx, d, queue)
	}
	return q, err
}

// take begins to consume a queue exclusively. It returns nil if somebody else
// has been faster.
func (e *elector) take(w *wire, queue string) (*hold, error) {
	h := &hold{
		queue: queue, w: w, name: e.s.t.id + "." + randomHex(4) + ".",
		newer: e.s.t.o.Newer, foreign: e.s.t.foreign, storing: make(chan struct{}, 1),
	}
	type start struct {
		ch         *amqp.Channel
		deliveries <-chan amqp.Delivery
		messages   int
	}
	b, err := ask(e.s.ctx, w, func() (b start, err error) {
		if b.ch, err = w.conn.Channel(); err == nil {
			b.deliveries, b.messages, err = consumeAlone(b.ch, queue)
		}
		return b, err
	}, func(b start) { closeChannel(b.ch) })
	if isCode(err, frames.AccessRefused) {
		if err = refusal("consume queue '"+queue+"'", w, err); !errors.Is(err, coordination.ErrNoRights) {
			return nil, nil // the queue is in exclusive use
		}
		return nil, err
	}
	if err != nil {
		return nil, refusal("consume queue '"+queue+"'", w, err)
	}
	h.ch, h.deliveries = b.ch, b.deliveries
	h.ctx, h.fail = context.WithCancelCause(e.s.ctx)
	if err := h.collect(b.messages); err != nil {
		h.release()
		return nil, fmt.Errorf("read queue '%s': %w", queue, err)
	}
	if queue == coordination.StateQueue {
		e.takeOver(h)
	}
	return h, nil
}

// consumeAlone consumes a queue exclusively, and tells how many messages it has.
// All that it had was requeued before its last consumer was seen to be gone.
func consumeAlone(ch *amqp.Channel, queue string) (<-chan amqp.Delivery, int, error) {
	if err := ch.ExchangeDeclare(coordination.StateExchange, amqp.ExchangeDirect, true, false, false, false, nil); err != nil {
		return nil, 0, err
	}
	if err := ch.QueueBind(queue, queue, coordination.StateExchange, false, nil); err != nil {
		return nil, 0, err
	}
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		return nil, 0, err
	}
	deliveries, err := ch.Consume(queue, "", false, true, false, false, nil)
	return deliveries, q.Messages, err
}
