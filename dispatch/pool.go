package dispatch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/sony/gobreaker/v2"
	"go.uber.org/zap"

	"github.com/shardmq/shardmq/dispatch/target"
)

// Endpoint does jobs. target.Client is one.
type Endpoint interface {
	// Do asks for one job to be done. It returns early if ctx ends.
	Do(ctx context.Context, m *target.Message) target.Outcome
	// DoBatch asks for several to be done with one request.
	DoBatch(ctx context.Context, m []*target.Message) []target.Outcome
}

// Pool runs one job: it keeps its executors at work, over connections that come and go. Run it once; all else is safe
// for concurrent use.
type Pool struct {
	job     *Job
	ask     Endpoint
	tls     *tls.Config // of the connection to the server; nil: the usual
	log     *zap.Logger
	drain   time.Duration // what requests in flight are given at the end
	line    *line
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}] // nil: none
	stats   stats

	changed chan struct{}  // something that steer looks at has changed
	working sync.WaitGroup // workers
	// requests ends requests that are still in flight when the drain time is over.
	requests context.Context
	cut      context.CancelCauseFunc

	mu        sync.Mutex
	want      int // executors, or with a total the most of them
	usable    int // of a total: executors there may be here
	held      int // and leases that this process has
	paused    bool
	stopping  bool
	workers   int
	openUntil time.Time // of the breaker
	heldUntil time.Time // the endpoint asked to be left alone
	// resting are jobs that are kept here for their delay, because others of their keys have to wait for them.
	resting map[*item]*time.Timer
	rungs   rungs

	consumers atomic.Int32 // of the job's queue, at the broker
	connected atomic.Bool

	pace    pace // of the automatic number of executors; these two belong to Run
	seen    Took
	backlog atomic.Int64
}

// errDrained is why requests are given up at the end.
var errDrained = errors.New("the time to finish is over")

// NewPool returns a pool for a valid job. drain is how long requests in flight may take once Run is to end.
func NewPool(job *Job, ask Endpoint, tlsConfig *tls.Config, drain time.Duration, log *zap.Logger) *Pool {
	p := &Pool{job: job, ask: ask, tls: tlsConfig, log: log.With(zap.String("job", job.Name)), drain: drain, line: newLine(),
		changed: make(chan struct{}, 1), want: job.Executors, paused: job.Paused, resting: map[*item]*time.Timer{}}
	p.backlog.Store(-1)
	p.requests, p.cut = context.WithCancelCause(context.Background())
	if job.Breaker.Failures > 0 {
		p.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
			Name: job.Name, Timeout: job.Breaker.Open, OnStateChange: p.breakerChanged,
			IsExcluded:  func(err error) bool { return errors.Is(err, errNothingLearnt) },
			ReadyToTrip: func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= job.Breaker.Failures },
		})
	}
	return p
}

// Run works until ctx ends, and then until what is in flight is done, but no longer than the drain time. A broker that
// is not there is waited for.
func (p *Pool) Run(ctx context.Context) {
	p.setWorkers()
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 100*time.Millisecond, 5*time.Second
	told := ""
	for ctx.Err() == nil {
		s, err := connect(ctx, p.job, p.tls)
		if err == nil {
			p.log.Info("connected", zap.String("server", p.job.Server.Name))
			began := time.Now()
			p.connected.Store(true)
			err = p.serve(ctx, s)
			p.connected.Store(false)
			if time.Since(began) > wait.MaxInterval { // it was of use
				wait.Reset()
				told = ""
			}
		}
		if ctx.Err() != nil {
			break
		}
		if said := err.Error(); said != told { // once, however long it lasts
			p.log.Warn("no jobs are fetched; trying again until it works", zap.Error(err))
			told = said
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait.NextBackOff()):
		}
	}
	p.finish(nil)
}

