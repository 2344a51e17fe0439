package shards

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards/internal/parallel"
)

// declareMarker declares the catch-all exchange.
func (t *Topology) declareMarker(ctx context.Context, x *Exchange) error {
	return t.onAny(ctx, func(b Broker) error {
		return b.DeclareExchange(ctx, ExchangeSpec{Name: Unsharded(x.Name), Type: "fanout", Durable: true})
	})
}

// binding is what declareShards is to bring about.
type binding struct {
	x     *Exchange
	set   *Set
	mode  Mode
	words uint32          // Sharded: word counts to bind, as State.Words
	down  map[string]bool // out: nodes that did not answer
	round *round          // nil, or what is known of nodes without asking
}

// live returns those of the shards live in was whose nodes answered, as
// State.Live.
func (p *binding) live(was *State) []int {
	if len(p.down) == 0 {
		return was.Live
	}
	live := []int{}
	for i := range p.set.Len() {
		if was.IsLive(i) && !p.down[p.set.At(i).Node] {
			live = append(live, i)
		}
	}
	return live
}

// keys returns the binding keys of shard i.
func (p *binding) keys(i int) []string {
	switch p.mode {
	case Native:
		return []string{""}
	case Sharded:
		var keys []string
		for w := 1; w <= MaxWords; w++ {
			if p.words&(1<<(w-1)) != 0 {
				keys = append(keys, p.set.Key(i, w))
			}
		}
		return keys
	}
	return []string{p.x.Policy().Definition.RoutingKey}
}

// declareShards makes sure of all shards and their bindings, on all nodes at the
// same time.
func (t *Topology) declareShards(ctx context.Context, p *binding) error {
	return t.eachNode(ctx, p, func(ctx context.Context, b Broker, indexes []int) error {
		if err := declareMissing(ctx, b, p.set, indexes); err != nil {
			return err
		}
		return bindAll(ctx, b, p, indexes)
	})
}

// eachNode runs fn for every node with the shards it has. A node that does not
// answer is left out, as long as another one does: its shards keep their places,
// for otherwise nearly every key would change its shard. They are set up when a
// look finds the node back. No other node is asked about them: it may block.
func (t *Topology) eachNode(ctx context.Context, p *binding, fn func(context.Context, Broker, []int) error) error {
	var nodes []string
	indexes := make(map[string][]int)
	for i := range p.set.Len() {
		node := p.set.At(i).Node
		if indexes[node] == nil {
			nodes = append(nodes, node)
		}
		indexes[node] = append(indexes[node], i)
	}
	lost := make([]error, len(nodes))
	err := parallel.Do(ctx, len(nodes), len(nodes), func(ctx context.Context, i int) error {
		err := p.round.downErr(nodes[i])
		if err == nil {
			err = fn(ctx, t.brokerOf(nodes[i]), indexes[nodes[i]])
		}
		if !nodeDown(err) {
			return err
		}
		if ctx.Err() == nil { // else it was not given the time
			p.round.noteDown(nodes[i], err)
		}
		if len(nodes) == 1 {
			return err
		}
		lost[i] = err
		return nil
	})
	if err != nil {
		return err
	}
	p.down = make(map[string]bool)
	for i, err := range lost {
		if err != nil {
			p.down[nodes[i]] = true
		}
	}
	if len(p.down) == len(nodes) && len(nodes) > 0 {
		return errors.Join(lost...)
	}
	if p.x.work.downChanged(p.down) {
		t.log.Warn("nodes whose shards cannot be verified have changed", "exchange", p.x.Name, "vhost", t.vhost,
			"nodes", slices.Sorted(maps.Keys(p.down)), "error", errors.Join(lost...))
	}
	return nil
}

// downChanged notes the nodes that do not answer and reports whether they are
// others than before.
func (w *work) downChanged(down map[string]bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := !maps.Equal(w.down, down)
	w.down = down
	return changed
}

