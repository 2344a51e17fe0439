package shards

import lru "github.com/hashicorp/golang-lru/v2"

// replace goes over to other policies. Exchanges that some policy still matches
// stay the same and get it. It returns them with the policy they had, and those
// that are none of ours any more.
func (r *routes) replace(policies *Policies) (kept map[*Exchange]*Policy, former []*Exchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept = make(map[*Exchange]*Policy)
	for _, x := range r.exchanges() {
		was := x.Policy()
		if policies.Match(r.vhost, x.Name) != nil {
			kept[x] = was
		} else {
			former = append(former, x)
		}
	}
	r.rebuild(policies)
	return kept, former
}

// rebuild makes the routes for policies anew, with the exchanges there are. r.mu
// is held.
func (r *routes) rebuild(policies *Policies) {
	r.policies = policies
	before := r.exchanges()
	known := make(map[string]*Route)
	enter := func(x *Exchange, p *Policy) {
		x.policy.Store(p)
		known[x.Name] = &Route{Exchange: x}
	}
	for name, x := range r.former {
		if p := policies.Match(r.vhost, name); p != nil {
			x.kept = true
			enter(x, p)
			delete(r.former, name)
		}
	}
	var pinned []*Exchange
	for _, x := range before {
		p := policies.Match(r.vhost, x.Name)
		switch {
		case p == nil:
			x.pinned, x.kept = false, false
			if x.group.Load() != nil {
				r.former[x.Name] = x
			}
			continue
		case x.pinned:
			pinned = append(pinned, x)
		}
		enter(x, p)
	}
	patterns := false
	for _, p := range policies.ForVhost(r.vhost) {
		name, literal := p.Literal()
		patterns = patterns || !literal
		if !literal || policies.Match(r.vhost, name) != p { // another policy decides
			continue
		}
		if known[name] == nil {
			enter(newExchange(name, r.vhost, p), p)
		}
		pinned = append(pinned, known[name].Exchange)
	}
	r.known.Store(&known)
	var cache *nameCache
	if patterns {
		cache, _ = lru.New[string, *Route](cacheSize) // fails for a size that is not positive only
	}
	r.cache.Store(cache)
	r.feed(pinned)
}

// feed pins exchanges, with their feeds as the policies now have them. r.mu is held.
func (r *routes) feed(xs []*Exchange) {
	for _, x := range xs {
		x.pinned = false
		r.pinLocked(x)
	}
}
