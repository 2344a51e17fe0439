package shards

import (
	"cmp"
	"context"
	"fmt"
)

type fakeQueue struct {
	node       string
	spec       QueueSpec
	autoDelete bool
	Count
}

func (b *fakeBroker) DeclareQueue(ctx context.Context, s QueueSpec) error {
	leave, err := b.enter(ctx, "declare queue", s.Name)
	if err != nil {
		return err
	}
	defer leave()
	is, exists := b.cluster.queues[s.Name]
	if !exists {
		b.cluster.queues[s.Name] = fakeQueue{node: b.name, spec: s, Count: Count{Exists: true}}
		return nil
	}
	return is.inequivalent(s)
}

// inequivalent refuses to declare a queue otherwise, in RabbitMQ's words.
func (q fakeQueue) inequivalent(s QueueSpec) error {
	differs := func(arg, received, current string) error {
		return &BrokerError{Code: 406, Text: fmt.Sprintf(
			"PRECONDITION_FAILED - inequivalent arg '%s' for queue '%s' in vhost '/': received %s but current is %s",
			arg, s.Name, received, current)}
	}
	if q.spec.Durable != s.Durable {
		return differs("durable", fmt.Sprintf("'%t'", s.Durable), fmt.Sprintf("'%t'", q.spec.Durable))
	}
	if q.autoDelete {
		return differs("auto_delete", "'false'", "'true'")
	}
	typed := func(v any) string {
		switch v.(type) {
		case nil:
			return "none"
		case string:
			return fmt.Sprintf("the value '%v' of type 'longstr'", v)
		case bool:
			return fmt.Sprintf("the value '%v' of type 'bool'", v)
		}
		return fmt.Sprintf("the value '%v' of type 'signedint'", v)
	}
	for _, arg := range fakeChecked {
		ours, current := s.Arguments[arg], q.spec.Arguments[arg]
		if arg == queueTypeArg {
			ours, current = cmp.Or(ours, any("classic")), cmp.Or(current, any("classic"))
		}
		switch {
		case fmt.Sprint(ours) == fmt.Sprint(current):
		case ours != nil && current != nil:
			return differs(arg, fmt.Sprintf("'%v'", ours), fmt.Sprintf("'%v'", current))
		default:
			return differs(arg, typed(ours), typed(current))
		}
	}
	return nil
}

// fakeChecked are the arguments that RabbitMQ compares, others it does not look at.
var fakeChecked = []string{
	"x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-max-length", "x-max-length-bytes",
	"x-overflow", "x-max-priority", "x-queue-mode", "x-single-active-consumer", queueTypeArg,
}

func (b *fakeBroker) DeleteQueue(ctx context.Context, name string, ifUnused, ifEmpty bool) (uint32, error) {
	leave, err := b.enter(ctx, "delete queue", name)
	if err != nil {
		return 0, err
	}
	defer leave()
	q := b.cluster.queues[name]
	switch {
	case q.spec.Arguments[queueTypeArg] == "quorum" && (ifUnused || ifEmpty):
		return 0, &BrokerError{Code: 540, Text: "NOT_IMPLEMENTED"}
	case ifUnused && q.Consumers > 0:
		return 0, &BrokerError{Code: 406, Text: "PRECONDITION_FAILED - queue '" + name + "' in vhost '/' in use"}
	case ifEmpty && q.Messages > 0:
		return 0, &BrokerError{Code: 406, Text: "PRECONDITION_FAILED - queue '" + name + "' in vhost '/' not empty"}
	}
	b.cluster.mu.Unlock()
	b.cluster.deleteQueue(name)
	b.cluster.mu.Lock()
	return q.Messages, nil
}

func (b *fakeBroker) QueueCount(ctx context.Context, name string) (Count, error) {
	leave, err := b.enter(ctx, "queue count", name)
	if err != nil {
		return Count{}, err
	}
	defer leave()
	return b.cluster.queues[name].Count, nil
}

func (b *fakeBroker) QueueCounts(ctx context.Context, names []string) ([]Count, error) {
	counts := make([]Count, len(names))
	for i, name := range names {
		var err error
		if counts[i], err = b.QueueCount(ctx, name); err != nil {
			return nil, err
		}
	}
	return counts, nil
}
