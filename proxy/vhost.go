package proxy

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"github.com/shardmq/shardmq/router"
	"github.com/shardmq/shardmq/shards"
	"github.com/shardmq/shardmq/shards/control"
)

// vhost is the topology of one virtual host and the control connections it has, one per node.
type vhost struct {
	name     string
	topology *shards.Topology
	members  *control.Transport

	mu      sync.Mutex // a leaf
	brokers map[nodeID]*control.Client
}

// nodeID tells control connections apart: a node with another name or address, or that is reached with TLS now, is another
// node.
type nodeID struct {
	name, address string
	tls           bool
}

func (n *node) id() nodeID { return nodeID{n.Name, n.Address, n.TLS} }

// newVhost makes a topology that nothing has been asked of yet.
func (s *server) newVhost(name string, now *setup) *vhost {
	v := &vhost{name: name, brokers: map[nodeID]*control.Client{}}
	v.topology = shards.NewTopology(name, now.policies, s.connections(v, now.nodes), zapLogger{s.log.Sugar()})
	v.members = control.NewTransport(control.TransportOptions{
		Nodes: s.addresses, Vhost: name, Username: s.o.ControlUsername, Password: s.o.ControlPassword,
		ConnectTimeout: s.o.DialTimeout, Dial: s.dialControl, Log: zapLogger{s.log.Sugar()},
	})
	v.topology.Coordinate(v.members)
	v.topology.FenceBy(s.fence)
	return v
}

// connections returns the control connection to each of the nodes: those there are, and new ones.
func (s *server) connections(v *vhost, nodes []*node) []shards.Broker {
	v.mu.Lock()
	defer v.mu.Unlock()
	present := make(map[nodeID]*control.Client, len(nodes))
	brokers := make([]shards.Broker, len(nodes))
	for i, n := range nodes {
		id := n.id()
		c := v.brokers[id]
		if c == nil {
			c = control.New(control.Options{Node: n.Name, Address: n.Address, Vhost: v.name,
				Username: s.o.ControlUsername, Password: s.o.ControlPassword, ConnectTimeout: s.o.DialTimeout,
				Dial: s.dialControl, Log: zapLogger{s.log.Sugar()}})
		}
		present[id], brokers[i] = c, c
	}
	v.brokers = present
	return brokers
}

// addresses lists the nodes for the coordination's own connections.
func (s *server) addresses() []control.NodeAddress {
	nodes := s.upstreams()
	out := make([]control.NodeAddress, len(nodes))
	for i, n := range nodes {
		out[i] = control.NodeAddress{Name: n.Name, Address: n.Address}
	}
	return out
}

// topology returns the topology of a virtual host, nil when no policy has concerned it since the start.
func (s *server) topology(name string) *shards.Topology {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.current.Load()
	if v := s.vhosts[name]; v != nil {
		return v.topology
	}
	if s.vhosts == nil || len(now.policies.ForVhost(name)) == 0 {
		return nil
	}
	v := s.newVhost(name, now)
	s.vhosts[name] = v
	return v.topology
}

// startTopologies has the topologies of all policies' virtual hosts begin their work. It goes on while the proxy drains: closing
// them is what ends it.
func (s *server) startTopologies(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	for _, p := range s.current.Load().policies.All() {
		if t := s.topology(p.Vhost); t != nil {
			t.Start(ctx)
		}
	}
}

func (s *server) closeTopologies() {
	s.mu.Lock()
	vhosts := s.vhosts
	s.vhosts = nil
	s.mu.Unlock()
	for _, v := range vhosts {
		if err := v.topology.Close(); err != nil {
			s.log.Debug("control connection closed badly", zap.Error(err))
		}
	}
}

// open gives the router what it finds exchanges with; nil when no policy can ever concern the virtual host.
func (s *server) open(name string) router.Directory {
	if t := s.topology(name); t != nil {
		return t
	}
	if s.o.Updates == nil {
		return nil // and not a nil *Topology in an interface that is not nil
	}
	return &later{srv: s, vhost: name, seen: s.current.Load()}
}

// later is the directory of a virtual host that has no policy, but may get one. The session's mutex guards it.
type later struct {
	srv      *server
	vhost    string
	seen     *setup // no policy in it
	topology *shards.Topology
}

// Lookup implements router.Directory.
func (l *later) Lookup(name []byte) *shards.Route {
	if l.topology == nil {
		now := l.srv.current.Load()
		if now == l.seen {
			return nil
		}
		if l.seen, l.topology = now, l.srv.topology(l.vhost); l.topology == nil {
			return nil
		}
	}
	return l.topology.Lookup(name)
}

// zapLogger is zap as package shards wants it.
type zapLogger struct{ s *zap.SugaredLogger }

func (l zapLogger) Info(msg string, kv ...any) { l.s.Infow(msg, kv...) }
func (l zapLogger) Warn(msg string, kv ...any) { l.s.Warnw(msg, kv...) }