// declareMissing declares the shards that are not there. One that exists is
// taken as it is, whatever its arguments: it may hold messages.
func declareMissing(ctx context.Context, b Broker, set *Set, indexes []int) error {
	names := make([]string, len(indexes))
	for i, at := range indexes {
		names[i] = set.At(at).Queue
	}
	counts, err := b.QueueCounts(ctx, names)
	if err != nil {
		return err
	}
	return parallel.Do(ctx, len(names), requestsAtOnce, func(ctx context.Context, i int) error {
		if counts[i].Exists {
			return nil
		}
		return b.DeclareQueue(ctx, QueueSpec{
			Name: names[i], Durable: true, Arguments: map[string]any{"x-queue-type": "classic"},
		})
	})
}

func bindAll(ctx context.Context, b Broker, p *binding, indexes []int) error {
	return parallel.Do(ctx, len(indexes), requestsAtOnce, func(ctx context.Context, i int) error {
		for _, key := range p.keys(indexes[i]) {
			if err := b.BindQueue(ctx, p.set.At(indexes[i]).Queue, key, p.x.Name); err != nil {
				return err
			}
		}
		return nil
	})
}

// catchAll declares the catch-all exchange and binds it to the first shard whose
// node answers: to that one only, for the exchange is a fanout and a second
// binding would deliver twice. The new binding comes first, so that no message
// is lost between.
func (t *Topology) catchAll(ctx context.Context, p *binding) error {
	if err := t.declareMarker(ctx, p.x); err != nil {
		return err
	}
	name := Unsharded(p.x.Name)
	bound := ""
	var others []Shard
	seen := make(map[string]bool)
	for i := range p.set.Len() {
		shard := p.set.At(i)
		switch {
		case seen[shard.Node]: // only the first of each node is ever bound
			continue
		case bound != "" || p.down[shard.Node]:
			others = append(others, shard)
		default:
			if err := t.brokerOf(shard.Node).BindQueue(ctx, shard.Queue, "", name); err != nil {
				return err
			}
			bound = shard.Queue
		}
		seen[shard.Node] = true
	}
	for _, shard := range others {
		if err := t.unbindOther(ctx, p, shard, name); err != nil {
			return err
		}
	}
	return nil
}

// unbindOther takes the catch-all away from a shard, over the shard's own node
// if that answers. If it does not, another node does it: unlike a question about
// the queue this concerns the exchange's bindings only, and with the binding left
// some brokers would nack what the live shard has accepted.
func (t *Topology) unbindOther(ctx context.Context, p *binding, shard Shard, exchange string) error {
	unbind := func(b Broker) error { return b.UnbindQueue(ctx, shard.Queue, "", exchange) }
	var err error
	if p.down[shard.Node] {
		err = t.onAnyBut(ctx, p.down, unbind)
	} else {
		err = unbind(t.brokerOf(shard.Node))
	}
	if nodeDown(err) || isRefusal(err, frames.NotFound) {
		return nil // the next look tries again; or there is no such queue
	}
	return err
}

// BindWords binds the shard keys of that many words on every shard, and then
// publishes a State that says so. It does nothing if they are bound, or if the
// exchange's mode needs no shard keys.
func (t *Topology) BindWords(ctx context.Context, x *Exchange, words int) error {
	words = min(max(words, 1), MaxWords)
	if s := x.State(); s.HasWords(words) {
		return nil
	}
	if err := x.work.lock(ctx); err != nil {
		return fmt.Errorf("bind shard keys of %d words to exchange '%s': %w", words, x.Name, err)
	}
	defer x.work.unlock()
	state := x.State()
	if state.Mode != Sharded || state.Set == nil || state.HasWords(words) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	p := &binding{x: x, set: state.Set, mode: Sharded, words: 1 << (words - 1)}
	err := t.eachNode(ctx, p, func(ctx context.Context, b Broker, indexes []int) error {
		return bindAll(ctx, b, p, indexes)
	})
	if err != nil {
		return err
	}
	next := *state
	next.Words |= p.words
	next.Live = p.live(state) // what is not bound is set up again when its node is back
	t.publish(x, &next)
	return nil
}
