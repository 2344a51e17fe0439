package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardmq/shardmq/config/certs"
	"github.com/shardmq/shardmq/frames"
)

// avoidFor is how long a node that could not be reached is tried after all others.
const avoidFor = 2 * time.Second

// noneKnown is why no node can be reached before discovery has found one.
const noneKnown = "none is known yet"

// dialError says that no node could be reached.
type dialError struct{ tried []string }

func (e *dialError) Error() string {
	return "no upstream node reachable: " + strings.Join(e.tried, "; ")
}

// dial connects to the preferred node, or to the next one when that fails. The dial timeout is shared out, so that a node
// that swallows packets leaves time for the others. The reader holds the beginning of the broker's connection.start: a forwarder in front
// of a broker that is down accepts all the same, and a broker that hangs does, so a node counts as reached once it has said something.
// The client is counted at the node that is returned.
func (s *server) dial(ctx context.Context, as upstreamAs) (*reader, *node, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.DialTimeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	order := s.choose()
	failed := &dialError{}
	if len(order) == 0 {
		failed.tried = []string{noneKnown}
	}
	for i, n := range order {
		if i > 0 {
			n.clients.Add(1)
		}
		in, err := s.reach(ctx, n, time.Until(deadline)/time.Duration(len(order)-i), as)
		if err == nil {
			return in, n, nil
		}
		n.clients.Add(-1)
		if ctx.Err() != nil && ctx.Err() != context.DeadlineExceeded {
			return nil, nil, fmt.Errorf("dial %s: %w", n.Address, context.Cause(ctx))
		}
		n.avoid.Store(time.Now().Add(avoidFor).UnixNano())
		failed.tried = append(failed.tried, fmt.Sprintf("%s: %v", n.Address, err))
	}
	return nil, nil, failed
}

// choose is preferred, with the client counted at the first node before anybody else chooses: clients that come all at once must not all take
// the node that has the fewest before any of them is through.
func (s *server) choose() []*node {
	s.choosing.Lock()
	defer s.choosing.Unlock()
	order := s.preferred()
	if len(order) > 0 {
		order[0].clients.Add(1)
	}
	return order
}

// preferred lists the nodes in the order they are tried: those that have just failed, or that the control connections have lost, last;
// then as the options prefer, then as listed.
func (s *server) preferred() []*node {
	order := slices.Clone(s.upstreams())
	now := time.Now().UnixNano()
	vhosts, _ := s.present()
	failing := make(map[*node]bool, len(order))
	for _, n := range order {
		up, known := connected(vhosts, n)
		failing[n] = known && !up || n.avoid.Load() > now
	}
	slices.SortStableFunc(order, func(a, b *node) int {
		return cmp.Or(compareBool(failing[a], failing[b]), s.compare(a, b))
	})
	return order
}

// compare orders two nodes as the options prefer.
func (s *server) compare(a, b *node) int {
	byClients := cmp.Compare(a.clients.Load(), b.clients.Load())
	switch s.o.Prefer {
	case ListOrder:
		return 0
	case PreferZone:
		return cmp.Or(compareBool(a.Zone != s.o.Zone, b.Zone != s.o.Zone), byClients)
	}
	return byClients
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// reach connects to the node, sends the protocol header and waits for the first octets of the answer.
func (s *server) reach(ctx context.Context, n *node, timeout time.Duration, as upstreamAs) (*reader, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := s.connect(ctx, n, as)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	in := newReader(conn)
	_, err = conn.Write(frames.ProtocolHeader[:])
	if why := in.fill(0); err == nil || errors.As(why, new(*certs.Fault)) {
		err = why // also if the header came too late to be read: with TLS 1.3 the node says only now what it thinks of a certificate
	}
	if err == nil && in.unread()[0] == tlsAlertRecord {
		as.flags = s.o.Flags
		err = as.answersTLS()
	}
	if !stop() || err != nil {
		in.release()
		_ = conn.Close()
		if err == nil || ctx.Err() != nil {
			err = fmt.Errorf("no answer to the protocol header: %w", ctx.Err())
		}
		return nil, err
	}
	return in, nil
}
