package proxy

import (
	"math"
	"net"
	"syscall"
	"time"

	"go.uber.org/zap"
)

const (
	// toldAtOnce is how many clients beyond the limit are told so at the same time. The rest of a flood just finds its connections closed.
	toldAtOnce = 100
	// toldWithin is what each of them has for its part. Silent ones must not keep health checks from being answered.
	toldWithin = 3 * time.Second
	// fullPause is the least time between two lines in the log about clients beyond the limit.
	fullPause = 10 * time.Second
	// ownFiles is how many descriptors are left for the proxy's own connections.
	ownFiles = 256
)

// crowd is what the log has still to be told of clients beyond the limit.
type crowd struct {
	untold int
	last   time.Time // of the last line
}

// room is how many clients the limit on open files allows for: each takes a descriptor, and one more for its connection to a node.
func room() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return math.MaxInt
	}
	all := int(min(files.Cur, math.MaxInt32))
	return max((all-min(all/4, ownFiles))/2, 1)
}

// admit makes a session of a connection, nil if there is no room for it, not even to say so. mu is held.
func (s *server) admit(conn net.Conn, from Listener) *session {
	id := s.nextID.Add(1)
	excess := len(s.sessions)-s.excess >= s.o.MaxConnections
	if excess && s.excess == toldAtOnce {
		return nil
	}
	each := newSession(s, from, conn, id)
	if each.excess = excess; excess {
		s.excess++
	}
	s.sessions[each] = struct{}{}
	return each
}

// leave forgets a session.
func (s *server) leave(each *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, each)
	if each.excess {
		s.excess--
	}
}

// full counts a client that is turned away at the limit. The log gets a line for many: a flood must not become one of lines.
func (s *server) full() {
	s.turnedAway.Add(1)
	s.mu.Lock()
	s.crowd.untold++
	n, now := s.crowd.untold, time.Now()
	due := now.Sub(s.crowd.last) >= fullPause
	if due {
		s.crowd = crowd{last: now}
	}
	s.mu.Unlock()
	if due {
		s.log.Warn("too many connections: clients are turned away", zap.Int("limit", s.o.MaxConnections), zap.Int("turned_away", n))
	}
}
