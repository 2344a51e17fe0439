package proxy

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/shardmq/shardmq/admin"
	"github.com/shardmq/shardmq/shards/coordination"
)

// serveAdmin serves health checks and metrics, if that is wanted, until stop is called: while the proxy drains, too.
func (s *server) serveAdmin(ctx context.Context) (stop func(), err error) {
	if s.o.Admin == "" {
		return func() {}, nil
	}
	listeners, err := listen(ctx, Listener{Address: s.o.Admin})
	if err != nil {
		return nil, err
	}
	handler, err := admin.Handler(admin.Options{Proxy: s, Jobs: s.o.Jobs, Token: s.o.AdminToken})
	if err != nil {
		closeAll(listeners)
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := admin.Serve(ctx, listeners[0], handler); err != nil {
			s.log.Error("admin listener failed", zap.Error(err))
		}
	})
	s.log.Info("serving health checks and metrics", zap.Stringer("address", listeners[0].Addr()))
	return func() { cancel(); serving.Wait() }, nil
}

// Status implements admin.Source.
func (s *server) Status() admin.Status {
	vhosts, sessions := s.present()
	st := admin.Status{Version: s.o.Version, Connections: sessions, Accepted: s.nextID.Load(), Refused: s.refused.Load(),
		Limit: s.o.MaxConnections, TurnedAway: s.turnedAway.Load(), AcceptErrors: s.acceptErrors.Load()}
	for _, n := range s.upstreams() {
		up, known := connected(vhosts, n)
		st.Nodes = append(st.Nodes, admin.Node{Name: cmp.Or(n.Name, n.Address), Up: up, Known: known, Connections: n.clients.Load()})
	}
	for _, v := range vhosts {
		st.Vhosts = append(st.Vhosts, v.status())
	}
	return st
}

// present returns the topologies there are, by name, and the number of sessions.
func (s *server) present() ([]*vhost, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	vhosts := make([]*vhost, 0, len(s.vhosts))
	for _, v := range s.vhosts {
		vhosts = append(vhosts, v)
	}
	slices.SortFunc(vhosts, func(a, b *vhost) int { return strings.Compare(a.name, b.name) })
	return vhosts, len(s.sessions)
}

func (v *vhost) status() admin.Vhost {
	out := admin.Vhost{Name: v.name, Coordination: v.topology.Status(), Exchanges: v.topology.Snapshot()}
	out.Alone = v.members == nil || errors.Is(v.members.Err(), coordination.ErrNoRights)
	return out
}

// connected reports whether any control connection to a node stands, and whether there is any to be.
func connected(vhosts []*vhost, n *node) (up, known bool) {
	for _, v := range vhosts {
		v.mu.Lock()
		c := v.brokers[n.id()]
		v.mu.Unlock()
		if c != nil {
			known = true
			up = up || c.Connected()
		}
	}
	return up, known
}

// Reachable implements admin.Source. Where there are no control connections, for lack of policies, it looks whether a node accepts
// connections: without a word, so that RabbitMQ's log is spared a broken handshake per check.
func (s *server) Reachable(ctx context.Context) error {
	s.mu.Lock()
	closing := s.closing
	s.mu.Unlock()
	if closing {
		return errGoing
	}
	vhosts, _ := s.present()
	failed := &dialError{}
	for _, n := range s.upstreams() {
		up, known := connected(vhosts, n)
		if up {
			return nil
		}
		if known {
			failed.tried = append(failed.tried, n.Address+": no control connection")
			continue
		}
		conn, err := s.dialControl(ctx, "tcp", n.Address)
		if err == nil {
			_ = conn.Close()
			return nil
		}
		failed.tried = append(failed.tried, n.Address+": "+err.Error())
	}
	if failed.tried == nil {
		failed.tried = []string{noneKnown}
	}
	return failed
}
