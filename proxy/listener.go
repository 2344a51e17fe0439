package proxy

import (
	"context"
	"errors"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/shardmq/shardmq/config/certs"
)

// Pauses after a failed accept (no descriptors left, usually).
const acceptPauseMin, acceptPauseMax = 5 * time.Millisecond, time.Second

// Listener is an address that clients connect to.
type Listener struct {
	Address string      // host:port; port 0 picks a free one
	TLS     *certs.Live // nil: clients speak plain AMQP
	// ProxyProtocol says whose word about clients' addresses is taken; nil: nobody's.
	ProxyProtocol *ProxyProtocol
	Identity      string // of Options.Identities: what everybody here logs in with; "" = see Identity
}

func listen(ctx context.Context, addresses ...Listener) ([]net.Listener, error) {
	var out []net.Listener
	var lc net.ListenConfig
	for _, a := range addresses {
		l, err := lc.Listen(ctx, "tcp", a.Address)
		if err != nil {
			closeAll(out)
			return nil, &ListenError{Address: a.Address, Err: err}
		}
		out = append(out, l)
	}
	return out, nil
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		_ = l.Close()
	}
}

// accept starts a session per connection until the listener is closed.
func (s *server) accept(ctx context.Context, l net.Listener, from Listener) {
	pause := acceptPauseMin
	for {
		conn, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			s.acceptErrors.Add(1)
			s.log.Warn("accept failed", zap.Error(err), zap.Duration("pause", pause))
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, acceptPauseMax)
			continue
		}
		pause = acceptPauseMin
		s.start(conn, from)
	}
}

// start runs a session for the connection in a goroutine of its own, unless the proxy is closing or far beyond its limit. Whatever is said on
// the connection is said there, the TLS handshake included: a client that stalls keeps nobody else from being accepted.
func (s *server) start(conn net.Conn, from Listener) {
	s.mu.Lock()
	var each *session
	closing := s.closing
	if !closing {
		each = s.admit(conn, from)
	}
	if each != nil {
		s.running.Add(1)
		each.over = func() {
			s.leave(each)
			s.running.Done()
		}
		s.crew.start(each.serve)
	}
	s.mu.Unlock()
	if each == nil {
		if !closing {
			s.full()
		}
		_ = conn.Close()
	}
}
