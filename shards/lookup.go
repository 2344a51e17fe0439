package shards

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	lru "github.com/hashicorp/golang-lru/v2"
)

// cacheSize bounds the remembered names that patterns were tried on: names come
// from clients, so their number has no other bound.
const cacheSize = 8192

// routes maps exchange names to routes. Reading is the hot path.
type routes struct {
	vhost string

	// known holds literally named exchanges, the names that feed an exchange, and
	// exchanges of pattern policies that exist or have consumers. Replaced whole,
	// under mu.
	known atomic.Pointer[map[string]*Route]
	// cache holds other names, with nil for those no policy matches; it is nil
	// itself while all policies are literal. Names are added under mu; replaced
	// whole when policies are.
	cache atomic.Pointer[nameCache]

	mu       sync.Mutex
	policies *Policies
	// former are exchanges that no policy matches any more, by name: their
	// consumers stay, and are joined by others if one matches again.
	former map[string]*Exchange
}

type nameCache = lru.Cache[string, *Route]

func (r *routes) init(vhost string, policies *Policies) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.vhost, r.former = vhost, make(map[string]*Exchange)
	r.known.Store(&map[string]*Route{})
	r.rebuild(policies)
}

// exchanges returns the exchanges that are literally named, exist or have
// consumers, by name.
func (r *routes) exchanges() []*Exchange {
	known := *r.known.Load()
	var xs []*Exchange
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if x := known[name].Exchange; x != nil {
			xs = append(xs, x)
		}
	}
	return xs
}

// literals returns the exchanges that policies name literally, by name.
func (r *routes) literals() []*Exchange {
	return slices.DeleteFunc(r.exchanges(), func(x *Exchange) bool {
		_, literal := x.Policy().Literal()
		return !literal
	})
}

func (r *routes) lookup(name []byte) *Route {
	if route, ok := (*r.known.Load())[string(name)]; ok {
		return route
	}
	cache := r.cache.Load()
	if cache == nil {
		return nil
	}
	// A string of its own would be an allocation; Get keeps no key.
	if route, ok := cache.Get(unsafe.String(unsafe.SliceData(name), len(name))); ok {
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
	cache := r.cache.Load()
	if cache == nil {
		return nil
	}
	route, ok := cache.Get(name)
	if !ok {
		if p := r.policies.Match(r.vhost, name); p != nil {
			route = &Route{Exchange: newExchange(name, r.vhost, p)}
		}
		cache.Add(name, route)
	}
	return route
}

// pin keeps an exchange that exists for good, and has its feeding names found.
func (r *routes) pin(x *Exchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pinLocked(x)
}

func (r *routes) pinLocked(x *Exchange) {
	if x.pinned {
		return
	}
	next := r.hold(x)
	if next == nil {
		return
	}
	x.pinned = true
	r.addFeeds(next, x)
	r.known.Store(&next)
}

// keep keeps an exchange that has consumers, whether or not it exists: it has to
// stay the same one.
func (r *routes) keep(x *Exchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x.kept {
		return
	}
	if next := r.hold(x); next != nil {
		x.kept = true
		r.known.Store(&next)
	}
}

// hold returns a copy of known with x in it; nil when another exchange is there
// under its name, or when no policy matches it any more. r.mu is held.
func (r *routes) hold(x *Exchange) map[string]*Route {
	policy := r.policies.Match(r.vhost, x.Name)
	if policy == nil {
		return nil
	}
	x.policy.Store(policy) // looked up before the policies were replaced
	current := *r.known.Load()
	var feeds []*Exchange
	if route := current[x.Name]; route != nil {
		if route.Exchange != nil && route.Exchange != x {
			return nil
		}
		feeds = route.Feeds
	}
	next := maps.Clone(current)
	next[x.Name] = &Route{Exchange: x, Feeds: feeds}
	r.uncache(x.Name)
	return next
}

// addFeeds lists x at the names that feed it. r.mu is held.
func (r *routes) addFeeds(next map[string]*Route, x *Exchange) {
	for _, from := range x.Policy().Definition.FedBy {
		route := next[from]
		if route == nil {
			route = r.remember(from)
			r.uncache(from) // known has it from now on
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
// and go under a pattern do not pile up. Literally named ones and those with
// consumers stay.
func (r *routes) unpin(x *Exchange) {
	if _, literal := x.Policy().Literal(); literal {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if route := (*r.known.Load())[x.Name]; !x.pinned || route == nil || route.Exchange != x {
		return
	}
	x.pinned = false
	next := maps.Clone(*r.known.Load())
	for name, route := range next {
		if slices.Contains(route.Feeds, x) {
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
	if route := next[x.Name]; len(route.Feeds) == 0 && !x.kept {
		delete(next, x.Name)
		if cache := r.cache.Load(); cache != nil {
			cache.Add(x.Name, &Route{Exchange: x})
		}
	}
	r.known.Store(&next)
}

// uncache forgets what is remembered of a name. r.mu is held.
func (r *routes) uncache(name string) {
	if cache := r.cache.Load(); cache != nil {
		cache.Remove(name)
	}
}

// canonical returns the exchange that look-ups of x's name give, if it exists.
func (r *routes) canonical(x *Exchange) *Exchange {
	if route := (*r.known.Load())[x.Name]; route != nil && route.Exchange != nil {
		return route.Exchange
	}
	return x
}
