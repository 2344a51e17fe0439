package shards

import (
	"context"
	"errors"
	"time"

	"github.com/shardmq/shardmq/frames"
)

// PrepareDeclare says how to forward a client's active exchange.declare of x,
// and readies the broker for it. A *BrokerError is the client's answer instead.
// To be followed by Resolve with force after declare-ok.
func (t *Topology) PrepareDeclare(ctx context.Context, x *Exchange, d ExchangeSpec) (DeclarePlan, error) {
	if d.Type != ModulusHash && x.Policy().Definition.ExchangeType != ModulusHash {
		return DeclarePlan{Type: d.Type}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	found, err := t.probe(ctx, x)
	switch {
	case err != nil:
		return DeclarePlan{}, err
	case !found.exists:
		return t.prepareNew(ctx, x, d)
	case found.kind == ModulusHash:
		return DeclarePlan{Type: ModulusHash}, nil
	case found.ours(x.Policy()):
		plan := DeclarePlan{Type: directType}
		// An exchange that has no or another alternate would be inequivalent.
		if found.alternate && d.AlternateExchange == "" {
			plan.AddAlternate = Unsharded(x.Name)
		}
		return plan, nil
	case found.kind == d.Type && d.Type != directType:
		return DeclarePlan{Type: d.Type}, nil
	}
	return DeclarePlan{}, inequivalentType(x, d.Type, found.kind)
}

// prepareNew is PrepareDeclare for an exchange that does not exist. From the moment
// it does, somebody may publish to it, and have it confirmed: so its catch-all has
// to be there first, and publishes of this proxy's clients wait, for the state is
// unknown and the turn is taken.
func (t *Topology) prepareNew(ctx context.Context, x *Exchange, d ExchangeSpec) (DeclarePlan, error) {
	var version string
	err := t.onAny(ctx, func(b Broker) (err error) {
		version, err = b.Version(ctx)
		return err
	})
	if err != nil {
		return DeclarePlan{}, err
	}
	if err := x.work.lock(ctx); err != nil {
		return DeclarePlan{}, err
	}
	defer x.work.unlock()
	t.publish(x, unknownState)
	plan := DeclarePlan{Type: directType}
	if versionAtLeast(version, 4, 3) && !x.Policy().Definition.placesItself() {
		plan.Type = ModulusHash
	} else {
		if d.AlternateExchange == "" {
			plan.AddAlternate = Unsharded(x.Name)
			d.AlternateExchange = plan.AddAlternate
		}
		// With the client's own alternate nothing else tells that it is ours.
		if err := t.prepareCatchAll(ctx, x); err != nil {
			return DeclarePlan{}, err
		}
	}
	d.Name, d.Type = x.Name, plan.Type
	if err := t.declareLiteral(ctx, x, d); err != nil {
		return DeclarePlan{}, err
	}
	return plan, nil
}

// declareLiteral declares a new exchange for the client if a policy names it, and
// sets it up. The rights on an alternate exchange are checked only when an exchange
// is created. If somebody has created another one just now, the broker's answer to
// the client says so better than ours. The turn is held.
func (t *Topology) declareLiteral(ctx context.Context, x *Exchange, spec ExchangeSpec) error {
	if _, literal := x.Policy().Literal(); !literal {
		t.finishAt(x, time.Now().Add(abandonAfter)) // sees whether it has come to be
		return nil
	}
	err := t.onAny(ctx, func(b Broker) error { return b.DeclareExchange(ctx, spec) })
	if isRefusal(err, frames.PreconditionFailed) {
		return nil
	}
	if err != nil {
		t.abandon(ctx, x)
		return err
	}
	state, agreed, err := t.setUp(ctx, x)
	if err != nil {
		return err
	}
	t.publish(x, state)
	x.work.follows(agreed)
	return nil
}

// prepareCatchAll declares shards and catch-all before there is an exchange to bind
// the shards to, and binds them to each other. The turn is held.
func (t *Topology) prepareCatchAll(ctx context.Context, x *Exchange) error {
	made := &prepared{at: time.Now()}
	err := t.onAny(ctx, func(b Broker) error {
		exists, err := b.ExchangeExists(ctx, Unsharded(x.Name))
		made.marker = !exists
		return err
	})
	if err != nil {
		return err
	}
	agreed, err := t.agree(ctx, x, Sharded)
	if err != nil {
		return err
	}
	state := &State{Mode: Sharded}
	x.work.takeSets(x, state, agreed.plan)
	p := bindingOf(x, state)
	err = t.declareShards(ctx, p)
	made.shards = p.declared
	if x.work.prepared == nil {
		x.work.prepared = made
	}
	if err == nil {
		err = t.catchAll(ctx, state, p)
	}
	if err != nil {
		t.abandon(ctx, x)
	}
	return err
}

// abandonAfter is how long after what was made for an exchange it is taken away
// again, when there is still no exchange: its client lacks a right, say.
const abandonAfter = 5 * time.Second

// prepared is what was made for an exchange before it was there.
type prepared struct {
	at     time.Time
	marker bool // the catch-all exchange
	shards []Shard
}

// abandonLate takes away again what was made for an exchange that has not come to
// be, once that is certain. The turn is held.
func (t *Topology) abandonLate(ctx context.Context, x *Exchange) {
	if made := x.work.prepared; made != nil && time.Since(made.at) >= abandonAfter {
		t.abandon(ctx, x)
	}
}

// abandon is abandonLate at once.
func (t *Topology) abandon(ctx context.Context, x *Exchange) {
	made := x.work.prepared
	x.work.prepared = nil
	if made == nil {
		return
	}
	var errs []error
	if made.marker {
		errs = append(errs, t.onAny(ctx, func(b Broker) error { return b.DeleteExchange(ctx, Unsharded(x.Name)) }))
	}
	for _, shard := range made.shards {
		errs = append(errs, t.askNode(ctx, shard.Node, nil, func(b Broker) error {
			_, err := b.DeleteQueue(ctx, shard.Queue, true, true)
			return err
		}))
	}
	if err := errors.Join(errs...); err != nil {
		t.log.Warn("what was made for an exchange that was not declared stays", "exchange", x.Name, "vhost", t.vhost, "error", err.Error())
	}
}

// Forget is to be called after exchange.delete-ok: the catch-all is deleted and
// the state is Unknown again. Shards and their messages stay.
func (t *Topology) Forget(ctx context.Context, x *Exchange) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	if err := x.work.lock(ctx); err != nil {
		t.log.Warn("exchange not forgotten", "exchange", x.Name, "vhost", t.vhost, "error", err.Error())
		return
	}
	was := x.State().Mode
	t.publish(x, unknownState)
	err := t.onAny(ctx, func(b Broker) error {
		// Another client may have declared it again, and then it is needed. Nor
		// is it ours when the exchange was none of ours.
		exists, err := b.ExchangeExists(ctx, x.Name)
		if err != nil || exists || was == Plain || was == Native {
			return err
		}
		return b.DeleteExchange(ctx, Unsharded(x.Name))
	})
	x.work.unlock()
	if err != nil {
		t.log.Warn("catch-all exchange not deleted", "exchange", Unsharded(x.Name), "vhost", t.vhost, "error", err.Error())
	}
	t.routes.unpin(x)
	t.regroup(x)
}
