package proxy

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/shardmq/shardmq/router"
	"github.com/shardmq/shardmq/shards"
)

const (
	askTimeout  = 10 * time.Second
	tickEvery   = 5 * time.Second
	rotateEvery = 200 * time.Millisecond

	// lendEvery is how often idle consumers look whether they can help out, lendSeldom the same while nothing waits anywhere, and lendMaxAge how old
	// the counts may be that they go by: two looks are two readings.
	lendEvery  = time.Second
	lendSeldom = 2 * time.Second
	lendMaxAge = 500 * time.Millisecond

	// lateRelease is how long a broker may take to requeue what a lost connection had not acknowledged.
	lateRelease = time.Second
)

// runAsks sees to the router's questions. mu is held; whatever may take time runs in a goroutine of its own. What members are told they are told
// here and in order, before the frames go out that it is about: the consumers' group must not grant a shard to others that is being consumed.
func (s *session) runAsks(asks []router.Ask) {
	for _, a := range asks {
		if a.Late {
			time.AfterFunc(lateRelease, func() { a.TellMember() })
			continue
		}
		if a.TellMember() {
			continue
		}
		switch a.Kind {
		case router.AskUnsettled:
			if t := s.srv.topology(a.Exchange.Vhost); t != nil {
				t.Unsettled(a.Exchange, a.Queue, a.Delta)
			}
		case router.AskFenced:
			s.fenced(a.Fence)
		case router.AskLog:
			s.log.Warn("finding", zap.String("exchange", a.Exchange.Name), zap.String("text", a.Text))
		default:
			s.help(func() { s.ask(a) })
		}
	}
}

