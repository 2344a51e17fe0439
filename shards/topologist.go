package shards

import (
	"context"
	"fmt"
	"slices"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards/coordination"
	"github.com/shardmq/shardmq/shards/internal/parallel"
)

var _ coordination.Topologist = (*Topology)(nil)

// exchangeNamed returns what the leader has to act on: an exchange a policy of
// this proxy matches, or one that only other proxies' policies know.
func (t *Topology) exchangeNamed(name string) (x *Exchange, ours bool) {
	if route := t.routes.lookup([]byte(name)); route != nil && route.Exchange != nil {
		return route.Exchange, true
	}
	return newExchange(name, t.vhost, &Policy{Name: "of another proxy", Vhost: t.vhost, Pattern: name}), false
}

// walk asks the nodes of shards, each about its own.
func (t *Topology) walk(ctx context.Context, exchange string, list []Shard, fn func(context.Context, Broker, *Set, []int) error) error {
	a := &asking{set: SetOf(exchange, 1, list)}
	err := t.eachNode(ctx, a, func(ctx context.Context, b Broker, indexes []int) error { return fn(ctx, b, a.set, indexes) })
	if err == nil && len(a.down) > 0 {
		return fmt.Errorf("shards of exchange '%s': a node of theirs is down: %w", exchange, ErrUnreachable)
	}
	return err
}

// Prepare implements coordination.Topologist: it declares the shards and binds
// them with the shard keys of the word counts that this proxy knows to be in use.
// Other proxies bind what they need more.
func (t *Topology) Prepare(ctx context.Context, exchange string, list []Shard) error {
	x, ours := t.exchangeNamed(exchange)
	if !ours {
		return nil // the proxies whose policy it is do what this one cannot
	}
	if err := x.work.lock(ctx); err != nil {
		return fmt.Errorf("prepare shards of exchange '%s': %w", exchange, err)
	}
	defer x.work.unlock()
	t.leftovers.forget(list...) // they are wanted now
	state := x.State()
	if state.Set == nil {
		t.finishLater(x) // an exchange this proxy has not seen yet: it has to look after it from now on
		found, err := t.probe(ctx, x)
		if err != nil {
			return err
		}
		state = &State{Mode: found.mode(x.Policy()), Words: 1}
	}
	if state.Mode == Missing || state.Mode == Unknown {
		return nil // shards are made only for exchanges that exist
	}
	p := &binding{asking: asking{set: SetOf(exchange, 1, list)}, x: x, mode: state.Mode, words: state.Words | 1}
	if err := t.declareShards(ctx, p); err != nil {
		return err
	}
	if len(p.down) > 0 || len(p.gone) > 0 {
		return fmt.Errorf("prepare shards of exchange '%s': not all of their nodes can be reached: %w", exchange, ErrUnreachable)
	}
	return nil
}

// Retire implements coordination.Topologist. Which bindings there are cannot be
// seen over AMQP, so all are taken away that any proxy can have made; what is not
// bound does no harm. The shard that has the catch-all must have lost it to
// another one by then, or it loses it here: messages without a shard key must not
// go where nobody will look for them.
func (t *Topology) Retire(ctx context.Context, exchange string, list []Shard) error {
	x, ours := t.exchangeNamed(exchange)
	if err := x.work.lock(ctx); err != nil {
		return fmt.Errorf("retire shards of exchange '%s': %w", exchange, err)
	}
	defer x.work.unlock()
	if err := t.moveCatchAll(ctx, x, ours, list); err != nil {
		return err
	}
	return t.walk(ctx, exchange, list, func(ctx context.Context, b Broker, set *Set, indexes []int) error {
		return parallel.Do(ctx, len(indexes), requestsAtOnce, func(ctx context.Context, i int) error {
			return unbindShard(ctx, b, x, set, indexes[i])
		})
	})
}

// moveCatchAll binds the catch-all to the first live shard that stays.
func (t *Topology) moveCatchAll(ctx context.Context, x *Exchange, ours bool, retired []Shard) error {
	state := x.State()
	switch {
	case state.Mode == Unknown:
		return t.leaveCatchAll(ctx, x, ours, retired)
	case state.Mode != Sharded || state.Set == nil:
		return nil
	}
	going := SetOf(x.Name, 1, retired)
	for i := range state.Set.Len() {
		shard := state.Set.At(i)
		if going.Has(shard.Queue) || !state.IsLive(i) {
			continue
		}
		return t.askNode(ctx, shard.Node, nil, func(b Broker) error {
			return b.BindQueue(ctx, shard.Queue, "", Unsharded(x.Name))
		})
	}
	return nil
}

// leaveCatchAll returns an error if a shard may have the catch-all of an exchange
// that this proxy has not seen: it could not give it to another one, and what
// reaches a catch-all without a shard is confirmed and lost. Only the first shard of
// a node ever has it; of a fixed total that can be any.
func (t *Topology) leaveCatchAll(ctx context.Context, x *Exchange, ours bool, retired []Shard) error {
	if !slices.ContainsFunc(retired, func(s Shard) bool { return s.Index == 0 || s.Queue == QueueNameFixed(x.Name, s.Index) }) {
		return nil
	}
	var exists bool
	err := t.onAny(ctx, func(b Broker) (err error) {
		exists, err = b.ExchangeExists(ctx, Unsharded(x.Name))
		return err
	})
	switch {
	case err != nil || !exists:
		return err
	case ours:
		t.finishLater(x) // then it is known
		return fmt.Errorf("retire shards of exchange '%s': this proxy has not looked at the exchange yet", x.Name)
	}
	return fmt.Errorf("retire shards of exchange '%s': no policy of this proxy, which leads, is for it, so that it cannot move the catch-all", x.Name)
}

