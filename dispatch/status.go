package dispatch

import (
	"maps"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/dispatch/target"
)

// lookEvery is the time between two looks at how many jobs wait in the queues.
const lookEvery = 5 * time.Second

// Status is how a job stands.
type Status struct {
	Name, Server, Queue, URL string
	Connected                bool // to the server
	Paused                   bool
	Executors                int // consumers of the queue at the broker
	Wanted                   int // executors there should be, or with a total the most of them
	Total                    int // executors that all processes may have together; 0 = no limit
	Leases                   int // those of the total that this process has
	InFlight                 int // requests
	Waiting                  int // jobs that are here, without a worker

	Done, Dropped, Dead uint64 // jobs, since the start
	Retried             uint64 // attempts after which a job was put off
	Repeated            uint64 // jobs that come again because the connection broke before they were acknowledged
	Classes             map[target.Class]uint64
	P50, P95, P99       time.Duration // of the last attempts
	Took                Took

	Backlog  int // ready messages in the queue, at the last look; -1 = not known
	Breaker  string
	Held     time.Time // until when the endpoint is left alone; zero = it is not
	Failures []Failure // the last ones, the oldest first
}

// Status tells how the job stands, from what is known here.
func (p *Pool) Status() Status {
	st := Status{Name: p.job.Name, Server: p.job.Server.Name, Queue: p.job.Queue, Total: p.job.Total, URL: target.MaskURL(p.job.Target.URL),
		Connected: p.connected.Load(), Executors: int(p.consumers.Load()), InFlight: int(p.stats.inFlight.Load()), Waiting: p.line.waiting(),
		Done: p.stats.done.Load(), Dropped: p.stats.dropped.Load(), Dead: p.stats.dead.Load(), Retried: p.stats.retried.Load(),
		Repeated: p.stats.repeated.Load(), Backlog: int(p.backlog.Load()), Breaker: "none"}
	if p.breaker != nil {
		st.Breaker = p.breaker.State().String()
	}
	q := p.stats.quantiles(0.5, 0.95, 0.99)
	st.P50, st.P95, st.P99 = q[0], q[1], q[2]
	p.stats.mu.Lock()
	st.Classes, st.Failures, st.Took = maps.Clone(p.stats.classes), slices.Clone(p.stats.failures), p.stats.all
	p.stats.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	st.Paused, st.Wanted, st.Leases = p.paused, p.want, p.held
	if time.Now().Before(p.heldUntil) {
		st.Held = p.heldUntil
	}
	return st
}

// look asks how many jobs wait in the queue.
func (p *Pool) look(s *session) {
	backlog := -1
	_ = s.aside(func(ch *amqp.Channel) error { // where it is not told, it is not known
		q, err := ch.QueueDeclarePassive(p.job.Queue, true, false, false, false, nil)
		if err == nil {
			backlog = q.Messages
		}
		return err
	})
	p.backlog.Store(int64(backlog))
}
