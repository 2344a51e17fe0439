package shards

import (
	"context"

	"github.com/shardmq/shardmq/frames"
)

// declareMarker declares the catch-all exchange.
func (t *Topology) declareMarker(ctx context.Context, x *Exchange) error {
	return t.onAny(ctx, func(b Broker) error {
		return b.DeclareExchange(ctx, ExchangeSpec{Name: Unsharded(x.Name), Type: "fanout", Durable: true})
	})
}

// settleBindings sees to the bindings that depend on which shards are live. They
// are the leader's, for proxies that see different nodes down would move them to
// and fro; but a catch-all that is not there yet is made by whoever finds that.
func (t *Topology) settleBindings(ctx context.Context, state *State, p *binding, found probed) error {
	t.lookForSurplus(p)
	switch {
	case state.Mode == Sharded && (t.leads() || !found.marker):
		return t.catchAll(ctx, state, p)
	case state.Mode == Native && t.leads() && p.x.Policy().Definition.OnNodeDown == Reroute:
		return t.unbindDown(ctx, state, p)
	}
	return nil
}

// catchAll declares the catch-all exchange and binds it to the first shard of Set
// whose node answers: to that one only, for the exchange is a fanout and a second
// binding would deliver twice. The new binding comes first, so that no message is
// lost between.
func (t *Topology) catchAll(ctx context.Context, state *State, p *binding) error {
	if err := t.declareMarker(ctx, p.x); err != nil {
		return err
	}
	name := Unsharded(p.x.Name)
	bound := ""
	for i := range state.Set.Len() {
		shard := state.Set.At(i)
		if p.down[shard.Node] || p.gone[shard.Queue] {
			continue
		}
		err := t.askNode(ctx, shard.Node, nil, func(b Broker) error { return b.BindQueue(ctx, shard.Queue, "", name) })
		if err != nil {
			return err
		}
		bound = shard.Queue
		break
	}
	seen := make(map[string]bool)
	covered := state.Covered()
	for i := range covered.Len() {
		shard := covered.At(i)
		first := !seen[shard.Node] // only the first of each node is ever bound
		seen[shard.Node] = true
		if first && shard.Queue != bound {
			if err := t.unbindAway(ctx, p.down, shard, "", name); err != nil {
				return err
			}
		}
	}
	return nil
}

// unbindDown takes the shards of nodes that are down away from an exchange whose
// messages the broker hashes itself: from 4.3 on it would go on placing messages
// on them, only to refuse those. They are bound again when the node is back.
func (t *Topology) unbindDown(ctx context.Context, state *State, p *binding) error {
	for i := range state.Set.Len() {
		shard := state.Set.At(i)
		if !p.down[shard.Node] {
			continue
		}
		if err := t.unbindAway(ctx, p.down, shard, "", p.x.Name); err != nil {
			return err
		}
	}
	return nil
}

// unbindAway takes a binding away from a shard, over the shard's own node if that
// answers. If it does not, another node does it: unlike a question about the queue
// this concerns the exchange's bindings only, and with the binding left some
// brokers would nack what the live shard has accepted.
func (t *Topology) unbindAway(ctx context.Context, down map[string]bool, shard Shard, key, exchange string) error {
	unbind := func(b Broker) error { return b.UnbindQueue(ctx, shard.Queue, key, exchange) }
	var err error
	if down[shard.Node] {
		err = t.onAnyBut(ctx, down, unbind)
	} else {
		err = t.askNode(ctx, shard.Node, nil, unbind)
	}
	if nodeDown(err) || isRefusal(err, frames.NotFound) {
		return nil // the next look tries again; or there is no such queue
	}
	return err
}
