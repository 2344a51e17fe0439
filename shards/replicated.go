package shards

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards/coordination"
)

var _ coordination.Pruner = (*Topology)(nil)

// pruneFor is how long a request to remove shards lasts. Who asks goes on asking,
// so that nothing is removed any more once he has stopped.
const pruneFor = 5 * time.Second

// leftovers is what this proxy knows of surplus shards that are replicated queues.
// RabbitMQ deletes these on no condition, and closes the connection of whoever asks
// for one (540). So they stay, consumed, until somebody asks for their end. It is
// safe for concurrent use.
type leftovers struct {
	mu sync.Mutex // a leaf
	// replicated says of queues whether they are, where that was found out.
	replicated map[string]bool
	told       map[string]bool      // it was logged that they stay
	asked      map[string]time.Time // until when they may be removed
}

// known returns whether a queue is replicated, if that was found out.
func (l *leftovers) known(queue string) (replicated, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	replicated, known = l.replicated[queue]
	return replicated, known
}

// note notes whether a queue is replicated.
func (l *leftovers) note(queue string, replicated bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.replicated == nil {
		l.replicated = make(map[string]bool)
	}
	l.replicated[queue] = replicated
}

// tell reports whether it is news that a shard stays.
func (l *leftovers) tell(queue string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told[queue] {
		return false
	}
	if l.told == nil {
		l.told = make(map[string]bool)
	}
	l.told[queue] = true
	return true
}

// ask notes that shards may be removed, and forgets former requests that are over.
func (l *leftovers) ask(queues []string, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for queue, end := range l.asked {
		if now.After(end) {
			delete(l.asked, queue)
		}
	}
	if l.asked == nil {
		l.asked = make(map[string]time.Time)
	}
	for _, queue := range queues {
		l.asked[queue] = until
	}
}

// isAsked reports whether somebody wants a shard to be removed now.
func (l *leftovers) isAsked(queue string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.asked[queue])
}

// forget forgets shards that are gone, or wanted again.
func (l *leftovers) forget(shards ...Shard) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, shard := range shards {
		delete(l.replicated, shard.Queue)
		delete(l.told, shard.Queue)
		delete(l.asked, shard.Queue)
	}
}

// Prune implements coordination.Pruner.
func (t *Topology) Prune(exchange string, queues []string) {
	queues = slices.DeleteFunc(slices.Clone(queues), func(queue string) bool { return !participant{t}.IsShard(exchange, queue) })
	t.leftovers.ask(queues, time.Now().Add(pruneFor))
}

// replicated reports whether a shard that exists is a replicated queue. One without
// a node is; of others, which may have been made by somebody else, it is found out
// once. Where the broker does not say it counts as none.
func (t *Topology) replicated(ctx context.Context, exchange string, shard Shard) (bool, error) {
	if shard.Node == "" {
		return true, nil
	}
	if replicated, known := t.leftovers.known(shard.Queue); known {
		return replicated, nil
	}
	x, _ := t.exchangeNamed(exchange)
	spec := shardSpec(shard.Queue, &x.Policy().Definition)
	spec.Arguments[queueTypeArg] = classicType // should it vanish just now, what is made anew is easily removed
	var found []difference
	err := t.askNode(ctx, shard.Node, nil, func(b Broker) (err error) {
		found, err = differences(ctx, b, spec)
		return err
	})
	if _, refused := errors.AsType[*BrokerError](err); err != nil && (!refused || nodeDown(err)) {
		return false, err
	}
	is := slices.ContainsFunc(found, func(d difference) bool { return d.arg == queueTypeArg && d.current == quorumType })
	t.leftovers.note(shard.Queue, is)
	return is, nil
}

// stays reports whether a surplus shard that is empty is not to be removed, for it
// is a replicated queue, and says so once.
func (t *Topology) stays(ctx context.Context, exchange string, shard Shard) (bool, error) {
	if t.leftovers.isAsked(shard.Queue) {
		return false, nil
	}
	replicated, err := t.replicated(ctx, exchange, shard)
	if replicated {
		t.tellStays(exchange, shard)
	}
	return replicated, err
}

func (t *Topology) tellStays(exchange string, shard Shard) {
	if t.leftovers.tell(shard.Queue) {
		t.log.Info("surplus shard stays and is consumed: a quorum queue cannot be deleted on the condition that it is empty; "+
			"'shardmq shards prune --force --yes' removes it", "queue", shard.Queue, "exchange", exchange, "vhost", t.vhost)
	}
}

// deleteShard deletes a shard that has just been seen to be empty and unused, on
// the condition that it still is; if it is a replicated queue, only when that was
// asked for, and then without one. It reports whether the shard is gone, and with
// how many messages.
func (t *Topology) deleteShard(ctx context.Context, exchange string, shard Shard) (gone bool, messages uint32, err error) {
	replicated, err := t.replicated(ctx, exchange, shard)
	if err != nil {
		return false, 0, err
	}
	asked := t.leftovers.isAsked(shard.Queue)
	if replicated && !asked {
		t.tellStays(exchange, shard)
		return false, 0, nil
	}
	err = t.askNode(ctx, shard.Node, nil, func(b Broker) (err error) {
		messages, err = b.DeleteQueue(ctx, shard.Queue, !replicated, !replicated)
		return err
	})
	switch {
	case isRefusal(err, frames.NotImplemented):
		t.leftovers.note(shard.Queue, true)
		t.tellStays(exchange, shard)
		return false, 0, nil
	case isRefusal(err, frames.PreconditionFailed):
		return false, 0, nil // somebody was quicker
	}
	return err == nil, messages, err
}
