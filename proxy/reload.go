package proxy

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shardmq/shardmq/shards"
	"github.com/shardmq/shardmq/shards/discovery"
)

// setup is what a running proxy goes by and what a reload replaces: an immutable value.
type setup struct {
	listed   []Node  // by the configuration
	found    []Node  // by discovery
	nodes    []*node // both, the listed ones first
	policies *shards.Policies
}

// node is an upstream node. Its usage outlives a change of name and zone.
type node struct {
	Node
	*usage
}

// usage is how many clients are connected to a node, and whether it is well.
type usage struct {
	clients atomic.Int64
	avoid   atomic.Int64 // until when others are tried first, Unix nanoseconds
}

// newSetup puts a setup together; nodes that were in the one before keep their usage.
func newSetup(before *setup, listed, found []Node, policies *shards.Policies) *setup {
	now := &setup{listed: listed, found: found, policies: policies}
	for _, n := range slices.Concat(listed, found) {
		if slices.ContainsFunc(now.nodes, func(o *node) bool { return o.Address == n.Address || n.Name != "" && o.Name == n.Name }) {
			continue // found, and listed as well: the list says more
		}
		each := &node{Node: n, usage: &usage{}}
		if before != nil {
			if i := slices.IndexFunc(before.nodes, func(o *node) bool { return o.Address == n.Address }); i >= 0 {
				each.usage = before.nodes[i].usage
			}
		}
		now.nodes = append(now.nodes, each)
	}
	return now
}

// upstreams returns the nodes there are now; not to be modified.
func (s *server) upstreams() []*node { return s.current.Load().nodes }

// follow applies updates until ctx ends.
func (s *server) follow(ctx context.Context) {
	for {
		select {
		case u := <-s.o.Updates:
			s.update(ctx, func(now *setup) *setup { return newSetup(now, u.Nodes, now.found, u.Policies) })
			if u.Applied != nil {
				u.Applied()
			}
		case <-ctx.Done():
			return
		}
	}
}

// discover looks for nodes, and goes on looking in the background until ctx ends. It returns once there is a first answer, good or bad.
func (s *server) discover(ctx context.Context, background *sync.WaitGroup) {
	if s.o.Discovery == nil {
		return
	}
	watcher := discovery.NewWatcher(discovery.WatcherOptions{
		Source: s.o.Discovery, Interval: s.o.DiscoveryInterval, Log: zapLogger{s.log.Sugar()},
		OnChange: func(nodes []discovery.Node) {
			found := make([]Node, len(nodes))
			for i, n := range nodes {
				found[i] = Node{Name: n.Name, Address: n.Address, Zone: n.Zone, TLS: s.o.DiscoveryTLS}
			}
			s.update(ctx, func(now *setup) *setup { return newSetup(now, now.listed, found, now.policies) })
		},
	})
	started := make(chan struct{})
	background.Go(func() { watcher.Run(ctx, started) })
	<-started
}

// update replaces the setup and has every topology go by the new one.
func (s *server) update(ctx context.Context, change func(now *setup) *setup) {
	s.updating.Lock()
	defer s.updating.Unlock()
	next := change(s.current.Load())
	// A topology made from here on goes by next. Those made before are in vhosts.
	s.mu.Lock()
	s.current.Store(next)
	vhosts := make([]*vhost, 0, len(s.vhosts))
	for _, v := range s.vhosts {
		vhosts = append(vhosts, v)
	}
	s.mu.Unlock()
	for _, v := range vhosts {
		v.topology.Reconfigure(next.policies, s.connections(v, next.nodes))
	}
	s.startTopologies(ctx)
}
