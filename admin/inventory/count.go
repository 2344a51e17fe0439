package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/shardmq/shardmq/shards"
)

// maxName is AMQP's longest name, in bytes.
const maxName = 255

var errTooLong = errors.New("its name is longer than AMQP's longest")

// search looks for shards of an exchange that are not known, on each node by its
// name, and under names without a node. A node that stops answering in between has
// none: its known shards say so.
func (f *found) search(ctx context.Context, exchange string, known map[string]*Shard) (out []shards.Shard) {
	look := func(b Broker, at func(i int) shards.Shard) {
		some, err := searchOne(ctx, b, known, at)
		if out = append(out, some...); err != nil {
			f.warnings = append(f.warnings, fmt.Sprintf("exchange %s: not all of its shards may have been found: %s: %s", exchange, b.Node(), err))
		}
	}
	for _, node := range slices.Sorted(maps.Keys(f.brokers)) {
		look(f.brokers[node], func(i int) shards.Shard {
			return shards.Shard{Queue: shards.QueueName(exchange, node, i), Node: node, Index: i}
		})
	}
	if strings.Contains(exchange, " - ") {
		return out // there are none, and what has such a name is another exchange's, on one of its nodes
	}
	look(f.any, func(i int) shards.Shard { return shards.Shard{Queue: shards.QueueNameFixed(exchange, i), Index: i} })
	return out
}

// searchOne is search for names that count up. It returns, with what was found, why
// a queue could not be asked about. What is known is not asked about here: it may be
// on another node, which is down.
func searchOne(ctx context.Context, b Broker, known map[string]*Shard, at func(i int) shards.Shard) (out []shards.Shard, err error) {
	for first, row := 0, 0; row < misses; first += misses {
		var names []string
		for i := range misses {
			if queue := at(first + i).Queue; known[queue] == nil {
				names = append(names, queue)
			}
		}
		counts, errs := countEach(ctx, b, names)
		if len(errs) > 0 && !slices.Contains(errs, nil) {
			return out, searchError(errs)
		}
		if err == nil {
			err = searchError(errs)
		}
		there := map[string]bool{}
		for j, c := range counts {
			there[names[j]] = c.Exists || c.Dormant
		}
		for i := range misses {
			s := at(first + i)
			if row++; there[s.Queue] {
				out = append(out, s)
			}
			if there[s.Queue] || known[s.Queue] != nil {
				row = 0
			}
		}
	}
	return out, err
}

// searchError returns the first error that leaves a search incomplete: under a name
// that is too long there is nothing.
func searchError(errs []error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, errTooLong) {
			return err
		}
	}
	return nil
}

// count asks for the numbers of all shards, each of its node.
func (f *found) count(ctx context.Context, l *Listing, take func(*Shard, shards.Count)) {
	byNode := map[string][]*Shard{}
	for i := range l.Exchanges {
		for j := range l.Exchanges[i].Shards {
			s := &l.Exchanges[i].Shards[j]
			byNode[s.home] = append(byNode[s.home], s)
		}
	}
	var asking sync.WaitGroup
	for node, of := range byNode {
		asking.Go(func() { f.countNode(ctx, node, of, take) })
	}
	asking.Wait()
}

func (f *found) countNode(ctx context.Context, node string, of []*Shard, take func(*Shard, shards.Count)) {
	names := make([]string, len(of))
	for i, s := range of {
		names[i] = s.Queue
	}
	counts, errs := f.counts(ctx, node, names)
	for i, s := range of {
		if errs[i] != nil {
			s.Problem, s.Numbers, s.present = errs[i].Error(), Numbers{}, false
			continue
		}
		take(s, counts[i])
	}
}

// counts asks a node about queues, parallel to their names. An error is a Problem of
// the shard.
func (f *found) counts(ctx context.Context, node string, names []string) ([]shards.Count, []error) {
	b, problem := f.broker(node), nodeDown
	if !slices.Contains(f.nodes, node) {
		problem = otherNode
	}
	if b == nil {
		return make([]shards.Count, len(names)), slices.Repeat([]error{errors.New(problem)}, len(names))
	}
	return countEach(ctx, b, names)
}

// countEach asks about queues all at once, and if that fails about each by itself:
// one that does not answer must not hide the others.
func countEach(ctx context.Context, b Broker, names []string) ([]shards.Count, []error) {
	counts, errs := make([]shards.Count, len(names)), make([]error, len(names))
	var fit []int
	var ask []string
	for i, name := range names {
		if len(name) > maxName {
			errs[i] = errTooLong
			continue
		}
		fit, ask = append(fit, i), append(ask, name)
	}
	all, err := b.QueueCounts(ctx, ask)
	if err != nil && answers(ctx, b) != nil {
		for _, i := range fit {
			errs[i] = errors.New(nodeDown)
		}
		return counts, errs
	}
	var asking sync.WaitGroup
	for j, i := range fit {
		if err == nil {
			counts[i] = all[j]
			continue
		}
		asking.Go(func() { counts[i], errs[i] = countOne(ctx, b, names[i]) })
	}
	asking.Wait()
	return counts, errs
}

func countOne(ctx context.Context, b Broker, name string) (shards.Count, error) {
	counts, err := b.QueueCounts(ctx, []string{name})
	if err == nil {
		return counts[0], nil
	}
	if refused, ok := errors.AsType[*shards.BrokerError](err); ok {
		return shards.Count{}, fmt.Errorf("%d %s", refused.Code, refused.Text)
	}
	return shards.Count{}, errors.New(silent)
}

// broker returns the connection to a node, nil when it does not answer: other
// nodes must not be asked about its queues, they may block for a minute.
func (f *found) broker(node string) Broker {
	if node == "" {
		return f.any
	}
	return f.brokers[node]
}

// set takes a first count over.
func (s *Shard) set(c shards.Count) {
	switch {
	case c.Dormant:
		s.Problem = dormant
		return
	case !c.Exists:
		s.Problem = missing
		return
	}
	s.present = true
	s.Ready, s.Consumers = new(int64(c.Messages)), new(int64(c.Consumers))
}

// change takes a second count over, so many seconds later.
func (s *Shard) change(c shards.Count, seconds float64) {
	before := s.Ready
	s.Problem, s.Numbers, s.present = "", Numbers{}, false
	s.set(c)
	if before != nil && s.Ready != nil && seconds > 0 {
		s.Rate = new(float64(*s.Ready-*before) / seconds)
	}
}
