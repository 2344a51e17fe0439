package shards

import (
	"cmp"
	"slices"
)

// Policies is an immutable collection of policies, safe for concurrent use.
type Policies struct {
	byVhost map[string]*vhostPolicies
	all     []*Policy
}

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
		} else if v.literals[name] == nil {
			v.literals[name] = p
		}
	}
	return c
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
// exchange, amq.*, *.unsharded, shardmq.* and names of shard queues never match. It
// tries the patterns each time: Topology.Lookup remembers.
func (p *Policies) Match(vhost, exchange string) *Policy {
	v := p.byVhost[vhost]
	if v == nil || reserved(exchange) {
		return nil
	}
	if !v.patterns {
		return v.literals[exchange]
	}
	for _, p := range v.ordered {
		if p.matches(exchange) {
			return p
		}
	}
	return nil
}
