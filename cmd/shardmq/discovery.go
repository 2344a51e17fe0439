package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/shardmq/shardmq/config"
	"github.com/shardmq/shardmq/config/certs"
	"github.com/shardmq/shardmq/shards/discovery"
)

// source is what finds the nodes that the file does not list; nil if nothing does.
func source(u *config.Upstream, nodes *certs.Live) discovery.Source {
	switch d := u.Discovery; {
	case d == nil:
		return nil
	case d.SRV != nil:
		return discovery.SRV{Name: d.SRV.Name, NodeName: d.SRV.NodeName}
	default:
		m := management(u)
		return discovery.Management{URL: m.URL, Username: m.Username, Password: string(m.Password), Host: m.Host, Port: m.Port,
			TLS: d.TLS, Client: overTLS(m.URL, nodes)}
	}
}

// overTLS is the client for a URL, nil for the usual one where the URL has no TLS.
func overTLS(url string, nodes *certs.Live) *http.Client {
	if !strings.HasPrefix(url, "https:") {
		return nil
	}
	return nodes.HTTP()
}

// management returns where the management API is, with the control user's
// credentials unless it has its own. upstream.discovery.management must be given.
func management(u *config.Upstream) config.Management {
	m := *u.Discovery.Management
	if m.Username == "" {
		m.Username, m.Password = u.Control.Username, u.Control.Password
	}
	return m
}

// upstreamNodes returns the nodes that are listed, and those that discovery finds now.
func upstreamNodes(ctx context.Context, cfg *config.Config, to *certs.Live) ([]config.Node, error) {
	nodes := slices.Clone(cfg.Upstream.Nodes)
	from := source(&cfg.Upstream, to)
	if from == nil {
		return nodes, nil
	}
	ctx, cancel := context.WithTimeout(ctx, discovery.DefaultTimeout)
	defer cancel()
	found, err := from.Nodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for nodes: %w", err)
	}
	for _, n := range found {
		same := func(o config.Node) bool { return o.Name == n.Name || o.Address == n.Address }
		if n.Address != "" && !slices.ContainsFunc(nodes, same) {
			nodes = append(nodes, config.Node{Name: n.Name, Address: n.Address, TLS: cfg.Upstream.Discovery.TLS})
		}
	}
	return nodes, nil
}
