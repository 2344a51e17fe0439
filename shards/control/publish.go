package control

import (
	"bytes"
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/shards/coordination"
)

// announce sends a message to all proxies.
func (s *session) announce(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errSlow)
	defer cancel()
	now := max(1, int64(time.Since(s.began)))
	first := s.sent.CompareAndSwap(0, now)
	_, err := s.publish(ctx, s.members, coordination.MembersExchange, "", false, amqp.Publishing{
		ContentType: "application/json", DeliveryMode: amqp.Transient, Expiration: messageLife, AppId: s.t.id, Body: body,
	})
	if err != nil && first {
		s.sent.CompareAndSwap(now, 0)
	}
	return err
}

// publish writes a message, unless the broker takes none. The body is copied: it
// may still be written when the caller has given up.
func (s *session) publish(
	ctx context.Context, ch *amqp.Channel, exchange, key string, mandatory bool, m amqp.Publishing,
) (*amqp.DeferredConfirmation, error) {
	m.Body = bytes.Clone(m.Body)
	m.UserId = s.t.o.Username // the broker checks it, see foreign
	blocked, is := s.alarm.state()
	if is {
		return nil, coordination.ErrBlocked
	}
	select {
	case s.slot <- struct{}{}:
	case <-blocked:
		return nil, coordination.ErrBlocked
	case <-ctx.Done():
		return nil, fmt.Errorf("publish to exchange '%s': %w", exchange, context.Cause(ctx))
	case <-s.ctx.Done():
		return nil, &disconnectedError{context.Cause(s.ctx)}
	}
	done := make(chan outcome[*amqp.DeferredConfirmation], 1)
	if !s.out.spawn(func() {
		defer func() { <-s.slot }()
		confirmation, err := ch.PublishWithDeferredConfirm(exchange, key, mandatory, false, m)
		done <- outcome[*amqp.DeferredConfirmation]{confirmation, err}
	}) {
		return nil, &disconnectedError{errLost}
	}
	select {
	case o := <-done:
		if o.err != nil {
			return nil, &disconnectedError{refusal("publish to exchange '"+exchange+"'", s.out, o.err)}
		}
		return o.value, nil
	case <-blocked:
		return nil, coordination.ErrBlocked
	case <-ctx.Done():
		return nil, fmt.Errorf("publish to exchange '%s': %w", exchange, context.Cause(ctx))
	case <-s.ctx.Done():
		return nil, &disconnectedError{context.Cause(s.ctx)}
	}
}
