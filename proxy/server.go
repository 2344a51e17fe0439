package proxy

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/shardmq/shardmq/router"
	"github.com/shardmq/shardmq/shards"
	"github.com/shardmq/shardmq/shards/control"
)

// countsMaxAge is how old message counts may be that only steer the rotation of attachments.
const countsMaxAge = 150 * time.Millisecond

// server is a running proxy.
type server struct {
	o         Options
	log       *zap.Logger
	tagPrefix string
	nodes     []*node

	mu       sync.Mutex // a leaf: nothing else is locked under it
	sessions map[*session]struct{}
	vhosts   map[string]*shards.Topology
	closing  bool

	running sync.WaitGroup // sessions
	nextID  atomic.Uint64
}

// node is an upstream node and how many clients are connected to it.
type node struct {
	Node
	clients atomic.Int64
	avoid   atomic.Int64 // until when others are tried first, Unix nanoseconds
}

// Run serves until ctx is cancelled, then drains: it stops accepting, sends every client connection.close 320, and
// cuts those that are still there after the drain time. It returns nil after a clean stop, *ListenError when an address
// cannot be listened on.
func Run(ctx context.Context, o Options) error {
	if len(o.Nodes) == 0 {
		return errors.New("no upstream node configured")
	}
	return newServer(o).run(ctx)
}

func newServer(o Options) *server {
	o.defaults()
	s := &server{o: o, log: o.Log, sessions: map[*session]struct{}{}, vhosts: map[string]*shards.Topology{}}
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails
	s.tagPrefix = "shardmq-" + hex.EncodeToString(random[:]) + "-"
	for _, n := range o.Nodes {
		s.nodes = append(s.nodes, &node{Node: n})
	}
	return s
}

func (s *server) run(ctx context.Context) error {
	listeners, err := listen(ctx, s.o.Listeners)
	if err != nil {
		return err
	}
	for _, p := range s.o.Policies.All() {
		s.topology(p.Vhost).Start(ctx)
	}
	var accepting sync.WaitGroup
	addrs := make([]net.Addr, len(listeners))
	for i, l := range listeners {
		addrs[i] = l.Addr()
		accepting.Go(func() { s.accept(ctx, l) })
	}
	if s.o.Ready != nil {
		s.o.Ready(addrs)
	}
	<-ctx.Done()
	for _, l := range listeners {
		_ = l.Close()
	}
	accepting.Wait()
	s.drain()
	return s.closeTopologies()
}

// drain tells every client that the proxy goes, and waits for them, but not for ever.
func (s *server) drain() {
	s.mu.Lock()
	s.closing = true
	open := make([]*session, 0, len(s.sessions))
	for each := range s.sessions {
		open = append(open, each)
	}
	s.mu.Unlock()
	s.log.Info("draining", zap.Int("connections", len(open)), zap.Duration("at_most", s.o.DrainTimeout))
	for _, each := range open {
		each.goAway()
	}
	timer := time.AfterFunc(s.o.DrainTimeout, func() {
		for _, each := range open {
			each.cut(errDrained)
		}
	})
	s.running.Wait()
	timer.Stop()
}

func (s *server) closeTopologies() error {
	s.mu.Lock()
	vhosts := s.vhosts
	s.vhosts = nil
	s.mu.Unlock()
	for _, t := range vhosts {
		if err := t.Close(); err != nil {
			s.log.Debug("control connection closed badly", zap.Error(err))
		}
	}
	return nil
}

// topology returns the topology of a virtual host, nil when no policy concerns it.
func (s *server) topology(vhost string) *shards.Topology {
	if len(s.o.Policies.ForVhost(vhost)) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.vhosts[vhost]; t != nil || s.vhosts == nil {
		return t
	}
	log := zapLogger{s.log.Sugar()}
	brokers := make([]shards.Broker, len(s.nodes))
	for i, n := range s.nodes {
		brokers[i] = control.New(control.Options{Node: n.Name, Address: n.Address, Vhost: vhost,
			Username: s.o.ControlUsername, Password: s.o.ControlPassword, ConnectTimeout: s.o.DialTimeout, Log: log})
	}
	t := shards.NewTopology(vhost, s.o.Policies, brokers, log)
	s.vhosts[vhost] = t
	return t
}

// open gives the router its directory; a nil *Topology must not become a non-nil interface.
func (s *server) open(vhost string) router.Directory {
	if t := s.topology(vhost); t != nil {
		return t
	}
	return nil
}

func serverTag() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(random[:])
}

// zapLogger is zap as package shards wants it.
type zapLogger struct{ s *zap.SugaredLogger }

func (l zapLogger) Info(msg string, kv ...any) { l.s.Infow(msg, kv...) }
func (l zapLogger) Warn(msg string, kv ...any) { l.s.Warnw(msg, kv...) }