// ask answers one question.
func (s *session) ask(a router.Ask) {
	ctx, cancel := s.ctx, context.CancelFunc(func() {})
	if a.Kind != router.AskOpen { // the topology sees to it that a pause ends
		ctx, cancel = context.WithTimeout(ctx, askTimeout)
	}
	defer cancel()
	r := s.find(ctx, a)
	if r.Err != nil && s.ctx.Err() == nil {
		s.logRefusal(a, r.Err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rt.Answer(a, r)
	s.after(nil)
}

func (s *session) find(ctx context.Context, a router.Ask) (r router.Answer) {
	t := s.srv.topology(a.Exchange.Vhost)
	if t == nil {
		return router.Answer{Err: errors.New("the proxy is shutting down")}
	}
	r.Node = s.node.Name
	switch a.Kind {
	case router.AskResolve:
		r.State, r.Err = t.Resolve(ctx, a.Exchange, a.Force)
	case router.AskBindWords:
		r.Err = t.BindWords(ctx, a.Exchange, a.Words)
	case router.AskPrepareDeclare:
		r.Plan, r.Err = t.PrepareDeclare(ctx, a.Exchange, a.Spec)
	case router.AskForget:
		t.Forget(ctx, a.Exchange)
	case router.AskCounts:
		r.State, r.Counts, r.Err = t.Census(ctx, a.Exchange)
	case router.AskOpen:
		r.Err = t.AwaitOpen(ctx, a.Exchange)
	case router.AskJoin:
		s.join(ctx, t, a, &r)
	}
	return r
}

// joinMaxAge is how old the counts may be that tell a new consumer which shards are there: a thousand consumers that come one after the other
// must not count all shards a thousand times.
const joinMaxAge = 250 * time.Millisecond

// join makes a client's consumer a member of its exchange's group.
func (s *session) join(ctx context.Context, t *shards.Topology, a router.Ask, r *router.Answer) {
	if r.State, r.Counts, r.Err = t.RecentCensus(ctx, a.Exchange, joinMaxAge); r.Err != nil || r.State.Set == nil {
		return
	}
	r.Member, r.Target, r.Err = t.Group(a.Exchange).Join(ctx, shards.JoinSpec{
		Node: s.node.Name, Exclusive: a.Exclude, Mode: a.Exchange.Policy().Definition.Consumers,
		Notify: func(to shards.Target) { s.retarget(a.Channel, a.Consumer, to) }})
	if r.Err == nil && r.Target.Ordered {
		// Counts from before the grant do not tell whether a former owner is gone. Without new ones nothing is attached yet.
		state, counts, err := t.Census(ctx, a.Exchange)
		if err != nil {
			counts = nil
		} else {
			r.State = state
		}
		r.Counts = counts
	}
}

// retarget hands a consumer its new target. The group calls it from other sessions' goroutines, so it must not wait here.
func (s *session) retarget(channel uint16, consumer uint64, t shards.Target) {
	go s.aim(channel, consumer, t)
}

// aim is the part of retarget that may wait, for mu and for nothing else. The session does not wait for it: it changes nothing once that has ended.
func (s *session) aim(channel uint16, consumer uint64, t shards.Target) {
	defer s.guard()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	s.rt.Retarget(channel, consumer, t)
	s.after(nil)
}

// logRefusal logs why the topology did not do what a client needed, once per question. What is just the answer to the client's request,
// an exclusive consumer in the way for one, is the client's to report.
func (s *session) logRefusal(a router.Ask, err error) {
	fields := []zap.Field{zap.String("exchange", a.Exchange.Name), zap.String("vhost", a.Exchange.Vhost), zap.Error(err)}
	var be *shards.BrokerError
	if errors.As(err, &be) {
		if be.Right == "" {
			s.log.Debug("request refused", fields...)
			return
		}
		fields = append(fields, zap.String("missing_right", be.Right), zap.String("user", s.srv.o.ControlUsername))
	}
	s.log.Warn("sharded exchange not available", fields...)
}

// keepTime starts the timers that the router's state asks for. mu is held.
func (s *session) keepTime() {
	if s.ctx.Err() != nil {
		return
	}
	if (s.rt.Ops() > 0 || s.waiting) && !s.ticking {
		s.ticking = true
		time.AfterFunc(tickEvery, s.tick)
	}
	if beat := s.rt.Heartbeat(); beat > 0 && s.beats == nil {
		s.beats = s.watch(time.Duration(beat) * s.srv.second)
	}
	if !s.turning && s.rt.HasRotating() {
		s.turning = true
		time.AfterFunc(rotateEvery, s.rotate)
	}
	if !s.lending && s.rt.HasLenders() {
		s.lending = true
		wait := lendEvery
		if s.calm {
			wait = lendSeldom
		}
		time.AfterFunc(wait, s.lend)
	}
}

func (s *session) tick() {
	defer s.guard()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ticking = false
	if s.ctx.Err() == nil {
		s.rt.Tick()
		if s.waiting {
			s.rt.Beat()
		}
		s.after(nil)
	}
}

// rotate has the consumers looked at that have fewer attachments than shards.
func (s *session) rotate() {
	defer s.guard()
	s.look(s.rt.Rotating, countsMaxAge, s.rt.Rotate)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turning = false
	s.keepTime()
}

// lend has idle consumers look where they can help out.
func (s *session) lend() {
	defer s.guard()
	s.mu.Lock()
	maxAge := lendMaxAge
	if s.calm { // many sessions look, each at its own times: while nothing waits they share readings
		maxAge = lendSeldom - lendMaxAge
	}
	s.mu.Unlock()
	calm := true
	s.look(s.rt.Lenders, maxAge, func(x *shards.Exchange, set *shards.Set, counts []shards.Count) {
		calm = !s.rt.Lend(x, set, counts) && calm
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lending, s.calm = false, calm
	s.keepTime()
}

// look reads the counts of exchanges and hands them to the router. Both functions are called with mu held.
func (s *session) look(which func() []*shards.Exchange, maxAge time.Duration, fn func(*shards.Exchange, *shards.Set, []shards.Count)) {
	ctx, cancel := context.WithTimeout(s.ctx, askTimeout)
	defer cancel()
	s.mu.Lock()
	xs := which()
	s.mu.Unlock()
	for _, x := range xs {
		t := s.srv.topology(x.Vhost)
		if t == nil {
			continue
		}
		set, counts, err := t.RecentCounts(ctx, x, maxAge)
		if err != nil || set == nil || len(counts) != set.Len() {
			continue // the node is away; the next turn sees
		}
		s.seen(fn, x, set, counts)
	}
}

func (s *session) seen(fn func(*shards.Exchange, *shards.Set, []shards.Count), x *shards.Exchange, set *shards.Set, counts []shards.Count) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	fn(x, set, counts)
	s.after(nil)
}
