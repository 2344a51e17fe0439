// Package discovery finds the nodes of a RabbitMQ cluster: in a fixed list, in
// the DNS, or by asking the cluster itself.
package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// Node is one cluster member.
type Node struct {
	// Name is its name within the cluster, such as rabbit@host; "" = not known, to
	// be learned from the broker.
	Name string
	// Address is the host and port it serves AMQP on; "" = it is a member, but
	// where it serves cannot be told now.
	Address string
	// Zone is where it is, for clients that prefer what is near; "" = not known.
	Zone string
}

// Source tells which nodes there are. Implementations are safe for concurrent
// use.
type Source interface {
	// Nodes returns the nodes that the source knows of now. An error, or no node at
	// all, says nothing about the nodes: see Watcher.
	Nodes(ctx context.Context) ([]Node, error)
}

// DefaultNodeName is how RabbitMQ names a node by default.
const DefaultNodeName = "rabbit@{host}"

// errTemplate is what every fault of a template matches.
var errTemplate = errors.New("not a template of a node's name")

// CheckNodeName returns what is wrong with a template of node names: text in
// which {host} stands for a host's short name, up to its first dot, and {fqdn} for
// its full one. RabbitMQ uses short names unless it is told otherwise.
func CheckNodeName(template string) error {
	rest := strings.NewReplacer("{host}", "h", "{fqdn}", "f").Replace(template)
	base, host, _ := strings.Cut(rest, "@")
	switch {
	case rest == template:
		return fmt.Errorf("%w: %q has neither {host} nor {fqdn}", errTemplate, template)
	case strings.ContainsAny(rest, "{}"):
		return fmt.Errorf("%w: %q has braces that are neither {host} nor {fqdn}", errTemplate, template)
	case base == "" || host == "" || strings.ContainsAny(rest, " \t\r\n") || strings.Count(rest, "@") != 1:
		return fmt.Errorf("%w: %q is not of the form NAME@HOST", errTemplate, template)
	}
	return nil
}

// nodeName fills in a template. An address in numbers has no short form.
func nodeName(template, host string) string {
	short := host
	if net.ParseIP(host) == nil {
		short, _, _ = strings.Cut(host, ".")
	}
	return strings.NewReplacer("{host}", short, "{fqdn}", host).Replace(template)
}

// sorted returns the nodes in name order, each once. Of two with one name the
// first one counts.
func sorted(nodes []Node) []Node {
	nodes = slices.Clone(nodes)
	slices.SortStableFunc(nodes, func(a, b Node) int { return cmp.Compare(key(a), key(b)) })
	return slices.CompactFunc(nodes, func(a, b Node) bool { return key(a) == key(b) })
}

// key tells nodes apart: a node may move to another address, but keeps its name.
func key(n Node) string {
	if n.Name != "" {
		return n.Name
	}
	return n.Address
}
