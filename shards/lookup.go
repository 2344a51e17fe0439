package shards

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// cacheHalf is the size of each of the two generations of names that patterns
// were tried on: names come from clients, so their number needs a bound.
const cacheHalf = 4096

// routes maps exchange names to routes. Reading is the hot path.
type routes struct {
	vhost    string
	policies *Policies
	patterns bool // some policy is not literal

	// known holds literally named exchanges, the names that feed an exchange, and
	// exchanges of pattern policies that exist. Replaced whole, under mu.
	known atomic.Pointer[map[string]*Route]

	// All other names, with nil for those no policy matches. When young is full
	// it becomes old and the former old is dropped, so that what is in use stays.
	mu         sync.RWMutex
	young, old map[string]*Route
}

func (r *routes) init(vhost string, policies *Policies) {
	r.vhost, r.policies = vhost, policies
	r.young = make(map[string]*Route)
	known := make(map[string]*Route)
	for _, p := range policies.ForVhost(vhost) {
		name, literal := p.Literal()
		if !literal {
			r.patterns = true
			continue
		}
		if policies.Match(vhost, name) == p { // else another policy decides
			known[name] = &Route{Exchange: newExchange(name, vhost, p)}
		}
	}
	r.known.Store(&known)
	for _, x := range r.literals() {
		r.mu.Lock()
		next := maps.Clone(*r.known.Load())
		r.addFeeds(next, x)
		r.known.Store(&next)
		r.mu.Unlock()
	}
}

// literals returns the exchanges that policies name literally, by name.
func (r *routes) literals() []*Exchange {
	known := *r.known.Load()
	var xs []*Exchange
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if x := known[name].Exchange; x != nil {
			if _, literal := x.Policy.Literal(); literal {
				xs = append(xs, x)
			}
		}
	}
	return xs
}

func (r *routes) lookup(name []byte) *Route {
	if route, ok := (*r.known.Load())[string(name)]; ok {
		return route
	}
	if !r.patterns {
		return nil
	}
	r.mu.RLock()
	route, ok := r.young[string(name)]
	r.mu.RUnlock()
	if ok {
		return route
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.remember(string(name))
}

// remember returns the route of a name, making one if need be. r.mu is held.
func (r *routes) remember(name string) *Route {
	if route, ok := (*r.known.Load())[name]; ok {
		return route
	}
	if route, ok := r.young[name]; ok {
		return route
	}
	route, ok := r.old[name]
	if !ok {
		if p := r.policies.Match(r.vhost, name); p != nil {
			route = &Route{Exchange: newExchange(name, r.vhost, p)}
		}
	}
	r.keep(name, route)
	return route
}

// keep puts a route into the young generation. r.mu is held.
func (r *routes) keep(name string, route *Route) {
	if len(r.young) >= cacheHalf {
		dropped := r.old
		r.old, r.young = r.young, make(map[string]*Route)
		for name, route := range dropped {
			// An exchange with consumers has to stay the same one.
			if route != nil && route.Exchange.group.Load() != nil && r.old[name] == nil {
				r.young[name] = route
			}
		}
	}
	r.young[name] = route
}

// pin keeps an exchange that exists for good, and has its feeding names found.
func (r *routes) pin(x *Exchange) {
	if route := (*r.known.Load())[x.Name]; route != nil && route.Exchange != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	current := *r.known.Load()
	if route := current[x.Name]; route != nil && route.Exchange != nil {
		return
	}
	next := maps.Clone(current)
	var feeds []*Exchange
	if route := next[x.Name]; route != nil {
		feeds = route.Feeds
	}
	next[x.Name] = &Route{Exchange: x, Feeds: feeds}
	r.addFeeds(next, x)
	r.known.Store(&next)
}

// addFeeds lists x at the names that feed it. r.mu is held.
func (r *routes) addFeeds(next map[string]*Route, x *Exchange) {
	for _, from := range x.Policy.Definition.FedBy {
		route := next[from]
		if route == nil {
			route = r.remember(from)
			delete(r.young, from) // known has it from now on
		}
		var merged Route
		if route != nil {
			merged = *route
		}
		if !slices.Contains(merged.Feeds, x) {
			merged.Feeds = append(slices.Clip(merged.Feeds), x)
		}
		next[from] = &merged
	}
}

// unpin gives up an exchange that no longer exists, so that exchanges that come
// and go under a pattern do not pile up. Literally named ones stay.
func (r *routes) unpin(x *Exchange) {
	if _, literal := x.Policy.Literal(); literal {
		return
	}
	if route := (*r.known.Load())[x.Name]; route == nil || route.Exchange != x {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next := maps.Clone(*r.known.Load())
	for name, route := range next {
		if name == x.Name || slices.Contains(route.Feeds, x) {
			without := &Route{Exchange: route.Exchange}
			for _, fed := range route.Feeds {
				if fed != x {
					without.Feeds = append(without.Feeds, fed)
				}
			}
			if next[name] = without; without.Exchange == nil && len(without.Feeds) == 0 {
				delete(next, name)
			}
		}
	}
	if route := next[x.Name]; len(route.Feeds) == 0 {
		delete(next, x.Name)
		r.keep(x.Name, &Route{Exchange: x})
	}
	r.known.Store(&next)
}

// canonical returns the exchange that look-ups of x's name give, if it exists.
func (r *routes) canonical(x *Exchange) *Exchange {
	if route := (*r.known.Load())[x.Name]; route != nil && route.Exchange != nil {
		return route.Exchange
	}
	return x
}
