package shards

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shardmq/shardmq/frames"
)

// directType is the exchange type of our sharded exchanges.
const directType = "direct"

// probed is what an exchange is in the broker.
type probed struct {
	exists    bool
	kind      string // exchange type
	alternate bool   // its alternate-exchange is our catch-all
	marker    bool   // the catch-all exchange exists
}

// ours reports whether it is an exchange that shardmq shards.
func (p probed) ours(policy *Policy) bool {
	return p.exists && p.kind == directType &&
		(p.alternate || p.marker || policy.Definition.ExchangeType == ModulusHash)
}

func (p probed) mode(policy *Policy) Mode {
	switch {
	case !p.exists:
		return Missing
	case p.kind == ModulusHash:
		return Native
	case p.ours(policy):
		return Sharded
	}
	return Plain
}

// probe finds out what an exchange is, changing nothing: AMQP has no method that
// tells an exchange's type, but an active declare that differs from what exists
// is refused with a text that does. So the exchange must exist, which a passive
// declare tells; were it deleted right in between, the active declare would
// create it.
func (t *Topology) probe(ctx context.Context, x *Exchange) (p probed, err error) {
	err = t.onAny(ctx, func(b Broker) error {
		p = probed{}
		if p.exists, err = b.ExchangeExists(ctx, x.Name); err != nil || !p.exists {
			return err
		}
		if err := probeShape(ctx, b, x, &p); err != nil {
			return err
		}
		if p.kind == directType {
			p.marker, err = b.ExchangeExists(ctx, Unsharded(x.Name))
		}
		return err
	})
	return p, err
}

// noisyEvery bounds how often it is looked whether an exchange has another type
// when the question makes the broker log an error each time.
const noisyEvery = 15 * time.Second

// otherKind reports whether the exchange has another type than in state, or has
// come or gone.
func (t *Topology) otherKind(ctx context.Context, x *Exchange, state *State) (other bool, err error) {
	err = t.onAny(ctx, func(b Broker) error {
		exists, err := b.ExchangeExists(ctx, x.Name)
		other = exists != (state.Type != "")
		if err != nil || other || !exists || !x.work.mayProbe(state.Type) {
			return err
		}
		p := probed{}
		err = probeShape(ctx, b, x, &p)
		other = err == nil && p.kind != state.Type
		return err
	})
	return other, err
}

// mayProbe reports whether it is time to probe an exchange of that type.
func (w *work) mayProbe(kind string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shape.Type == kind || time.Since(w.shaped) >= noisyEvery
}

// probeShape declares the existing exchange as it was last, or as ours, until the
// broker agrees or names a type that cannot be declared everywhere. RabbitMQ
// compares the type first, then durable, auto_delete and internal, then the
// alternate exchange, and names the first difference, so that each refusal corrects
// one property.
func probeShape(ctx context.Context, b Broker, x *Exchange, p *probed) error {
	spec := x.work.shapeOf(x.Name)
	defer x.work.probedNow()
	tried := make(map[ExchangeSpec]bool)
	for !tried[spec] {
		tried[spec] = true
		err := b.DeclareExchange(ctx, spec)
		if err == nil {
			p.kind, p.alternate = spec.Type, spec.AlternateExchange == Unsharded(x.Name)
			x.work.setShape(spec)
			return nil
		}
		refused, ok := errors.AsType[*BrokerError](err)
		if !ok || refused.Code != uint16(frames.PreconditionFailed) {
			return err
		}
		arg, current := inequivalent(refused.Text)
		switch arg {
		case "type":
			known, err := isBuiltIn(ctx, b, current)
			if err != nil {
				return err
			}
			if !known {
				p.kind = current
				return nil
			}
			spec.Type = current
		case "alternate-exchange":
			if tried[withAlternate(spec, current)] { // in words that are not understood
				p.kind = spec.Type
				return nil
			}
			spec = withAlternate(spec, current)
		case "durable":
			spec.Durable = !spec.Durable
		case "auto_delete":
			spec.AutoDelete = !spec.AutoDelete
		case "internal":
			spec.Internal = !spec.Internal
		default:
			return err
		}
	}
	return &BrokerError{
		Code: uint16(frames.PreconditionFailed), Node: b.Node(), Op: fmt.Sprintf("find out the type of exchange '%s'", x.Name),
		Text: "PRECONDITION_FAILED - the broker's answers about its properties contradict each other",
	}
}

// isBuiltIn reports whether the broker has the exchange type without a plugin. To
// declare one of another type where its plugin is off would end the connection.
func isBuiltIn(ctx context.Context, b Broker, kind string) (bool, error) {
	switch kind {
	case directType, "topic", "fanout", "headers":
		return true, nil
	case ModulusHash:
		version, err := b.Version(ctx)
		return versionAtLeast(version, 4, 3), err
	}
	return false, nil
}

// withAlternate returns spec with the alternate exchange that a refusal names:
//
//	but current is none
//	but current is 'own'
//	but current is the value 'own' of type 'longstr'
func withAlternate(spec ExchangeSpec, current string) ExchangeSpec {
	spec.AlternateExchange = current
	if current == "none" {
		spec.AlternateExchange = ""
	}
	return spec
}

// shapeOf returns the declaration that fitted last, so that a probe of a known
// exchange takes one request.
func (w *work) shapeOf(name string) ExchangeSpec {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shape.Name == "" {
		w.shape = ExchangeSpec{Name: name, Type: directType, Durable: true, AlternateExchange: Unsharded(name)}
	}
	return w.shape
}

// probedNow notes when the exchange was probed.
func (w *work) probedNow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shaped = time.Now()
}

func (w *work) setShape(spec ExchangeSpec) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shape = spec
}

// inequivalent reads which argument a 406 complains about and its present value:
//
//	PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'x' in vhost '/': received 'direct' but current is ''x-modulus-hash''
func inequivalent(text string) (arg, current string) {
	const before, now = "inequivalent arg '", "but current is "
	_, rest, ok := strings.Cut(text, before)
	if !ok {
		return "", ""
	}
	arg, _, _ = strings.Cut(rest, "'")
	if at := strings.LastIndex(rest, now); at >= 0 {
		current = rest[at+len(now):]
		if typed, isTyped := strings.CutPrefix(current, "the value '"); isTyped {
			current, _, _ = strings.Cut(typed, "' of type '")
		}
		current = strings.Trim(current, "'")
	}
	return arg, current
}

// inequivalentType is RabbitMQ's refusal to declare an exchange with another type.
func inequivalentType(x *Exchange, received, current string) *BrokerError {
	return &BrokerError{
		Code: uint16(frames.PreconditionFailed),
		Text: fmt.Sprintf("PRECONDITION_FAILED - inequivalent arg 'type' for exchange '%s' in vhost '%s': received %s but current is %s",
			x.Name, x.Vhost, quoteType(received), quoteType(current)),
		Op: fmt.Sprintf("declare exchange '%s'", x.Name),
	}
}

// quoteType quotes a type as RabbitMQ does: as an Erlang atom, quoted again when
// the atom needs quotes of its own.
func quoteType(kind string) string {
	if strings.ContainsAny(kind, "-. ") {
		return "''" + kind + "''"
	}
	return "'" + kind + "'"
}
