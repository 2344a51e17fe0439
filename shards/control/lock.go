package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards/coordination"
)

// lockQueue begins the name of a lock: an exclusive queue, of which only one
// connection can be the owner, and which ends with that.
const lockQueue = "shardmq.lock."

// nameMost is how long a queue's name may be, in octets.
const nameMost = 255

var _ coordination.Locker = (*Transport)(nil)

// lockName is the queue that is the lock of that name.
func lockName(name string) string {
	if len(lockQueue)+len(name) <= nameMost {
		return lockQueue + name
	}
	sum := sha256.Sum256([]byte(name))
	return lockQueue + hex.EncodeToString(sum[:])
}

// Lock implements coordination.Locker, by the connection that publishes nothing:
// an alarm does not concern it.
func (t *Transport) Lock(ctx context.Context, name string) (bool, error) {
	s, _, err := t.current()
	if err != nil {
		return false, err
	}
	if _, blocked := s.alarm.state(); !blocked {
		return false, coordination.ErrNotBlocked
	}
	_, err = locking(ctx, s, func(ch *amqp.Channel) (amqp.Queue, error) {
		return ch.QueueDeclare(lockName(name), false, false, true, false, amqp.Table{"x-queue-type": "classic", "x-max-length": 1})
	})
	switch {
	case isCode(err, frames.ResourceLocked):
		return false, nil
	case err != nil:
		return false, refusal("declare queue '"+lockName(name)+"'", s.in, err)
	}
	return true, nil
}

// Unlock implements coordination.Locker.
func (t *Transport) Unlock(ctx context.Context, name string) error {
	s, _, err := t.current()
	if err != nil {
		return err
	}
	_, err = locking(ctx, s, func(ch *amqp.Channel) (int, error) {
		return ch.QueueDelete(lockName(name), false, false, false)
	})
	switch {
	case isCode(err, frames.ResourceLocked), isCode(err, frames.NotFound): // it is not ours
		return nil
	case err != nil:
		return refusal("delete queue '"+lockName(name)+"'", s.in, err)
	}
	return nil
}

// locking makes one request on a channel of its own, and ends with the session.
func locking[T any](ctx context.Context, s *session, fn func(*amqp.Channel) (T, error)) (T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
	d := desk{w: s.in}
	v, err := at(ctx, &d, fn)
	if ch := d.ch; ch != nil {
		s.in.spawn(func() { closeChannel(ch) })
	}
	return v, err
}