// unbindShard takes every binding of ours away from a shard.
func unbindShard(ctx context.Context, b Broker, x *Exchange, set *Set, i int) error {
	queue := set.At(i).Queue
	bindings := [][2]string{{"", Unsharded(x.Name)}, {"", x.Name}}
	if key := x.Policy().Definition.RoutingKey; key != "" {
		bindings = append(bindings, [2]string{key, x.Name})
	}
	for words := 1; words <= MaxWords; words++ {
		bindings = append(bindings, [2]string{set.Key(i, words), x.Name})
	}
	for _, binding := range bindings {
		err := b.UnbindQueue(ctx, queue, binding[0], binding[1])
		if err != nil && !isRefusal(err, frames.NotFound) { // else queue or exchange is gone, and the binding with it
			return err
		}
	}
	return nil
}

// Idle implements coordination.Topologist. A replicated queue is never said to be
// idle, unless somebody has asked for its end: it would be taken from its consumers
// for nothing.
func (t *Topology) Idle(ctx context.Context, exchange string, shard Shard) (bool, error) {
	count, err := t.countOne(ctx, exchange, shard)
	if err != nil || count.Messages > 0 || !count.Exists {
		return err == nil && count.Messages == 0, err
	}
	stays, err := t.stays(ctx, exchange, shard)
	return err == nil && !stays, err
}

// Remove implements coordination.Topologist. Messages that are delivered and not
// settled are not in the broker's count; that there are none the caller knows from
// the proxies.
func (t *Topology) Remove(ctx context.Context, exchange string, shard Shard) (bool, error) {
	count, err := t.countOne(ctx, exchange, shard)
	switch {
	case err != nil:
		return false, err
	case !count.Exists:
		// Its own node says so; or its node is none of the cluster's any more.
		t.leftovers.forget(shard)
		return true, nil
	case count.Messages > 0 || count.Consumers > 0:
		return false, nil
	}
	gone, messages, err := t.deleteShard(ctx, exchange, shard)
	if !gone {
		return false, err
	}
	t.leftovers.forget(shard)
	kv := []any{"queue", shard.Queue, "exchange", exchange, "vhost", t.vhost}
	if messages > 0 { // only a replicated queue: it came in the very last moment
		t.log.Warn("surplus shard removed together with messages", append(kv, "messages", messages)...)
		return true, nil
	}
	t.log.Info("surplus shard removed", kv...)
	return true, nil
}

// countOne counts one shard over its own node. That this one does not know the
// queue's node to be up is an error: it may be another than the shard's name says,
// or one that this proxy has no connection to.
func (t *Topology) countOne(ctx context.Context, exchange string, shard Shard) (count Count, err error) {
	err = t.walk(ctx, exchange, []Shard{shard}, func(ctx context.Context, b Broker, _ *Set, _ []int) (err error) {
		count, err = b.QueueCount(ctx, shard.Queue)
		return err
	})
	if err == nil && count.Dormant {
		err = dormant(exchange, shard.Queue)
	}
	return count, err
}

func dormant(exchange, queue string) error {
	return fmt.Errorf("shards of exchange '%s': queue '%s' is not gone, but its node is down or it has crashed: %w", exchange, queue, ErrUnreachable)
}

// Uncovered implements coordination.Topologist. Shards that cannot be consumed,
// for they are missing or their node is down, are not among them.
func (t *Topology) Uncovered(ctx context.Context, exchange string, list []Shard) ([]string, error) {
	a := &asking{set: SetOf(exchange, 1, list)}
	counts, err := t.countEach(ctx, a)
	if err != nil {
		return nil, err
	}
	var helping map[string]int
	if x, _ := t.exchangeNamed(exchange); x.group.Load() != nil {
		helping = x.group.Load().helping()
	}
	var uncovered []string
	for i, count := range counts {
		if count.Exists && int(count.Consumers) <= helping[a.set.At(i).Queue] {
			uncovered = append(uncovered, a.set.At(i).Queue)
		}
	}
	return uncovered, nil
}

// Loads implements coordination.Topologist.
func (t *Topology) Loads(ctx context.Context, exchange string, list []Shard) ([]coordination.Load, error) {
	a := &asking{set: SetOf(exchange, 1, list)}
	counts, err := t.countEach(ctx, a)
	switch {
	case err != nil:
		return nil, err
	case len(a.down) > 0:
		return nil, fmt.Errorf("count shards of exchange '%s': a node of theirs is down: %w", exchange, ErrUnreachable)
	}
	loads := make([]coordination.Load, len(list))
	for i, shard := range list {
		at, _ := a.set.Index(shard.Queue)
		if counts[at].Dormant {
			return nil, dormant(exchange, shard.Queue)
		}
		loads[i] = coordination.Load{Ready: counts[at].Messages, Consumers: counts[at].Consumers}
	}
	return loads, nil
}
