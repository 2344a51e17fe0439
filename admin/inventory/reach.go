package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ask listens to the proxies and asks the management API, both at once. What one of
// them does not tell, the broker itself and the other one still do.
func ask(ctx context.Context, o Options, atLeast time.Duration) (view *View, stats map[string]Stats, warnings []string, err error) {
	var asking sync.WaitGroup
	var statsErr, listenErr error
	if o.Stats != nil {
		asking.Go(func() { stats, statsErr = o.Stats(ctx) })
	}
	view = &View{}
	if o.Listen != nil {
		view, listenErr = o.Listen(ctx, atLeast)
	}
	asking.Wait()
	if ctx.Err() != nil {
		return nil, nil, nil, context.Cause(ctx)
	}
	if listenErr != nil {
		view = &View{}
		view.miss(listenErr)
	}
	warnings = view.Warnings()
	if statsErr != nil {
		stats = nil
		warnings = append(warnings, statsErr.Error())
	}
	return view, stats, warnings, nil
}

// reach finds out which nodes answer.
func reach(ctx context.Context, o Options) (*found, error) {
	f := &found{o: o, brokers: map[string]Broker{}, warnings: slices.Clone(o.Warnings)}
	names := make([]string, len(o.Brokers))
	errs := make([]error, len(o.Brokers))
	var asking sync.WaitGroup
	for i, b := range o.Brokers {
		asking.Go(func() {
			if names[i], errs[i] = b.NodeName(ctx); errs[i] == nil {
				errs[i] = answers(ctx, b) // a name alone needs no connection
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
		if errs[i] != nil {
			f.warnings = append(f.warnings, fmt.Sprintf("node %s: %s", names[i], errs[i]))
			continue
		}
		f.brokers[names[i]] = b
		if f.any == nil {
			f.any = b
		}
	}
	slices.Sort(f.nodes)
	if f.any == nil {
		return nil, fmt.Errorf("%w: %w", ErrNoNode, errors.Join(errs...))
	}
	return f, nil
}

// answers asks a node for something that every node has, and has by itself: it may
// not answer for a queue that is elsewhere.
func answers(ctx context.Context, b Broker) error {
	_, err := b.ExchangeExists(ctx, "amq.direct")
	return err
}

// exchanges returns the names to look at.
func (f *found) exchanges() (names []string) {
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if f.o.Exchanges != nil {
		for _, name := range f.o.Exchanges {
			add(name)
		}
		return names
	}
	for _, p := range f.o.Policies.ForVhost(f.o.Vhost) {
		if name, ok := p.Literal(); ok {
			add(name)
		}
	}
	slices.Sort(names)
	return names
}
