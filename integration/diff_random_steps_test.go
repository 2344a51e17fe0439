package integration

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/shardmq/shardmq/frames"
)

// randKind is a kind of step.
type randKind struct {
	weight int
	make   func(*randFamily, *randChannel) *randOp // nil: there is nothing to do it with
}

// randOp is a step that may be played next.
type randOp struct {
	steps []randStep
	// touches are the queues that the order matters for, and how.
	touches []*randQueue
	how     randTouch
	alone   bool // neither what was before nor what comes behind may be under way
	fails   bool
	apply   func() // to the model; may be nil
}

type randTouch uint8

const (
	putting  randTouch = iota + 1 // commutes with itself
	getting                       // in turn with putting, as long as nobody consumes
	settling                      // likewise
	counting                      // counts: RabbitMQ does so before it looks at what was sent just before
)

// randKinds are all kinds. What a session has a lot of comes often.
var randKinds = []*randKind{
	{30, (*randFamily).publish}, {12, (*randFamily).publishSharded}, {8, (*randFamily).get}, {6, (*randFamily).consume}, {3, (*randFamily).cancel}, {14, (*randFamily).acknowledge},
	{2, (*randFamily).recover}, {7, (*randFamily).declareQueue}, {6, (*randFamily).declareAgain}, {1, (*randFamily).deleteQueue}, {2, (*randFamily).purge},
	{5, (*randFamily).declareExchange}, {1, (*randFamily).deleteExchange}, {8, (*randFamily).bind}, {3, (*randFamily).unbind}, {4, (*randFamily).bindExchanges},
	{2, (*randFamily).qos}, {2, (*randFamily).selectMode}, {4, (*randFamily).commit}, {1, (*randFamily).reopen}, {1, (*randFamily).flow}, {5, (*randFamily).fail},
}

func (f *randFamily) chance(of int) bool { return f.rng.IntN(of) == 0 }

func pick[T any](f *randFamily, all []T) T { return all[f.rng.IntN(len(all))] }

// segment makes up what is played next.
func (f *randFamily) segment() *randSegment {
	s := &randSegment{ch: pick(f, f.model.channels)}
	touched := map[*randQueue]randTouch{}
	for most := 1 + f.rng.IntN(12); len(s.steps) < most; {
		kind := f.kind()
		if f.next != nil {
			kind, s.ch, f.next = f.next, f.nextOn, nil
		}
		op := kind.make(f, s.ch)
		if op == nil {
			continue
		}
		if len(s.steps) > 0 && (op.alone || f.conflicts(s.ch, touched, op)) {
			f.next, f.nextOn = kind, s.ch
			return s
		}
		for _, q := range op.touches {
			touched[q] = max(touched[q], op.how)
		}
		if op.apply != nil {
			op.apply()
		}
		s.ch.name(op)
		s.steps, s.fails = append(s.steps, op.steps...), op.fails
		if op.alone {
			return s
		}
	}
	return s
}

func (f *randFamily) kind() *randKind {
	total := 0
	for _, k := range randKinds {
		total += k.weight
	}
	n := f.rng.IntN(total)
	for _, k := range randKinds {
		if n -= k.weight; n < 0 {
			return k
		}
	}
	return nil // not reached
}

// conflicts reports whether a step must wait until those before it have come to rest.
func (f *randFamily) conflicts(ch *randChannel, touched map[*randQueue]randTouch, op *randOp) bool {
	for _, q := range op.touches {
		before := touched[q]
		switch {
		case before == 0, before == putting && op.how == putting:
		case before == counting || op.how == counting || len(q.consumers) > 0:
			return true
		}
	}
	if op.how == settling { // acknowledgements overtake what shardmq composes an answer for, and what waits behind it
		for q, before := range touched {
			if q.sharded != unsharded && before >= getting {
				return true
			}
		}
	}
	return op.how == getting && len(ch.consumers) > 0 && len(touched) > 0
}

// name notes which queue the channel has declared last, and leaves its name out here and there: that means the same.
func (ch *randChannel) name(op *randOp) {
	for _, step := range op.steps {
		if op.fails {
			return
		}
		if m, ok := step.method.(*frames.QueueDeclare); ok {
			ch.last = cmp.Or(step.learn, m.Queue)
			continue
		}
		field := reflect.ValueOf(step.method).Elem().FieldByName("Queue")
		key := reflect.ValueOf(step.method).Elem().FieldByName("RoutingKey")
		if !field.IsValid() || field.String() != ch.last || key.IsValid() && key.String() == "" { // with neither the queue's name is the key
			continue
		}
		ch.named++
		if ch.named%2 == 0 {
			field.SetString("")
		}
	}
}

func one(m frames.Method) []randStep { return []randStep{{method: m}} }

// all are the queues for which this holds.
func (f *randFamily) all(which func(*randQueue) bool) (all []*randQueue) {
	for _, name := range slices.Sorted(maps.Keys(f.model.queues)) {
		if q := f.model.queues[name]; which(q) {
			all = append(all, q)
		}
	}
	return all
}

// queuesFor are the queues that a connection may use, but for pseudo-queues.
func (f *randFamily) queuesFor(ch *randChannel) []*randQueue {
	return f.all(func(q *randQueue) bool { return ch.may(q) && q.sharded == unsharded })
}

func (ch *randChannel) may(q *randQueue) bool { return !q.declared.Exclusive || q.owner == ch.conn }

func (f *randFamily) exchanges(which func(*randExchange) bool) (all []*randExchange) {
	for _, name := range slices.Sorted(maps.Keys(f.model.exchanges)) {
		if x := f.model.exchanges[name]; !x.sharded && (which == nil || which(x)) {
			all = append(all, x)
		}
	}
	return all
}

// queueName is not a name that a queue has had which is gone: RabbitMQ takes an acknowledgement of its messages for one of the new queue's.
func (f *randFamily) queueName(slot int) string {
	for life := 0; ; life++ {
		if name := fmt.Sprintf("%sq%d-%d", f.prefix, slot, life); !f.model.past[name] {
			return name
		}
	}
}

func (f *randFamily) exchangeName(slot int) string { return fmt.Sprintf("%sx%d", f.prefix, slot) }
