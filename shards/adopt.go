package shards

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/shardmq/shardmq/frames"
)

const singleActive = "x-single-active-consumer"

// lossy are the arguments that make a queue drop messages. With a limit that is
// lower than the policy's, or with one that the policy does not have, messages
// are lost that the policy promises to keep.
var lossy = []string{"x-expires", "x-message-ttl", "x-max-length", "x-max-length-bytes", "x-delivery-limit"}

// maxDifferences bounds how many properties of one queue are found out.
const maxDifferences = 24

// shardSpec is how a new shard is declared. The type is always named, for a
// virtual host may have another default.
func shardSpec(queue string, d *Definition) QueueSpec {
	args := make(map[string]any, len(d.QueueArguments)+2)
	args[queueTypeArg] = classicType
	maps.Copy(args, d.QueueArguments)
	if d.Ordered {
		args[singleActive] = true
	}
	return QueueSpec{Name: queue, Durable: true, Arguments: args}
}

// difference is a property of a queue that is not as a new shard's would be.
type difference struct {
	arg     string
	ours    any    // nil = not given
	current any    // nil = none
	text    string // the present value in the broker's words
}

// adopt looks at a queue that exists under a shard's name, once: it is taken as it
// is, for it may hold messages, unless one of its properties makes it lose
// messages that the policy would keep. That is an error until somebody acts.
func (t *Topology) adopt(ctx context.Context, b Broker, x *Exchange, queue string) error {
	policy := x.Policy()
	if x.work.isAdopted(queue, policy) {
		return nil
	}
	found, err := differences(ctx, b, shardSpec(queue, &policy.Definition))
	if err != nil {
		return err
	}
	var words []string
	for _, d := range found {
		if d.loses() {
			return cannotAdopt(x, queue, policy, d)
		}
		words = append(words, d.arg+": "+d.text)
	}
	x.work.setAdopted(queue, policy)
	if len(found) == 0 {
		return nil
	}
	t.log.Info("queue adopted as a shard, with properties that the policy would not give it",
		"queue", queue, "exchange", x.Name, "vhost", t.vhost, "properties", words)
	if slices.ContainsFunc(found, func(d difference) bool { return d.arg == singleActive && d.current == nil }) {
		t.log.Warn("the broker does not guard the order of an adopted shard: it has no "+singleActive,
			"queue", queue, "exchange", x.Name, "vhost", t.vhost)
	}
	return nil
}

func cannotAdopt(x *Exchange, queue string, policy *Policy, d difference) *BrokerError {
	return &BrokerError{
		Code: uint16(frames.PreconditionFailed), Op: fmt.Sprintf("adopt queue '%s'", queue),
		Text: fmt.Sprintf("PRECONDITION_FAILED - queue '%s' in vhost '%s' cannot be a shard of exchange '%s': its %s (%s) can lose messages "+
			"that policy '%s' keeps; say the same in the policy's queue-arguments, or empty the queue and delete it",
			queue, x.Vhost, x.Name, d.arg, d.text, policy.Name),
	}
}

// loses reports whether the queue may lose messages through it that a new shard
// would not.
func (d difference) loses() bool {
	switch {
	case d.arg == "auto_delete":
		return d.current == true
	case d.arg == queueTypeArg:
		return d.current != classicType && d.current != quorumType && d.current != nil
	case d.arg == "x-overflow":
		refuses, _ := d.ours.(string)
		return strings.HasPrefix(refuses, "reject-")
	case !slices.Contains(lossy, d.arg) || d.current == nil:
		return false
	}
	limit, isNumber := d.current.(int64)
	ours, has := d.ours.(int64)
	return !isNumber || !has || limit < ours
}

// differences declares an existing queue as spec would have it until the broker
// agrees: each refusal names one property that differs, and its value. It stops at
// one that loses messages, so that a queue which vanishes meanwhile is not made
// anew with that. Were it to vanish otherwise, a shard is made that is much as it
// was.
func differences(ctx context.Context, b Broker, spec QueueSpec) (found []difference, err error) {
	for len(found) < maxDifferences {
		err := b.DeclareQueue(ctx, spec)
		if err == nil {
			return found, nil
		}
		refused, ok := errors.AsType[*BrokerError](err)
		if !ok || refused.Code != uint16(frames.PreconditionFailed) {
			return nil, err
		}
		d, ok := differenceIn(refused.Text)
		if !ok || slices.ContainsFunc(found, func(o difference) bool { return o.arg == d.arg }) {
			return nil, err
		}
		d.ours = spec.Arguments[d.arg]
		if _, isText := d.ours.(string); isText && d.current != nil {
			d.current = d.text
		}
		found = append(found, d)
		switch {
		case d.loses():
			return found, nil
		case d.arg == "durable":
			spec.Durable = d.current == true
		case !strings.HasPrefix(d.arg, "x-"):
			return nil, err
		case d.current == nil:
			delete(spec.Arguments, d.arg)
		default:
			spec.Arguments[d.arg] = d.current
		}
	}
	return found, nil
}

// differenceIn reads a refusal of a queue.declare:
//
//	PRECONDITION_FAILED - inequivalent arg 'x-expires' for queue 'q' in vhost '/': received none but current is the value '60000' of type 'signedint'
//
// Where both sides have a value the types are left out: received '7' but current
// is '5'.
func differenceIn(text string) (d difference, ok bool) {
	const before, now = "inequivalent arg '", "but current is "
	_, rest, ok := strings.Cut(text, before)
	if !ok {
		return d, false
	}
	d.arg, _, _ = strings.Cut(rest, "'")
	at := strings.LastIndex(rest, now)
	if at < 0 {
		return d, false
	}
	value := rest[at+len(now):]
	if value == "none" {
		d.text = value
		return d, true
	}
	kind := ""
	if typed, isTyped := strings.CutPrefix(value, "the value '"); isTyped {
		at := strings.LastIndex(typed, "' of type '")
		if at < 0 {
			return d, false
		}
		value, kind = typed[:at], strings.Trim(typed[at+len("' of type '"):], "'")
	} else {
		value = strings.Trim(value, "'")
	}
	d.text, d.current = value, typedValue(value, kind)
	return d, true
}

// typedValue is an argument's value as it has to be sent; kind is RabbitMQ's name
// of the type, or "".
func typedValue(value, kind string) any {
	switch {
	case kind == "longstr":
		return value
	case value == "true" || value == "false":
		return value == "true"
	}
	if n, err := strconv.ParseInt(value, 10, 64); err == nil {
		return n
	}
	return value
}

// isAdopted reports whether the queue was found fit to be a shard under a policy.
func (w *work) isAdopted(queue string, policy *Policy) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	key, known := w.adopted[queue]
	return known && key == policy.Definition.shardKey()
}

// setAdopted notes that the queue is fit to be a shard under a policy.
func (w *work) setAdopted(queue string, policy *Policy) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.adopted == nil {
		w.adopted = make(map[string]string)
	}
	w.adopted[queue] = policy.Definition.shardKey()
}

// shardKey is the same for definitions that declare a shard alike.
func (d *Definition) shardKey() string { return fmt.Sprint(d.QueueArguments, d.Ordered) }
