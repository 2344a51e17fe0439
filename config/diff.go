package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/shardmq/shardmq/config/certs"
	"github.com/shardmq/shardmq/shards"
)

// Kind says what has become of a policy, node or job.
type Kind string

// The kinds of Change.
const (
	Added   Kind = "added"
	Removed Kind = "removed"
	Changed Kind = "changed"
)

// Change is a difference between two configurations.
type Change struct {
	Kind   Kind
	Vhost  string   // of a policy; "" for others
	Server string   // of a job, its name; "" for others
	Name   string   // of the policy, of the node (its address if it has no name), or of the job
	Keys   []string // of Changed: "definition.shards-per-node: 2 -> 4"
}

// Changes are what a running proxy takes over of a new configuration.
type Changes struct {
	Policies []Change // by vhost and name
	Nodes    []Change // by name
	Jobs     []Change // by server and name
}

// Diff compares the policies, nodes and jobs of two configurations.
func Diff(before, after *Config) Changes {
	return Changes{
		Policies: changes(before.Policies, after.Policies, describePolicy),
		Nodes:    changes(before.Upstream.Nodes, after.Upstream.Nodes, describeNode),
		Jobs:     jobChanges(before, after),
	}
}

// Empty reports whether nothing is different.
func (c Changes) Empty() bool { return len(c.Policies) == 0 && len(c.Nodes) == 0 && len(c.Jobs) == 0 }

// Same reports whether two configurations say the same.
func Same(a, b *Config) bool {
	return Diff(a, b).Empty() && NeedRestart(a, b) == nil && reflect.DeepEqual(a.Listeners, b.Listeners) && reflect.DeepEqual(a.Upstream.TLS, b.Upstream.TLS) &&
		reflect.DeepEqual(a.Upstream.Identities, b.Upstream.Identities)
}

// Files lists the files that the configuration names.
func (c *Config) Files() []string {
	var all []string
	for _, l := range c.Listeners {
		if l.TLS != nil {
			all = append(all, l.TLS.Cert, l.TLS.Key, l.TLS.ClientCA)
		}
	}
	if t := c.Upstream.TLS; t != nil {
		all = append(all, t.CA, t.Cert, t.Key)
	}
	for _, each := range c.Upstream.Identities {
		all = append(all, each.TLS.Cert, each.TLS.Key)
	}
	if c.Dispatch != nil {
		all = append(all, c.Dispatch.Files...)
	}
	return slices.DeleteFunc(all, func(name string) bool { return name == "" })
}

// NeedRestart lists the keys in which two configurations differ and that are
// read at start only, by their path.
func NeedRestart(before, after *Config) []string {
	var keys []string
	for _, k := range []struct {
		path string
		a, b any
	}{
		{"listeners", withoutFiles(before.Listeners), withoutFiles(after.Listeners)},
		{"upstream.discovery", before.Upstream.Discovery, after.Upstream.Discovery},
		{"upstream.zone", before.Upstream.Zone, after.Upstream.Zone},
		{"upstream.prefer", before.Upstream.Prefer, after.Upstream.Prefer},
		{"upstream.control", before.Upstream.Control, after.Upstream.Control},
		{"upstream.proxy-protocol", before.Upstream.ProxyProtocol, after.Upstream.ProxyProtocol},
		{"upstream.tls.identities", whose(before.Upstream.Identities), whose(after.Upstream.Identities)},
		{"upstream.dial-timeout", before.Upstream.DialTimeout, after.Upstream.DialTimeout},
		{"proxy", before.Proxy, after.Proxy},
		{"admin", before.Admin, after.Admin},
		{"log", before.Log, after.Log},
		{"dispatch.drain-timeout", before.drain(), after.drain()},
	} {
		if !reflect.DeepEqual(k.a, k.b) {
			keys = append(keys, k.path)
		}
	}
	return keys
}

