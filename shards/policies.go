package shards

import (
	"cmp"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"
)

// matchCacheSize bounds the remembered (vhost, exchange) pairs: names come from
// clients, so their number has no other bound.
const matchCacheSize = 4096

// Policies is an immutable collection of policies, safe for concurrent use.
type Policies struct {
	byVhost map[string]*vhostPolicies
	all     []*Policy
	cache   *lru.Cache[vhostExchange, *Policy] // nil when every pattern is literal
}

type vhostExchange struct{ vhost, exchange string }

// vhostPolicies are one vhost's policies, the deciding one first.
type vhostPolicies struct {
	ordered  []*Policy
	literals map[string]*Policy // the whole answer when patterns is false
	patterns bool               // any pattern is not literal
}

// NewPolicies collects policies. Of those that match an exchange the one with the
// highest priority decides, then the one whose name sorts first.
func NewPolicies(ps []*Policy) *Policies {
	c := &Policies{byVhost: make(map[string]*vhostPolicies), all: slices.Clone(ps)}
	slices.SortStableFunc(c.all, func(a, b *Policy) int {
		return cmp.Or(cmp.Compare(a.Vhost, b.Vhost), cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name))
	})
	for _, p := range c.all {
		v := c.byVhost[p.Vhost]
		if v == nil {
			v = &vhostPolicies{literals: make(map[string]*Policy)}
			c.byVhost[p.Vhost] = v
		}
		v.ordered = append(v.ordered, p)
		if name, ok := p.Literal(); !ok {
			v.patterns = true
			c.initCache()
		} else if v.literals[name] == nil {
			v.literals[name] = p
		}
	}
	return c
}

// initCache makes the cache on first need.
func (p *Policies) initCache() {
	if p.cache == nil {
		// The only error is a size that is not positive.
		p.cache, _ = lru.New[vhostExchange, *Policy](matchCacheSize)
	}
}

// All returns the policies by vhost, the deciding ones first.
func (p *Policies) All() []*Policy { return slices.Clone(p.all) }

// ForVhost returns the policies of one vhost, the deciding ones first.
func (p *Policies) ForVhost(vhost string) []*Policy {
	if v := p.byVhost[vhost]; v != nil {
		return slices.Clone(v.ordered)
	}
	return nil
}

// Match returns the policy that decides for an exchange, or nil. The default
// exchange, amq.*, *.unsharded, shardmq.* and names of shard queues never match.
func (p *Policies) Match(vhost, exchange string) *Policy {
	v := p.byVhost[vhost]
	if v == nil || reserved(exchange) {
		return nil
	}
	if !v.patterns {
		return v.literals[exchange]
	}
	key := vhostExchange{vhost, exchange}
	if hit, ok := p.cache.Get(key); ok {
		return hit
	}
	found := v.find(exchange)
	p.cache.Add(key, found)
	return found
}

// find returns the first policy that matches.
func (v *vhostPolicies) find(exchange string) *Policy {
	for _, p := range v.ordered {
		if p.matches(exchange) {
			return p
		}
	}
	return nil
}
