package shards

import (
	"context"
	"fmt"
	"sync"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards/internal/parallel"
)

// binding is what declareShards is to bring about. The shards are those of Set and
// Next: of earlier sets' shards nothing is declared or bound, for the leader may
// just have unbound them.
type binding struct {
	asking
	x     *Exchange
	mode  Mode
	words uint32          // Sharded: word counts to bind, as State.Words
	gone  map[string]bool // out: shards that are not there, on nodes that others know

	mu       sync.Mutex
	declared []Shard // out: shards that were not there
}

// bindingOf returns the binding that a state asks for.
func bindingOf(x *Exchange, state *State) *binding {
	return &binding{asking: asking{set: state.bound()}, x: x, mode: state.Mode, words: state.Words}
}

// live returns the indexes in was.Set of the shards that were live in was and
// whose nodes answered, as State.Live.
func (p *binding) live(was *State) []int {
	if len(p.down) == 0 && len(p.gone) == 0 {
		return was.Live
	}
	live := []int{}
	for i := range was.Set.Len() {
		shard := was.Set.At(i)
		if was.IsLive(i) && !p.down[shard.Node] && !p.gone[shard.Queue] {
			live = append(live, i)
		}
	}
	return live
}

// keys returns the binding keys of shard i of set.
func (p *binding) keys(set *Set, i int) []string {
	switch p.mode {
	case Native:
		return []string{""}
	case Sharded:
		var keys []string
		for w := 1; w <= MaxWords; w++ {
			if p.words&(1<<(w-1)) != 0 {
				keys = append(keys, set.Key(i, w))
			}
		}
		return keys
	}
	return []string{p.x.Policy().Definition.RoutingKey}
}

// declareShards makes sure of all shards and their bindings, on all nodes at the
// same time.
func (t *Topology) declareShards(ctx context.Context, p *binding) error {
	gone := make([]bool, p.set.Len())
	err := t.eachNode(ctx, &p.asking, func(ctx context.Context, b Broker, indexes []int) error {
		there, err := t.declareMissing(ctx, b, p, indexes)
		if err != nil {
			return err
		}
		for i, at := range indexes {
			gone[at] = !there[i]
		}
		return t.bindAll(ctx, b, p, indexes, there)
	})
	p.gone = make(map[string]bool)
	for i, is := range gone {
		if is {
			p.gone[p.set.At(i).Queue] = true
		}
	}
	return err
}

// declareMissing declares the shards that are not there, looks at those that are,
// and returns which of them can be used: all but missing ones on nodes of others.
func (t *Topology) declareMissing(ctx context.Context, b Broker, p *binding, indexes []int) (there []bool, err error) {
	names := make([]string, len(indexes))
	for i, at := range indexes {
		names[i] = p.set.At(at).Queue
	}
	counts, err := b.QueueCounts(ctx, names)
	if err != nil {
		return nil, err
	}
	there = make([]bool, len(indexes))
	return there, parallel.Do(ctx, len(names), requestsAtOnce, func(ctx context.Context, i int) error {
		switch {
		case counts[i].Exists:
			there[i] = true
			return t.adopt(ctx, b, p.x, names[i])
		case t.foreign(p.set.At(indexes[i])):
			return nil
		}
		there[i] = true
		if err := b.DeclareQueue(ctx, shardSpec(names[i], &p.x.Policy().Definition)); err != nil {
			return err
		}
		if set := p.x.State().Set; set != nil && set.Has(names[i]) {
			t.log.Warn("a shard was gone, with what was in it, and is declared again", "queue", names[i], "exchange", p.x.Name, "vhost", t.vhost)
		}
		p.x.work.setAdopted(names[i], p.x.Policy())
		p.mu.Lock()
		defer p.mu.Unlock()
		p.declared = append(p.declared, p.set.At(indexes[i]))
		return nil
	})
}

// bindAll binds those of the shards that are there; nil means all.
func (t *Topology) bindAll(ctx context.Context, b Broker, p *binding, indexes []int, there []bool) error {
	return parallel.Do(ctx, len(indexes), requestsAtOnce, func(ctx context.Context, i int) error {
		if there != nil && !there[i] {
			return nil
		}
		shard := p.set.At(indexes[i])
		for _, key := range p.keys(p.set, indexes[i]) {
			err := b.BindQueue(ctx, shard.Queue, key, p.x.Name)
			if isRefusal(err, frames.NotFound) && t.foreign(shard) {
				return nil // not made yet by those who know its node
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// BindWords binds the shard keys of that many words on every shard of Set, and then
// publishes a State that says so. It does nothing if they are bound, or if the
// exchange's mode needs no shard keys. Shards of Next get them when Next becomes
// Set.
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
	p := &binding{asking: asking{set: state.Set}, x: x, mode: Sharded, words: 1 << (words - 1)}
	err := t.eachNode(ctx, &p.asking, func(ctx context.Context, b Broker, indexes []int) error {
		return t.bindAll(ctx, b, p, indexes, nil)
	})
	if err != nil {
		return err
	}
	x.work.words |= p.words
	t.amend(x, func(now *State) {
		now.Words |= p.words
		now.Live = p.live(now) // what is not bound is set up again when its node is back
	})
	return nil
}
