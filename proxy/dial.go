package proxy

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// dialError says that no node could be reached.
type dialError struct{ tried []string }

func (e *dialError) Error() string {
	return "no upstream node reachable: " + strings.Join(e.tried, "; ")
}

// dial connects to the node with the fewest clients, or to the next one when that fails. The dial timeout is shared out, so that a node
// that swallows packets leaves time for the others.
func (s *server) dial(ctx context.Context) (net.Conn, *node, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.DialTimeout)
	defer cancel()
	order := slices.Clone(s.nodes)
	slices.SortStableFunc(order, func(a, b *node) int { return int(a.clients.Load() - b.clients.Load()) })
	deadline, _ := ctx.Deadline()
	failed := &dialError{}
	for i, n := range order {
		share := time.Until(deadline) / time.Duration(len(order)-i)
		d := net.Dialer{Timeout: share, KeepAlive: 15 * time.Second}
		conn, err := d.DialContext(ctx, "tcp", n.Address)
		if err == nil {
			return conn, n, nil
		}
		if ctx.Err() != nil && ctx.Err() != context.DeadlineExceeded {
			return nil, nil, fmt.Errorf("dial %s: %w", n.Address, context.Cause(ctx))
		}
		failed.tried = append(failed.tried, fmt.Sprintf("%s: %v", n.Address, err))
	}
	return nil, nil, failed
}
