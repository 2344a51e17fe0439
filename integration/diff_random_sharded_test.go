package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// randSharded says what a queue of the model is where a proxy has policies. Directly, and with no policy, a fanout exchange and the queue of
// the same name stand for the sharded exchange and its pseudo-queue.
type randSharded uint8

const (
	unsharded randSharded = iota
	lined                 // a pseudo-queue that gets one routing key only: all is in one shard, and so in order
	spread                // one that gets any: what its order is nobody knows, so it is looked into at the end
)

// shardedName is the name of one of the two that a session has, which its successors use again: sharded exchanges are there to stay.
func shardedName(session int, kind randSharded) string {
	return fmt.Sprintf("pseudo-random-%d-%s", session%randSessions, map[randSharded]string{lined: "lined", spread: "spread"}[kind])
}

// makeSharded declares what all sessions need of it.
func (b *diffBroker) makeSharded(t *testing.T) {
	t.Helper()
	for _, w := range b.randWays() {
		at, shards := b.randAt(w)
		ch, exchange := open(t, at), "fanout"
		if shards {
			exchange = modulusHash
		}
		for session := range randSessions {
			for _, kind := range []randSharded{lined, spread} {
				name := shardedName(session, kind)
				require.NoError(t, ch.ExchangeDeclare(name, exchange, true, false, false, false, nil))
				_, err := ch.QueueDeclare(name, true, false, false, false, nil)
				require.NoError(t, err)
				require.NoError(t, ch.QueueBind(name, "", name, false, nil))
			}
		}
	}
}

// useSharded tells the family of a session's sharded exchanges.
func (f *randFamily) useSharded(session int) {
	for _, kind := range []randSharded{lined, spread} {
		name := shardedName(session, kind)
		f.model.exchanges[name] = &randExchange{declared: frames.ExchangeDeclare{Exchange: name, Type: "fanout", Durable: true}, sharded: true}
		f.model.queues[name] = &randQueue{declared: frames.QueueDeclare{Queue: name, Durable: true}, sharded: kind}
		f.model.bind(randBinding{source: name, queue: name})
	}
}

// publishSharded publishes to one of the pseudo-queues. In CC there is nothing: RabbitMQ's own exchange of that kind hashes it, shardmq does not.
func (f *randFamily) publishSharded(ch *randChannel) *randOp {
	all := f.all(func(q *randQueue) bool { return q.sharded != unsharded })
	if len(all) == 0 {
		return nil
	}
	q := pick(f, all)
	name, kind := q.declared.Queue, q.sharded
	p := &frames.BasicPublish{Exchange: name, RoutingKey: "a.b", Mandatory: f.chance(3)}
	switch {
	case kind == spread && f.chance(3):
		p.Exchange, p.RoutingKey = "", name
	case kind == spread:
		p.RoutingKey = fmt.Sprintf("key.%d", f.rng.IntN(30))
	}
	step, _, _ := f.content(p, false)
	return f.published(ch, step, []string{name})
}

// left takes everything out of the queues that are left, one way, and returns it: what was in which queue. Whether it has been delivered before
// is chance: when connections end, what one channel had may have come to another for a moment.
func (f *randFamily) left(l *randLane) (all []string, err error) {
	conn, err := amqp.Dial(l.at)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	for _, q := range f.all(func(q *randQueue) bool { return !q.declared.Exclusive }) {
		name := q.declared.Queue
		if given := l.names[name]; given != "" {
			name = given
		}
		if err := holds(ch, name, q.total); err != nil {
			return nil, fmt.Errorf("%s: %w", l.way, err)
		}
		var in []amqp.Delivery
		for {
			m, ok, err := ch.Get(name, true)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", l.way, q.declared.Queue, err)
			}
			if !ok {
				break
			}
			delete(m.Headers, "x-death") // has times in it
			in = append(in, m)
		}
		if len(in) != q.total {
			return nil, fmt.Errorf("%s: %d messages in %s, the model has %d", l.way, len(in), q.declared.Queue, q.total)
		}
		if q.sharded == spread { // only messages with one routing key have an order, those that came through the default exchange none
			slices.SortStableFunc(in, func(a, b amqp.Delivery) int {
				if a.Exchange == "" && b.Exchange == "" {
					return strings.Compare(leftover(a), leftover(b))
				}
				return strings.Compare(a.RoutingKey, b.RoutingKey)
			})
		}
		for _, m := range in {
			all = append(all, q.declared.Queue+": "+leftover(m))
		}
	}
	return all, nil
}

// leftover is what a message is known by.
func leftover(m amqp.Delivery) string {
	text := fmt.Sprintf("%q %q %v %d %d %q %d octets: %q", m.Exchange, m.RoutingKey, m.Headers, m.DeliveryMode, m.Priority, m.MessageId, len(m.Body), head(m.Body, 20))
	return generated.ReplaceAllString(text, "amq.$1-*")
}

// holds waits until a queue has so many messages for whoever wants them: those of connections that have ended come back in their time.
func holds(ch *amqp.Channel, queue string, n int) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		q, err := ch.QueueDeclarePassive(queue, false, false, false, false, nil)
		if err != nil || q.Messages == n {
			return err
		}
		if time.Since(began) > patience {
			return fmt.Errorf("%d messages in %s, the model has %d", q.Messages, queue, n)
		}
	}
}

// consumable reports whether a channel may consume from a queue. A pseudo-queue has one consumer at a time, for which one gets a shard is chance; and
// a shard is another consumer's only when all that was given to the former one is settled. What of the prefetch of a whole channel shards get is RabbitMQ's affair.
func (q *randQueue) consumable(ch *randChannel) bool {
	return q.sharded == unsharded || q.sharded == lined && !ch.consumes() && len(q.consumers) == 0 && q.held == 0 && ch.limit == 0
}
