package shards

import (
	"context"

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

// prepareNew is PrepareDeclare for an exchange that does not exist.
func (t *Topology) prepareNew(ctx context.Context, x *Exchange, d ExchangeSpec) (DeclarePlan, error) {
	var version string
	err := t.onAny(ctx, func(b Broker) (err error) {
		version, err = b.Version(ctx)
		return err
	})
	if err != nil {
		return DeclarePlan{}, err
	}
	if versionAtLeast(version, 4, 3) {
		return DeclarePlan{Type: ModulusHash}, nil
	}
	plan := DeclarePlan{Type: directType}
	spec := d
	spec.Name, spec.Type = x.Name, directType
	if spec.AlternateExchange == "" {
		plan.AddAlternate = Unsharded(x.Name)
		spec.AlternateExchange = plan.AddAlternate
	} else if err := t.declareMarker(ctx, x); err != nil {
		// With the client's own alternate nothing else tells that it is ours.
		return DeclarePlan{}, err
	}
	if _, literal := x.Policy().Literal(); !literal {
		return plan, nil
	}
	// The rights on an alternate exchange are checked only when the exchange is
	// created. If somebody has created another one just now, the broker's answer
	// to the client says so better than ours.
	err = t.onAny(ctx, func(b Broker) error { return b.DeclareExchange(ctx, spec) })
	if err != nil && !isRefusal(err, frames.PreconditionFailed) {
		return DeclarePlan{}, err
	}
	return plan, nil
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