// serve keeps the session's consumers as they should be until it ends or ctx does, and returns why it ended.
func (p *Pool) serve(ctx context.Context, s *session) error {
	defer p.consumers.Store(0)
	defer p.backlog.Store(-1)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	p.look(s)
	lessee := p.lessee(s)
	defer lessee.end()
	for {
		next, err := p.steer(s)
		if err != nil {
			s.end(err)
		}
		p.consumers.Store(int32(len(s.consumers)))
		timer := time.NewTimer(next)
		select {
		case <-look.C:
			p.look(s)
			p.adjust()
		case <-ctx.Done():
			timer.Stop()
			p.finish(s)
			return nil
		case <-s.gone:
			timer.Stop()
			s.close()
			return s.why
		case tag, is := <-s.cancelled:
			p.cancelled(s, tag, is)
		case <-lessee.next.C:
			lessee.look()
		case <-p.changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// cancelled notes that the broker has cancelled a consumer, or, if it is none, that it will not any more.
func (p *Pool) cancelled(s *session, tag string, is bool) {
	switch {
	case !is:
		s.cancelled = nil
	case tag == s.due: // it is declared again, and nothing in hand is done twice for it
		p.log.Warn("the broker cancelled a consumer, as it does when the queue is deleted; it is declared again", zap.String("queue", p.job.dueQueue()))
		s.forget(p.job.dueQueue())
		s.due, s.dueFor = "", 0
	case slices.Contains(s.consumers, tag), strings.HasPrefix(tag, leaseTag): // what is missing is found out, or declared, by starting over
		s.end(fmt.Errorf("a consumer of queue %q was cancelled by the broker, as it does when the queue is deleted", p.queueOf(tag)))
	}
}

// kick has steer look again.
func (p *Pool) kick() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Scale sets the number of executors, from 0 to MaxExecutors.
func (p *Pool) Scale(n int) error {
	if p.job.Auto != nil {
		return fmt.Errorf("job %q has its executors set automatically, from %d to %d; take auto out of its configuration to set them by hand",
			p.job.Name, p.job.Auto.Min, p.job.Auto.Max)
	}
	if n < 0 || n > MaxExecutors {
		return fmt.Errorf("job %q cannot have %d executors; give a number from 0 to %d", p.job.Name, n, MaxExecutors)
	}
	p.scale(n)
	return nil
}

func (p *Pool) scale(n int) {
	p.mu.Lock()
	p.want = n
	p.mu.Unlock()
	p.setWorkers()
	p.kick()
}

// Pause stops fetching jobs, or goes on with it. Requests in flight are finished; jobs not yet begun go back.
func (p *Pool) Pause(paused bool) {
	p.mu.Lock()
	p.paused = paused
	p.mu.Unlock()
	p.kick()
}

// setWorkers has as many workers as there may be executors. One that has a job in hand finishes it.
func (p *Pool) setWorkers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping {
		return
	}
	n := p.executors()
	for p.workers > n {
		p.workers--
		p.line.dismiss(1)
	}
	missing := n - p.workers
	missing -= p.line.keep(missing)
	p.workers = n
	for range missing {
		p.working.Go(p.work)
	}
}

// finish ends the pool: what has not begun goes back, what is in flight is waited for. s is nil if there is no session.
func (p *Pool) finish(s *session) {
	p.mu.Lock()
	p.stopping = true
	p.mu.Unlock()
	over := time.AfterFunc(p.drain, func() {
		p.cut(errDrained)
		if s != nil {
			s.stopPublishing((*connection).hangUp)
		}
	})
	if s != nil {
		late := time.AfterFunc(p.drain+closeTimeout, s.conn.hangUp) // the broker says nothing at all
		defer late.Stop()
		s.cancelAll(p.log)
		p.consumers.Store(0)
	}
	p.giveBack(p.line.close())
	p.working.Wait()
	over.Stop()
	p.giveBack(p.atRest()) // put to rest meanwhile
	if s != nil {
		s.close()
	}
	p.cut(context.Canceled)
}

// headerReturned is how often a quorum queue has had a job back. From RabbitMQ 4.0 on it drops one that it had back 20
// times, of whatever kind; so one that was there so often as mayReturn goes by a queue of ours instead.
const (
	headerReturned = "x-delivery-count"
	mayReturn      = 5
)

// giveBack returns jobs to their queues.
func (p *Pool) giveBack(items []*item) {
	for _, it := range append(items, p.atRest()...) {
		if number(it.delivery.Headers, headerReturned) >= mayReturn && !p.job.Order.By() {
			p.working.Go(func() { p.postpone(it, ShortestDelay) })
			continue
		}
		_ = it.delivery.Nack(false, true) // where the session is gone they are back already
		p.line.finish(it)
	}
}

// atRest takes all jobs that wait here for their delay.
func (p *Pool) atRest() (items []*item) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for it, timer := range p.resting {
		timer.Stop() // one that is over finds nothing to do
		items = append(items, it)
		delete(p.resting, it)
	}
	return items
}
