package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardmq/shardmq/shards"
	"github.com/shardmq/shardmq/shards/coordination"
)

// misses is how many indexes in a row must have no queue for the search for
// unknown shards to end. The sharding plugin numbers without gaps; operators who
// delete by hand leave small ones.
const misses = 16

// found is what a search has come to, for looks and removals that follow.
type found struct {
	o       Options
	nodes   []string          // names of all nodes, sorted
	brokers map[string]Broker // those that answer, by node
	any     Broker            // one of them
}

// look listens to proxies for at least that long, finds the shards and counts: twice
// if o has an interval.
func look(ctx context.Context, o Options, atLeast time.Duration) (*Listing, error) {
	f, err := reach(ctx, o)
	if err != nil {
		return nil, err
	}
	view, stats, err := ask(ctx, o, atLeast)
	if err != nil {
		return nil, err
	}
	l := &Listing{Vhost: o.Vhost, Proxies: view.Proxies(), Exchanges: []Exchange{}, view: view, found: f}
	if view.State != nil {
		l.Term = view.State.Term
		if view.Led {
			l.Leader = view.State.Leader
		}
	}
	for _, name := range f.exchanges() {
		x := f.exchange(ctx, name, view)
		l.Exchanges = append(l.Exchanges, x)
	}
	before := time.Now()
	f.count(ctx, l, func(s *Shard, c shards.Count) { s.set(c) })
	if o.Interval > 0 {
		select {
		case <-time.After(o.Interval):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		elapsed := time.Since(before).Seconds()
		f.count(ctx, l, func(s *Shard, c shards.Count) { s.change(c, elapsed) })
	}
	for i := range l.Exchanges {
		l.Exchanges[i].complete(view, stats)
	}
	return l, nil
}

// ask listens to the proxies and asks the management API, both at once.
func ask(ctx context.Context, o Options, atLeast time.Duration) (view *View, stats map[string]Stats, err error) {
	var asking sync.WaitGroup
	var statsErr error
	if o.Stats != nil {
		asking.Go(func() { stats, statsErr = o.Stats(ctx) })
	}
	view = &View{}
	if o.Listen != nil {
		view, err = o.Listen(ctx, atLeast)
	}
	asking.Wait()
	return view, stats, errors.Join(err, statsErr)
}

// reach finds out which nodes answer.
func reach(ctx context.Context, o Options) (*found, error) {
	f := &found{o: o, brokers: map[string]Broker{}}
	names := make([]string, len(o.Brokers))
	errs := make([]error, len(o.Brokers))
	var asking sync.WaitGroup
	for i, b := range o.Brokers {
		asking.Go(func() {
			if names[i], errs[i] = b.NodeName(ctx); errs[i] == nil {
				_, errs[i] = b.QueueCounts(ctx, []string{coordination.StateQueue}) // a name alone needs no connection
			}
		})
	}
	asking.Wait()
	for i, b := range o.Brokers {
		if names[i] == "" {
			names[i] = b.Node()
		}
		if names[i] != "" {
			f.nodes = append(f.nodes, names[i])
		}
		if errs[i] == nil {
			f.brokers[names[i]] = b
			if f.any == nil {
				f.any = b
			}
		}
	}
	slices.Sort(f.nodes)
	if f.any == nil {
		return nil, fmt.Errorf("%w: %w", ErrNoNode, errors.Join(errs...))
	}
	return f, nil
}

// exchanges returns the names to look at.
func (f *found) exchanges() (names []string) {
	if f.o.Exchanges != nil {
		return f.o.Exchanges
	}
	for _, p := range f.o.Policies.ForVhost(f.o.Vhost) {
		if name, ok := p.Literal(); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// exchange finds the shards of one exchange: what the leader has decided, what
// the configuration asks for, and queues of such names that nobody knows of.
func (f *found) exchange(ctx context.Context, name string, view *View) Exchange {
	x := Exchange{Name: name, Shards: []Shard{}}
	all := planned(view.entry(name))
	add := func(s shards.Shard, status Status) {
		if all[s.Queue] == nil {
			all[s.Queue] = &Shard{Queue: s.Queue, Node: s.Node, Index: s.Index, Status: status}
		}
	}
	if p := f.o.Policies.Match(f.o.Vhost, name); p != nil {
		x.Policy = p.Name
		status, present := Active, []shards.Shard(nil)
		if entry := view.entry(name); entry != nil {
			status = Coming // once a proxy has this configuration
			present = slices.Concat(entry.Set, entry.Next)
		}
		for _, s := range shards.ShardsFor(name, &p.Definition, f.nodes, present) {
			add(s, status)
		}
	}
	for _, s := range f.search(ctx, name, all) {
		add(s, Surplus)
	}
	abandoned := x.Policy == "" && view.abandoned(name)
	for _, s := range all {
		if abandoned {
			s.Status = Surplus // what was decided when there was a policy is no longer of interest
		}
		s.seen = view.unsettled(name, s.Queue)
		x.Shards = append(x.Shards, *s)
	}
	slices.SortFunc(x.Shards, func(a, b Shard) int { return strings.Compare(a.Queue, b.Queue) })
	return x
}

// planned returns the shards that the leader has decided on, by queue; entry may
// be nil.
func planned(entry *coordination.Entry) map[string]*Shard {
	all := map[string]*Shard{}
	if entry == nil {
		return all
	}
	add := func(s shards.Shard, status Status) {
		if all[s.Queue] == nil {
			all[s.Queue] = &Shard{Queue: s.Queue, Node: s.Node, Index: s.Index, Status: status}
		}
	}
	for _, s := range entry.Set {
		add(s, Active)
	}
	for _, s := range entry.Next {
		add(s, Coming)
	}
	for _, s := range entry.Old {
		add(s.Shard, Draining)
	}
	return all
}

// search looks for shards of an exchange that are not known, on each node by its
// name, and under names without a node. A node that stops answering in between has
// none: its known shards say so.
func (f *found) search(ctx context.Context, exchange string, known map[string]*Shard) (out []shards.Shard) {
	for node, b := range f.brokers {
		out = append(out, searchOne(ctx, b, known, func(i int) shards.Shard {
			return shards.Shard{Queue: shards.QueueName(exchange, node, i), Node: node, Index: i}
		})...)
	}
	return append(out, searchOne(ctx, f.any, known, func(i int) shards.Shard {
		return shards.Shard{Queue: shards.QueueNameFixed(exchange, i), Index: i}
	})...)
}

func searchOne(ctx context.Context, b Broker, known map[string]*Shard, at func(i int) shards.Shard) (out []shards.Shard) {
	for i, row := 0, 0; row < misses; {
		var names []string
		first := i
		for ; i < first+misses; i++ {
			names = append(names, at(i).Queue)
		}
		if len(names[0]) > 255 { // AMQP's longest name
			return out
		}
		counts, err := b.QueueCounts(ctx, names)
		if err != nil {
			return out
		}
		for j, c := range counts {
			if row++; c.Exists || known[names[j]] != nil {
				row = 0
			}
			if c.Exists {
				out = append(out, at(first+j))
			}
		}
	}
	return out
}

// count asks for the numbers of all shards, each of its node.
func (f *found) count(ctx context.Context, l *Listing, take func(*Shard, shards.Count)) {
	byNode := map[string][]*Shard{}
	for i := range l.Exchanges {
		for j := range l.Exchanges[i].Shards {
			s := &l.Exchanges[i].Shards[j]
			byNode[s.Node] = append(byNode[s.Node], s)
		}
	}
	var asking sync.WaitGroup
	for node, of := range byNode {
		asking.Go(func() { f.countNode(ctx, node, of, take) })
	}
	asking.Wait()
}

func (f *found) countNode(ctx context.Context, node string, of []*Shard, take func(*Shard, shards.Count)) {
	b := f.broker(node)
	names := make([]string, len(of))
	for i, s := range of {
		names[i] = s.Queue
	}
	var counts []shards.Count
	if b != nil {
		var err error
		if counts, err = b.QueueCounts(ctx, names); err != nil {
			b = nil
		}
	}
	for i, s := range of {
		if b == nil {
			s.Problem, s.Numbers, s.present = nodeDown, Numbers{}, false
			continue
		}
		take(s, counts[i])
	}
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
	if !c.Exists {
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
