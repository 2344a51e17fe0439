package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/shardmq/shardmq/config"
	"github.com/shardmq/shardmq/config/certs"
	"github.com/shardmq/shardmq/shards"
)

// defaultUpstream is a RabbitMQ as its package installs it.
const defaultUpstream = "amqp://guest:guest@localhost:5672"

// problems gathers everything that is wrong with the flags, so that one run
// tells all of it.
type problems []error

func (p *problems) addf(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// fromFlags makes a configuration of the flags alone.
func (c *proxyCmd) fromFlags() (*config.Config, error) {
	cfg := config.Default()
	var bad problems
	c.listeners(cfg, &bad)
	vhost := c.upstreams(cfg, &bad)
	c.nodeNames(cfg, &bad)
	c.shards(cfg, vhost, &bad)
	if c.Admin != "" {
		cfg.Admin.Address = c.Admin
		if err := config.CheckAdmin(c.Admin); err != nil {
			bad.addf("--admin: %w", err)
		}
	}
	if bad != nil {
		return nil, usageError{errors.Join(bad...)}
	}
	return cfg, nil
}

func (c *proxyCmd) listeners(cfg *config.Config, bad *problems) {
	if c.Listen != nil {
		cfg.Listeners = nil
	}
	seen := map[string]bool{}
	for _, address := range c.Listen {
		if err := config.CheckListen(address); err != nil {
			bad.addf("--listen: %w", err)
		} else if seen[address] && !strings.HasSuffix(address, ":0") {
			bad.addf("--listen: %s is given twice; leave one out", address)
		}
		seen[address] = true
		cfg.Listeners = append(cfg.Listeners, config.Listener{Address: address})
	}
}

// upstreams reads the nodes and the credentials, and returns the vhost that
// the policies are for.
func (c *proxyCmd) upstreams(cfg *config.Config, bad *problems) (vhost string) {
	urls := c.Upstream
	if urls == nil {
		urls = []string{defaultUpstream}
	}
	var first upstream
	for i, text := range urls {
		u, err := parseUpstream(text)
		if err != nil {
			bad.addf("--upstream: %w", err)
			continue
		}
		for _, n := range cfg.Upstream.Nodes {
			if n.Address == u.address {
				bad.addf("--upstream: %s is given twice; list each node once", u.address)
			}
		}
		cfg.Upstream.Nodes = append(cfg.Upstream.Nodes, config.Node{Address: u.address, TLS: u.tls})
		if i > 0 && first != (upstream{}) && (u.username != first.username || u.password != first.password || u.vhost != first.vhost) {
			bad.addf("--upstream: %s has another user, password or vhost than %s; nodes of one cluster share them, "+
				"so give the same in each URL", u.address, first.address)
		}
		if first == (upstream{}) {
			first = u
		}
	}
	c.upstreamCA(cfg, bad)
	cfg.Upstream.Control = config.Control{Username: first.username, Password: first.password}
	return first.vhost
}

// upstreamCA reads whom nodes' certificates are signed by.
func (c *proxyCmd) upstreamCA(cfg *config.Config, bad *problems) {
	if c.UpstreamCA == "" {
		return
	}
	cfg.Upstream.TLS = &certs.ClientOptions{CA: c.UpstreamCA}
	_, found := certs.LoadClient(*cfg.Upstream.TLS)
	for _, f := range found {
		if !f.Warning {
			bad.addf("--upstream-ca: %s", f.Text)
		}
	}
	if !slices.ContainsFunc(cfg.Upstream.Nodes, func(n config.Node) bool { return n.TLS }) {
		bad.addf("--upstream-ca: has no effect without an --upstream that begins with amqps://; give one, or leave it out")
	}
}

func (c *proxyCmd) nodeNames(cfg *config.Config, bad *problems) {
	nodes := max(len(c.Upstream), 1)
	switch {
	case len(c.NodeName) == 0 && nodes > 1:
		bad.addf("--node-name: is missing; with more than one --upstream each node needs its name, " +
			"as rabbitmqctl status shows it, in the order of --upstream")
	case len(c.NodeName) != 0 && len(c.NodeName) != nodes:
		bad.addf("--node-name: is given %d times for %d nodes; give one for each --upstream, in their order", len(c.NodeName), nodes)
	}
	seen := map[string]bool{}
	for i, name := range c.NodeName {
		if err := config.CheckNodeName(name); err != nil {
			bad.addf("--node-name: %w", err)
		} else if seen[name] {
			bad.addf("--node-name: %s is given twice; each node has a name of its own", name)
		}
		seen[name] = true
		if i < len(cfg.Upstream.Nodes) {
			cfg.Upstream.Nodes[i].Name = name
		}
	}
}

// shards makes one policy for each --shard: named like the exchange, with a
// pattern that matches nothing else.
func (c *proxyCmd) shards(cfg *config.Config, vhost string, bad *problems) {
	hash, err := shards.ParseHash(c.Hash)
	if err != nil {
		bad.addf("--hash: is %q; give xxhash or phash2", c.Hash)
	}
	if c.Hash != "" && c.Shard == nil {
		bad.addf("--hash: has no effect without --shard; add --shard EXCHANGE=N or leave it out")
	}
	seen := map[string]bool{}
	for _, text := range c.Shard {
		// A name may contain "=": the last one counts.
		i := strings.LastIndexByte(text, '=')
		n, err := strconv.Atoi(text[i+1:])
		if i < 1 || err != nil || n < 1 || n > shards.MaxShardsPerNode {
			bad.addf("--shard: is %q; give EXCHANGE=N with N from 1 to %d, e.g. --shard images=4", text, shards.MaxShardsPerNode)
			continue
		}
		name := text[:i]
		if seen[name] {
			bad.addf("--shard: %s is given twice; leave one out", name)
			continue
		}
		seen[name] = true
		if vhost == "" {
			vhost = config.DefaultVhost // the URL is wrong, which is reported
		}
		p, err := shards.NewPolicy(name, vhost, "^"+regexp.QuoteMeta(name)+"$", 0, shards.Definition{ShardsPerNode: n, Hash: hash})
		if err != nil {
			bad.addf("--shard: %s", shardText(err))
			continue
		}
		cfg.Policies = append(cfg.Policies, p)
	}
}

// shardText leaves out of a policy's error what --shard does not know.
func shardText(err error) string {
	if pe, ok := errors.AsType[*shards.PolicyError](err); ok {
		return pe.Text + "; choose another exchange"
	}
	return err.Error()
}
