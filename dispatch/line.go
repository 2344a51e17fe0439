package dispatch

import (
	"context"
	"slices"
	"sync"
)

// line is where received jobs wait for a worker. With keys, jobs of one key are given out one at a time, in the order
// they came in; a job whose key is in hand waits for it without holding up others. Safe for concurrent use.
type line struct {
	mu    sync.Mutex
	some  sync.Cond // there is something to take, or somebody is to leave
	ready []*item
	// behind holds, for each key in hand, those that wait for it.
	behind map[string][]*item
	leave  int // workers that are to leave
	shut   bool
}

func newLine() *line {
	l := &line{behind: map[string][]*item{}}
	l.some.L = &l.mu
	return l
}

// push adds a job that came in.
func (l *line) push(it *item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if it.keyed {
		if waiting, busy := l.behind[it.key]; busy {
			l.behind[it.key] = append(waiting, it)
			return
		}
		l.behind[it.key] = nil
	}
	l.ready = append(l.ready, it)
	l.some.Signal()
}

// again puts back a job that has been taken and is to be tried again here: the next of its key.
func (l *line) again(it *item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ready = append(l.ready, it)
	l.some.Signal()
}

// finish lets the next of a taken job's key be taken.
func (l *line) finish(it *item) {
	if !it.keyed {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next(it.key)
}

// next makes the next job of a key ready. Called with mu held.
func (l *line) next(key string) {
	waiting := l.behind[key]
	if len(waiting) == 0 {
		delete(l.behind, key)
		return
	}
	l.behind[key] = waiting[1:]
	l.ready = append(l.ready, waiting[0])
	l.some.Signal()
}

// take waits for a job. It returns nil if the worker is to leave.
func (l *line) take() *item {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		switch {
		case l.shut:
			return nil
		case l.leave > 0:
			l.leave--
			return nil
		case len(l.ready) > 0:
			return l.first()
		}
		l.some.Wait()
	}
}

// first takes the first that is ready. Called with mu held, and one ready.
func (l *line) first() *item {
	it := l.ready[0]
	l.ready[0] = nil // for the garbage collector
	l.ready = l.ready[1:]
	if len(l.ready) == 0 {
		l.ready = nil
	}
	return it
}

// takeMore takes a further job, for as long as ctx lets it wait, or returns nil.
func (l *line) takeMore(ctx context.Context) *item {
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.some.Broadcast()
	})
	defer stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.shut && ctx.Err() == nil {
		if len(l.ready) > 0 {
			return l.first()
		}
		l.some.Wait()
	}
	return nil
}

// dismiss has n workers leave as soon as each has nothing in hand.
func (l *line) dismiss(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave += n
	l.some.Broadcast()
}

// keep takes back up to n dismissals that nobody has followed yet, and returns how many.
func (l *line) keep(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = min(n, l.leave)
	l.leave -= n
	return n
}

// leaving is how many workers have been dismissed and are still here.
func (l *line) leaving() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leave
}

// close has all workers leave, and returns what waits, in the order it came in for each key.
func (l *line) close() []*item {
	l.mu.Lock()
	l.shut = true
	l.mu.Unlock()
	l.some.Broadcast()
	return l.remove(func(*item) bool { return true })
}

// remove takes out the jobs that wait and fit, and returns them.
func (l *line) remove(fits func(*item) bool) (out []*item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sift := func(list []*item) []*item {
		return slices.DeleteFunc(list, func(it *item) bool {
			if fits(it) {
				out = append(out, it)
				return true
			}
			return false
		})
	}
	for key, waiting := range l.behind {
		l.behind[key] = sift(waiting)
	}
	kept := len(out)
	l.ready = sift(l.ready)
	for _, it := range out[kept:] { // these had their keys
		if it.keyed {
			l.next(it.key)
		}
	}
	return out
}

// waiting is how many jobs wait for a worker or for their key.
func (l *line) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.ready)
	for _, w := range l.behind {
		n += len(w)
	}
	return n
}
