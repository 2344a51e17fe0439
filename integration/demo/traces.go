package main

import (
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/shards/coordination"
)

// removeTraces deletes what proxies agree over, unless another proxy has come and uses it.
func (d *demo) removeTraces() error {
	for _, remove := range []func(*amqp.Channel) error{
		func(ch *amqp.Channel) error {
			_, err := ch.QueueDelete(coordination.StateQueue, true, false, false)
			return err
		},
		func(ch *amqp.Channel) error { return ch.ExchangeDelete(coordination.StateExchange, true, false) },
		func(ch *amqp.Channel) error { return ch.ExchangeDelete(coordination.MembersExchange, true, false) },
	} {
		ch, err := d.direct.Channel() // of its own: a refusal closes it
		if err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
		err = remove(ch)
		var used *amqp.Error
		if errors.As(err, &used) && used.Code == amqp.PreconditionFailed {
			return nil
		}
		if err := errors.Join(err, ch.Close()); err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
	}
	return nil
}
