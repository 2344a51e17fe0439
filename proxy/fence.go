package proxy

import (
	"context"

	"github.com/shardmq/shardmq/shards"
)

// fenceWait is a session's part in a fence.
type fenceWait struct {
	channels int // that are not through yet
	done     chan struct{}
}

// fence implements shards.Fencer: it waits until all that was published on the clients' connections so far is in its queues.
// State.Paused is set, so whoever decides on a publish from here on holds it, on connections that are accepted meanwhile too.
func (s *server) fence(ctx context.Context, x *shards.Exchange) error {
	s.mu.Lock()
	open := make([]*session, 0, len(s.sessions))
	for each := range s.sessions {
		open = append(open, each)
	}
	s.mu.Unlock()
	id := s.nextFence.Add(1)
	var waits []<-chan struct{}
	for _, each := range open {
		if done := each.fence(id, x.Vhost); done != nil {
			waits = append(waits, done)
		}
	}
	for _, done := range waits {
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// fence begins a fence on the session's channels; nil when nothing is on its way on any. What is returned is closed in the end, that of the
// session at the latest.
func (s *session) fence(id uint64, vhost string) <-chan struct{} {
	defer s.guard()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rt.Vhost() != vhost {
		return nil
	}
	channels := s.rt.Fence(id)
	if channels == 0 {
		return nil
	}
	w := &fenceWait{channels: channels, done: make(chan struct{})}
	if s.fences == nil {
		s.fences = make(map[uint64]*fenceWait)
	}
	s.fences[id] = w
	s.after(nil)
	return w.done
}

// fenced notes that one channel is through. mu is held.
func (s *session) fenced(id uint64) {
	w := s.fences[id]
	if w == nil {
		return
	}
	if w.channels--; w.channels == 0 {
		delete(s.fences, id)
		close(w.done)
	}
}
