package dispatch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Options is what a Dispatcher needs from the outside.
type Options struct {
	// Endpoint makes what asks a job's endpoint.
	Endpoint func(*Job) (Endpoint, error)
	// TLS returns how to connect to a server with amqps://.
	TLS   func(Server) (*tls.Config, error)
	Drain time.Duration // what requests in flight are given at the end
	Log   *zap.Logger
}

// Dispatcher runs jobs. Safe for concurrent use.
type Dispatcher struct {
	o     Options
	ctx   context.Context
	mu    sync.Mutex
	pools []*running // in the order of the configuration
}

type running struct {
	*Pool
	end  context.CancelFunc
	done chan struct{}
}

// New returns a dispatcher without jobs, whose jobs end when ctx does.
func New(ctx context.Context, o Options) *Dispatcher { return &Dispatcher{o: o, ctx: ctx} }

// Start begins to work on further jobs.
func (d *Dispatcher) Start(jobs ...*Job) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, job := range jobs {
		ask, err := d.o.Endpoint(job)
		if err != nil {
			return fmt.Errorf("job %q: %w", job.Name, err)
		}
		conf, err := d.o.TLS(job.Server)
		if err != nil {
			return fmt.Errorf("server %q: %w", job.Server.Name, err)
		}
		ctx, end := context.WithCancel(d.ctx)
		r := &running{Pool: NewPool(job, ask, conf, d.o.Drain, d.o.Log), end: end, done: make(chan struct{})}
		d.pools = append(d.pools, r)
		go func() {
			defer close(r.done)
			defer end()
			r.Run(ctx)
		}()
	}
	return nil
}

// Wait waits until all jobs have ended.
func (d *Dispatcher) Wait() {
	for _, r := range d.list() {
		<-r.done
	}
}

func (d *Dispatcher) list() []*running {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.pools)
}

// Jobs tells how each job stands.
func (d *Dispatcher) Jobs() []Status {
	var all []Status
	for _, r := range d.list() {
		all = append(all, r.Status())
	}
	return all
}

// ErrNoJob is wrapped by errors about a job that is not there.
var ErrNoJob = errors.New("there is no job")

// Scale is Pool.Scale of the job with that name.
func (d *Dispatcher) Scale(name string, executors int) error {
	p, err := d.Job(name)
	if err != nil {
		return err
	}
	return p.Scale(executors)
}

// Pause is Pool.Pause of the job with that name.
func (d *Dispatcher) Pause(name string, paused bool) error {
	p, err := d.Job(name)
	if err != nil {
		return err
	}
	p.Pause(paused)
	return nil
}

// Desk opens the desk of the job with that name.
func (d *Dispatcher) Desk(name string) (*Desk, error) {
	p, err := d.Job(name)
	if err != nil {
		return nil, err
	}
	return OpenDesk(p.job, p.tls)
}

// Job finds a job by its name, or by SERVER/NAME where servers have jobs of the same name.
func (d *Dispatcher) Job(name string) (*Pool, error) {
	var found []*Pool
	for _, r := range d.list() {
		if r.job.Name == name || r.job.Server.Name+"/"+r.job.Name == name {
			found = append(found, r.Pool)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		var names []string
		for _, r := range d.list() {
			names = append(names, r.job.Name)
		}
		return nil, fmt.Errorf("%w %q; there are: %s", ErrNoJob, name, strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("several servers have a job %q; give SERVER/%s, e.g. %s/%s", name, name, found[0].job.Server.Name, name)
}
