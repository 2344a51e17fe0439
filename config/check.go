package config

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"

	"github.com/shardmq/shardmq/shards"
)

// policy checks one policy of the file and adds it to c. Its keys are known to
// have the right type; what is wrong with them has been reported.
func (p *parser) policy(c *Config, r *policy, at place) {
	if r.name != "" && r.vhost != "" {
		id := [2]string{r.vhost, r.name}
		if first, ok := p.policies[id]; ok {
			p.faultAt(at.key("name"), "is %q, the name of the policy on line %d as well; "+
				"give each policy of vhost %q a name of its own", r.name, first, r.vhost)
		} else {
			p.policies[id] = p.line(at.key("name"))
		}
	}
	if r.pattern == "" || !p.pattern(r, at) {
		return
	}
	d := &r.definition
	if r.name == "" || r.vhost == "" || d.ShardsPerNode == 0 && d.Shards == 0 || slices.Contains(d.FedBy, "") {
		return // reported already
	}
	pol, err := shards.NewPolicy(r.name, r.vhost, r.pattern, r.priority, r.definition)
	if err != nil {
		p.policyFault(at, err)
		return
	}
	c.Policies = append(c.Policies, pol)
	p.policyPaths = append(p.policyPaths, at.path)
}

// pattern checks the pattern alone, so that it is reported together with
// whatever else is wrong in the policy.
func (p *parser) pattern(r *policy, at place) bool {
	if _, err := regexp.Compile(r.pattern); err != nil {
		p.faultAt(at.key("pattern"), "is not a regular expression (%v); correct it "+
			"(RE2 syntax: no look-around, no back-references)", err)
		return false
	}
	_, err := shards.NewPolicy("name", DefaultVhost, r.pattern, 0, shards.Definition{ShardsPerNode: 1})
	if err != nil {
		p.policyFault(at, err)
		return false
	}
	return true
}

// policyFault reports what package shards says about a policy, at the key.
func (p *parser) policyFault(at place, err error) {
	pe, ok := errors.AsType[*shards.PolicyError](err)
	if !ok {
		p.fault(at, "%s", err)
		return
	}
	p.faultAt(at.key(pe.Field), "%s; correct or remove it", pe.Text)
}

// crossCheck looks for values that are well formed but do not go together.
func crossCheck(p *parser, c *Config) {
	var listeners, names, addresses unique
	for i, l := range c.Listeners {
		if _, port, err := net.SplitHostPort(l.Address); err == nil && port != "0" {
			listeners.add(p, fmt.Sprintf("listeners[%d].address", i), l.Address, "give each listener an address of its own")
		}
	}
	for i, n := range c.Upstream.Nodes {
		path := fmt.Sprintf("upstream.nodes[%d]", i)
		addresses.add(p, path+".address", n.Address, "list each node once")
		names.add(p, path+".name", n.Name, "give each node the name that rabbitmqctl status shows")
		if _, given := p.lines[path+".name"]; !given && (len(c.Upstream.Nodes) > 1 || c.Upstream.Discovery != nil) {
			p.problem(p.line(path), path+".name", "is missing; with more than one node each needs its name, "+
				"as rabbitmqctl status shows it, e.g. name: rabbit@a")
		}
	}
	if _, port, err := net.SplitHostPort(c.Admin.Address); err == nil && port != "0" {
		listeners.add(p, "admin.address", c.Admin.Address, "give each listener an address of its own")
	}
	p.checkIdentities(c)
	p.shardNames(c)
}

// shardNames reports shards whose queue names would be too long for AMQP. Where
// the exchange or the node is not known yet, the proxy finds out later.
func (p *parser) shardNames(c *Config) {
	for i, pol := range c.Policies {
		exchange, ok := pol.Literal()
		if !ok {
			continue
		}
		d := &pol.Definition
		if d.Shards > 0 {
			p.shardName(i, shards.QueueNameFixed(exchange, d.Shards-1), "")
			continue
		}
		for _, n := range c.Upstream.Nodes {
			if n.Name != "" && p.shardName(i, shards.QueueName(exchange, n.Name, d.ShardsPerNode-1), " on node "+n.Name) {
				break
			}
		}
	}
}

// shardName reports a queue name of policy i that is too long.
func (p *parser) shardName(i int, name, where string) bool {
	if len(name) <= maxName {
		return false
	}
	p.faultAt(p.policyPaths[i]+".pattern", "makes queue names of %d bytes%s; "+
		"AMQP allows %d, so choose a shorter exchange name", len(name), where, maxName)
	return true
}

// unique finds values that are given more than once.
type unique map[string]string // value → path where it stood first

func (u *unique) add(p *parser, path, value, remedy string) {
	if value == "" {
		return // missing or malformed: reported already
	}
	if *u == nil {
		*u = unique{}
	}
	if first, ok := (*u)[value]; ok {
		p.faultAt(path, "is %q, as on line %d (%s); %s", value, p.line(first), first, remedy)
		return
	}
	(*u)[value] = path
}
