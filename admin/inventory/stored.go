package inventory

import (
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/shards/coordination"
)

// storedAtMost bounds the states read from the queue, of which there is one unless
// a leader has just gone.
const storedAtMost = 100

// readStored reads what the last leader has decided, while no proxy leads. A
// leader consumes the queue, so what is in it is not to be had then.
func (v *View) readStored(conn *amqp.Connection, user string) error {
	if v.Led {
		return nil
	}
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer ch.Close() // gives back what has been read
	q, err := ch.QueueDeclarePassive(coordination.StateQueue, true, false, false, false, nil)
	if closed, ok := errors.AsType[*amqp.Error](err); ok && closed.Code == amqp.NotFound && strings.Contains(closed.Reason, "no queue") {
		return nil // and it is not that its node is down
	}
	if err != nil {
		return err
	}
	if v.Led = q.Consumers > 0; v.Led {
		return nil
	}
	for range storedAtMost {
		d, some, err := ch.Get(coordination.StateQueue, false)
		if err != nil || !some {
			return err
		}
		v.takeStored(d, user)
	}
	return fmt.Errorf("queue '%s' has more than %d messages", coordination.StateQueue, storedAtMost)
}

// takeStored takes in one message of the queue.
func (v *View) takeStored(d amqp.Delivery, user string) {
	where := "queue '" + coordination.StateQueue + "'"
	if d.UserId != user {
		v.foreign(where)
		return
	}
	switch state, err := coordination.DecodeState(d.Body); {
	case err != nil:
		v.unread(where, err)
	case !namedState(state):
		v.unread(where, errNames)
	default:
		v.stored(state)
	}
}

// findSilent looks for proxies that the leader counts on and that are connected,
// but have said nothing.
func (v *View) findSilent(conn *amqp.Connection) error {
	for _, id := range v.granted() {
		if v.reports[id] != nil {
			continue
		}
		connected, err := isConnected(conn, id)
		if err != nil {
			return fmt.Errorf("look for proxy %s: %w", id, err)
		}
		if connected {
			v.Silent = append(v.Silent, id)
		}
	}
	return nil
}

// isConnected looks for the exclusive queue that a connected proxy has.
func isConnected(conn *amqp.Connection, id string) (bool, error) {
	ch, err := conn.Channel()
	if err != nil {
		return false, err
	}
	defer ch.Close()
	_, err = ch.QueueDeclarePassive(coordination.MemberQueue+id, false, true, true, false, nil)
	switch {
	case closedWith(err, amqp.ResourceLocked):
		return true, nil
	case closedWith(err, amqp.NotFound):
		return false, nil
	}
	return err == nil, err
}

func closedWith(err error, code int) bool {
	closed, ok := errors.AsType[*amqp.Error](err)
	return ok && closed.Code == code
}
