package coordination

import (
	"maps"
	"slices"
	"time"
)

// work is what a leader knows of an exchange besides its Entry.
type work struct {
	// goal is who is to consume what; grants follow it as shards are released.
	goal map[consumerKey][]string
	// revoked are queues taken away, and by which version. Until its proxy says that
	// it has applied that one, the consumer may think it still has them.
	revoked map[consumerKey]map[string]uint64
	// since is by which version what is granted was.
	since map[consumerKey]map[string]uint64
	// owner is who had a queue granted last.
	owner map[string]consumerKey
	// waiting: grants are not yet what goal says.
	waiting bool

	// prepared is the generation whose Next the leader has prepared itself.
	prepared uint64
	// relaid is the version since which the layout is the present one.
	relaid uint64
	// routed is when all proxies had gone over to the present generation; 0 = not.
	routed time.Duration
	// due are, per old unbound queue, when it may be closed; closing by which
	// version one was taken from targets.
	due     map[string]time.Duration
	closing map[string]uint64
	// pauses are, per old queue that was closed in vain, how long it is left alone.
	pauses  map[string]time.Duration
	effect  effect
	barrier barrier
	// warned are the proxies that were warned of, by what they differ in.
	warned map[string][]string
	// unreported is since when no proxy reports the exchange; 0 = some does.
	unreported time.Duration
}

// effect is something the topologist does for an exchange; one at a time.
type effect struct {
	id     uint64 // 0 = none under way
	kind   EffectKind
	shards []Shard
	// generation is the layout's it was begun for.
	generation uint64
	backoff    backoff
}

func newWork() *work {
	return &work{
		goal:    make(map[consumerKey][]string),
		revoked: make(map[consumerKey]map[string]uint64),
		since:   make(map[consumerKey]map[string]uint64),
		owner:   make(map[string]consumerKey),
		due:     make(map[string]time.Duration),
		closing: make(map[string]uint64),
		pauses:  make(map[string]time.Duration),
	}
}

func (c *Core) work(exchange string) *work {
	w := c.lead.works[exchange]
	if w == nil {
		w = newWork()
		w.relaid = c.known.Version
		c.lead.works[exchange] = w
	}
	return w
}

// inherit makes a former leader's grants the goal.
func (w *work) inherit(grants Grants) {
	for _, proxy := range sortedKeys(grants) {
		for _, id := range slices.Sorted(maps.Keys(grants[proxy])) {
			k := consumerKey{proxy, id}
			w.goal[k] = grants[proxy][id]
			for _, queue := range grants[proxy][id] {
				w.owner[queue] = k
			}
		}
	}
	w.waiting = true
}

// forget drops all about consumers that are gone with everything they held.
func (w *work) forget(gone func(consumerKey) bool) {
	maps.DeleteFunc(w.goal, func(k consumerKey, _ []string) bool { return gone(k) })
	for _, versions := range []map[consumerKey]map[string]uint64{w.revoked, w.since} {
		maps.DeleteFunc(versions, func(k consumerKey, _ map[string]uint64) bool { return gone(k) })
	}
}

func mark(m map[consumerKey]map[string]uint64, k consumerKey, queue string, version uint64) {
	if m[k] == nil {
		m[k] = make(map[string]uint64)
	}
	m[k][queue] = version
}

func unmark(m map[consumerKey]map[string]uint64, k consumerKey, queue string) {
	delete(m[k], queue)
	if len(m[k]) == 0 {
		delete(m, k)
	}
}

// open lists the exchanges on which something waits for what a proxy has applied
// or released.
func (l *lead) open(proxy string) []string {
	var names []string
	for name, w := range l.works {
		if w.waiting {
			names = append(names, name)
			continue
		}
		for k := range w.revoked {
			if k.proxy == proxy {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

// layoutChanged notes that the layout is another one since a version.
func (w *work) layoutChanged(e *Entry, version uint64) {
	w.routed, w.relaid = 0, version
	if !e.Paused {
		w.barrier = barrier{retry: w.barrier.retry}
	}
	consumed := e.consumed()
	maps.DeleteFunc(w.owner, func(queue string, _ consumerKey) bool { return !hasQueue(consumed, queue) })
	phases := make(map[string]Phase, len(e.Old))
	for _, old := range e.Old {
		phases[old.Queue] = old.Phase
	}
	maps.DeleteFunc(w.due, func(queue string, _ time.Duration) bool { return phases[queue] != Unbound })
	maps.DeleteFunc(w.closing, func(queue string, _ uint64) bool { return phases[queue] != Closing })
	maps.DeleteFunc(w.pauses, func(queue string, _ time.Duration) bool { return phases[queue] != Unbound && phases[queue] != Closing })
}
