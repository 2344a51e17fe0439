package dispatch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"reflect"
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
	o        Options
	ctx      context.Context
	applying sync.Mutex // held while jobs are changed, which takes time; before mu
	mu       sync.Mutex
	pools    []*running // in the order of the configuration
}

type running struct {
	*Pool
	configured int // executors, by the configuration
	ctx        context.Context
	start      sync.Once
	end        context.CancelFunc
	done       chan struct{}
}

// New returns a dispatcher without jobs, whose jobs end when ctx does.
func New(ctx context.Context, o Options) *Dispatcher { return &Dispatcher{o: o, ctx: ctx} }

// Apply has the dispatcher work on exactly these jobs. Jobs that are as before go on undisturbed, also with another
// number of executors; those that have changed or are gone end in order first, which takes the drain time at most. An
// error changes nothing.
func (d *Dispatcher) Apply(jobs []*Job) error {
	d.applying.Lock()
	defer d.applying.Unlock()
	former := d.list()
	next := make([]*running, len(jobs))
	for i, job := range jobs {
		if j := slices.IndexFunc(former, func(r *running) bool { return r != nil && r.same(job) }); j >= 0 {
			next[i], former[j] = former[j], nil
			continue
		}
		r, err := d.prepare(job)
		if err != nil {
			return err
		}
		if j := slices.IndexFunc(former, func(r *running) bool { return r != nil && r.called(job) }); j >= 0 {
			r.inherit(former[j])
		}
		next[i] = r
	}
	former = slices.DeleteFunc(former, func(r *running) bool { return r == nil })
	for _, r := range former {
		r.end()
	}
	for _, r := range former {
		<-r.done
	}
	d.mu.Lock()
	d.pools = next
	d.mu.Unlock()
	for i, r := range next {
		if r.job != jobs[i] && r.configured != jobs[i].Executors {
			r.scale(jobs[i].Executors)
			r.configured = jobs[i].Executors
		}
		r.start.Do(func() { go r.run() })
	}
	return nil
}

// prepare makes what a job needs, and starts nothing yet.
func (d *Dispatcher) prepare(job *Job) (*running, error) {
	ask, err := d.o.Endpoint(job)
	if err != nil {
		return nil, fmt.Errorf("job %q: %w", job.Name, err)
	}
	conf, err := d.o.TLS(job.Server)
	if err != nil {
		return nil, fmt.Errorf("server %q: %w", job.Server.Name, err)
	}
	r := &running{Pool: NewPool(job, ask, conf, d.o.Drain, d.o.Log), configured: job.Executors, done: make(chan struct{})}
	r.ctx, r.end = context.WithCancel(d.ctx)
	return r, nil
}

func (r *running) run() {
	defer close(r.done)
	defer r.end()
	r.Run(r.ctx)
	if c, ok := r.ask.(interface{ Close() }); ok {
		c.Close()
	}
}

// called reports whether a job is the one that runs, changed or not.
func (r *running) called(job *Job) bool {
	return r.job.Name == job.Name && r.job.Server.Name == job.Server.Name
}

// inherit has a job that has not begun go on with what was set live of the one that it replaces, as far as the
// configuration says nothing new of that.
func (r *running) inherit(former *running) {
	former.mu.Lock()
	paused, want := former.paused, former.want
	former.mu.Unlock()
	if r.job.Paused == former.job.Paused {
		r.paused = paused
	}
	if r.job.Auto == nil && former.job.Auto == nil && r.configured == former.configured {
		r.want = want
	}
}

// same reports whether a job is the one that runs, save for the number of executors.
func (r *running) same(job *Job) bool {
	a, b := *r.job, *job
	if a.Auto == nil {
		a.Executors, b.Executors = 0, 0
	}
	return reflect.DeepEqual(a, b)
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
func (d *Dispatcher) Desk(ctx context.Context, name string) (*Desk, error) {
	p, err := d.Job(name)
	if err != nil {
		return nil, err
	}
	return OpenDesk(ctx, p.job, p.tls)
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
