package discovery

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"
)

// Defaults of WatcherOptions.
const (
	DefaultInterval = 10 * time.Second
	DefaultTimeout  = 5 * time.Second
)

// goodAnswers is how many answers in a row, each of them without error and with
// some node in it, it takes for a node that is in none of them to be gone.
const goodAnswers = 3

// errEmpty is what an answer without nodes counts as.
var errEmpty = errors.New("the answer names no node")

// Logger is what a Watcher needs of a logger; kv are alternating keys and values.
type Logger interface {
	Info(msg string, kv ...any)
	Warn(msg string, kv ...any)
}

// WatcherOptions configure a Watcher. The zero value of a field means its
// default.
type WatcherOptions struct {
	Source   Source
	Interval time.Duration // between the end of one question and the next; ±10 %
	Timeout  time.Duration // for an answer
	// OnChange is given all nodes, in name order, after each change, the first
	// answer included. It is called from Run.
	OnChange func([]Node)
	// Jitter returns a number in [0, 1); default a random one.
	Jitter func() float64
	Log    Logger // default none
}

// Watcher keeps track of what a Source tells. A node counts from the first answer
// on that has it, and until three good answers in a row are without it: an answer
// that fails, or has no node at all, says more about the source than about the
// nodes.
type Watcher struct {
	o       WatcherOptions
	nodes   []Node         // in name order
	missing map[string]int // good answers in a row without the node, by key
	problem string         // what was logged last
}

// NewWatcher returns a watcher that knows no node yet.
func NewWatcher(o WatcherOptions) *Watcher {
	if o.Interval <= 0 {
		o.Interval = DefaultInterval
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	return &Watcher{o: o, missing: make(map[string]int)}
}

// Run asks at once, then at every interval, until ctx ends. It is called once.
// The first answer, or its failure, has been dealt with before started is closed;
// nil = nobody waits for that.
func (w *Watcher) Run(ctx context.Context, started chan<- struct{}) {
	w.look(ctx)
	if started != nil {
		close(started)
	}
	for {
		timer := time.NewTimer(w.pause())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		w.look(ctx)
	}
}

// pause is the interval, ±10 %: proxies that start together do not ask together.
func (w *Watcher) pause() time.Duration {
	return time.Duration(float64(w.o.Interval) * (0.9 + 0.2*w.o.Jitter()))
}

// look asks once.
func (w *Watcher) look(ctx context.Context) {
	asked, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	answer, err := w.o.Source.Nodes(asked)
	if err == nil && len(answer) == 0 {
		err = errEmpty
	}
	if ctx.Err() != nil {
		return
	}
	if !w.well(err) {
		return
	}
	nodes := w.merge(w.addressed(sorted(answer)))
	if slices.Equal(nodes, w.nodes) {
		return
	}
	w.tell(nodes)
	w.nodes = nodes
	if w.o.OnChange != nil {
		w.o.OnChange(slices.Clone(nodes))
	}
}

// well reports whether an answer is good, and logs once when that changes.
func (w *Watcher) well(err error) bool {
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	before := w.problem
	w.problem = problem
	if w.o.Log != nil && problem != before {
		if err == nil {
			w.o.Log.Info("node discovery works again")
		} else {
			w.o.Log.Warn("node discovery failed; the nodes known so far stay in use", "error", problem, "nodes", len(w.nodes))
		}
	}
	return err == nil
}

// addressed leaves out nodes whose address the answer cannot tell, unless it is
// known from an earlier one: a member that is down has not gone.
func (w *Watcher) addressed(answer []Node) (out []Node) {
	for _, n := range answer {
		if n.Address == "" {
			i := slices.IndexFunc(w.nodes, func(o Node) bool { return key(o) == key(n) })
			if i < 0 {
				continue
			}
			n = w.nodes[i]
		}
		out = append(out, n)
	}
	return out
}

// merge returns the nodes there are after a good answer.
func (w *Watcher) merge(answer []Node) []Node {
	in := make(map[string]bool, len(answer))
	for _, n := range answer {
		in[key(n)] = true
		delete(w.missing, key(n))
	}
	for _, n := range w.nodes {
		k := key(n)
		if in[k] {
			continue
		}
		if w.missing[k]++; w.missing[k] < goodAnswers {
			answer = append(answer, n)
		} else {
			delete(w.missing, k)
		}
	}
	return sorted(answer)
}

// tell logs what changes.
func (w *Watcher) tell(nodes []Node) {
	if w.o.Log == nil {
		return
	}
	was := make(map[string]Node, len(w.nodes))
	for _, n := range w.nodes {
		was[key(n)] = n
	}
	for _, n := range nodes {
		old, known := was[key(n)]
		delete(was, key(n))
		switch {
		case !known:
			w.o.Log.Info("node discovered", "node", key(n), "address", n.Address)
		case old.Address != n.Address:
			w.o.Log.Info("node has another address", "node", key(n), "address", n.Address, "former", old.Address)
		}
	}
	for _, n := range w.nodes {
		if _, gone := was[key(n)]; gone {
			w.o.Log.Info("node is gone", "node", key(n), "address", n.Address, "answers_without_it", goodAnswers)
		}
	}
}