// withoutFiles leaves out what a listener takes over while it runs.
func withoutFiles(all []Listener) []Listener {
	out := slices.Clone(all)
	for i, l := range out {
		if l.TLS != nil {
			out[i].TLS = &certs.ServerOptions{}
		}
	}
	return out
}

// whose leaves out of identities what a proxy takes over while it runs.
func whose(all []Identity) []Identity {
	out := slices.Clone(all)
	for i := range out {
		out[i].TLS = certs.ClientOptions{}
	}
	return out
}

// described is a policy, node or job as pairs of key and value.
type described struct {
	vhost, name string
	values      [][2]string
}

func describePolicy(p *shards.Policy) described {
	d := &p.Definition
	onlyOne := "unlimited"
	if d.Ordered {
		onlyOne = "1"
	}
	return described{p.Vhost, p.Name, [][2]string{
		{"pattern", p.Pattern},
		{"priority", fmt.Sprint(p.Priority)},
		{"definition.shards-per-node", number(d.ShardsPerNode)},
		{"definition.shards", number(d.Shards)},
		{"definition.queue-arguments", describeArguments(d.QueueArguments)},
		{"definition.routing-key", fmt.Sprintf("%q", d.RoutingKey)},
		{"definition.hash", d.Hash.String()},
		{"definition.hash-on", describeHashOn(&d.HashOn)},
		{"definition.consumers", d.Consumers.String()},
		{"definition.max-consumers-per-shard", onlyOne},
		{"definition.order-barrier", fmt.Sprint(d.Barrier)},
		{"definition.on-node-down", d.OnNodeDown.String()},
		{"definition.exchange-type", cmp.Or(d.ExchangeType, "the exchange's own")},
		{"definition.fed-by", fmt.Sprintf("%q", d.FedBy)},
	}}
}

func describeNode(n Node) described {
	return described{"", cmp.Or(n.Name, n.Address), [][2]string{{"address", n.Address}, {"zone", cmp.Or(n.Zone, "none")}, {"tls", fmt.Sprint(n.TLS)}}}
}

func number(n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprint(n)
}

func describeArguments(args map[string]any) string {
	if len(args) == 0 {
		return "none"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(args)) {
		parts = append(parts, fmt.Sprintf("%s=%#v", name, args[name]))
	}
	return strings.Join(parts, " ")
}

func describeHashOn(h *shards.HashOn) string {
	switch h.Source {
	case shards.OnCapture:
		return fmt.Sprintf("routing-key %q", h.Re)
	case shards.OnHeader:
		return fmt.Sprintf("header %q", h.Header)
	case shards.OnMessageID:
		return "message-id"
	case shards.OnCorrelationID:
		return "correlation-id"
	}
	return "the routing key"
}

// changes compares two lists whose elements are told apart by vhost and name.
func changes[T any](before, after []T, describe func(T) described) []Change {
	type id struct{ vhost, name string }
	old, now := map[id]described{}, map[id]described{}
	for _, e := range before {
		d := describe(e)
		old[id{d.vhost, d.name}] = d
	}
	for _, e := range after {
		d := describe(e)
		now[id{d.vhost, d.name}] = d
	}
	var out []Change
	for i, d := range now {
		was, there := old[i]
		if !there {
			out = append(out, Change{Kind: Added, Vhost: i.vhost, Name: i.name})
		} else if keys := differing(was, d); keys != nil {
			out = append(out, Change{Kind: Changed, Vhost: i.vhost, Name: i.name, Keys: keys})
		}
	}
	for i := range old {
		if _, there := now[i]; !there {
			out = append(out, Change{Kind: Removed, Vhost: i.vhost, Name: i.name})
		}
	}
	slices.SortFunc(out, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Vhost, b.Vhost), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func differing(before, after described) (keys []string) {
	for i, v := range after.values {
		if was := before.values[i][1]; was != v[1] && strings.HasPrefix(v[1], hidden) {
			keys = append(keys, v[0]+": changed")
		} else if was != v[1] {
			keys = append(keys, fmt.Sprintf("%s: %s -> %s", v[0], was, v[1]))
		}
	}
	return keys
}
