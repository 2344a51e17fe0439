package inventory

import (
	"context"
	"slices"
	"strings"
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
	// warnings say what did not answer.
	warnings []string
}

// look listens to proxies for at least that long, finds the shards and counts: twice
// if o has an interval.
func look(ctx context.Context, o Options, atLeast time.Duration) (*Listing, error) {
	f, err := reach(ctx, o)
	if err != nil {
		return nil, err
	}
	view, stats, warnings, err := ask(ctx, o, atLeast) // stats are nil only if there are none
	if err != nil {
		return nil, err
	}
	l := &Listing{Vhost: o.Vhost, Proxies: view.Proxies(), Exchanges: []Exchange{}, view: view, found: f, blind: o.Stats != nil && stats == nil}
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
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for i := range l.Exchanges {
		l.Exchanges[i].complete(view, stats)
	}
	l.Warnings = slices.Concat(f.warnings, warnings)
	return l, nil
}

// exchange finds the shards of one exchange: what the leader has decided, what
// the configuration asks for, and queues of such names that nobody knows of.
func (f *found) exchange(ctx context.Context, name string, view *View) Exchange {
	x := Exchange{Name: name, Shards: []Shard{}}
	all := planned(view.entry(name))
	add := func(s shards.Shard, status Status) {
		if all[s.Queue] == nil {
			all[s.Queue] = &Shard{Queue: s.Queue, Node: s.Node, home: s.Node, Index: s.Index, Status: status}
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
			all[s.Queue] = &Shard{Queue: s.Queue, Node: s.Node, home: s.Node, Index: s.Index, Status: status, planned: true}
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
