package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Resolver looks up SRV records; *net.Resolver is one.
type Resolver interface {
	LookupSRV(ctx context.Context, service, proto, name string) (cname string, addrs []*net.SRV, err error)
}

// SRV is a Source that reads SRV records (RFC 2782): every target is a node's
// host, with the port that it serves AMQP on. Priorities and weights do not
// matter, since every node has shards.
type SRV struct {
	// Name is the full name of the records, such as _amqp._tcp.rabbit.example.com.
	Name string
	// NodeName is a template of the nodes' names, see CheckNodeName; default
	// DefaultNodeName.
	NodeName string
	// Zone is given to all the nodes.
	Zone string
	// Resolver replaces the system's.
	Resolver Resolver
}

var errNoService = errors.New("the service is not available at this domain")

// Nodes implements Source.
func (s SRV) Nodes(ctx context.Context) ([]Node, error) {
	var resolver Resolver = net.DefaultResolver
	if s.Resolver != nil {
		resolver = s.Resolver
	}
	template := s.NodeName
	if template == "" {
		template = DefaultNodeName
	}
	// Next to an error there may be records that could be read: no complete answer.
	_, records, err := resolver.LookupSRV(ctx, "", "", s.Name)
	if err != nil {
		return nil, fmt.Errorf("look up SRV records of %s: %w", s.Name, err)
	}
	// They come in an order that weights make random, and of two for one node the
	// first counts: that has to be the same one each time.
	records = slices.Clone(records)
	slices.SortStableFunc(records, func(a, b *net.SRV) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Port, b.Port))
	})
	var nodes []Node
	for _, r := range records {
		host := strings.TrimSuffix(r.Target, ".")
		if host == "" { // the target ".", RFC 2782
			return nil, fmt.Errorf("look up SRV records of %s: %w", s.Name, errNoService)
		}
		nodes = append(nodes, Node{
			Name: nodeName(template, host), Address: net.JoinHostPort(host, strconv.Itoa(int(r.Port))), Zone: s.Zone,
		})
	}
	return sorted(nodes), nil
}
