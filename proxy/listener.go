package proxy

import (
	"context"
	"errors"
	"net"
	"time"

	"go.uber.org/zap"
)

// Pauses after a failed accept (no descriptors left, usually).
const acceptPauseMin, acceptPauseMax = 5 * time.Millisecond, time.Second

func listen(ctx context.Context, addresses []string) ([]net.Listener, error) {
	var out []net.Listener
	var lc net.ListenConfig
	for _, a := range addresses {
		l, err := lc.Listen(ctx, "tcp", a)
		if err != nil {
			closeAll(out)
			return nil, &ListenError{Address: a, Err: err}
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
func (s *server) accept(ctx context.Context, l net.Listener) {
	pause := acceptPauseMin
	for {
		conn, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
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
		s.start(conn)
	}
}

// start runs a session for the connection in a goroutine of its own, unless the proxy is closing.
func (s *server) start(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		_ = conn.Close()
		return
	}
	each := newSession(s, conn, s.nextID.Add(1))
	s.sessions[each] = struct{}{}
	s.running.Go(func() {
		defer func() {
			s.mu.Lock()
			delete(s.sessions, each)
			s.mu.Unlock()
		}()
		each.serve()
	})
}
