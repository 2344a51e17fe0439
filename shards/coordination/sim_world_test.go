package coordination

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// simWorld is a broker with the proxies on it, in simulated time. One seed makes
// one run, always the same.
type simWorld struct {
	t     *testing.T
	rnd   *rand.Rand
	now   time.Duration
	queue simQueue
	order uint64

	proxies []*simProxy // that ever were, dead ones too
	made    int

	// The broker.
	stored   []byte
	leader   *simProxy
	alarm    bool
	alarms   int      // that there were
	stuck    []func() // what is sent when the alarm ends
	attached map[string][]simAttachment
	locks    map[string]simLock
	bound    map[string]bool
	exists   map[string]bool

	// How messages fare: delayed by how many milliseconds at most, lost how likely;
	// and how likely the topologist fails.
	delay, loss, failing float64

	timing  Timing
	ordered bool
	barrier bool
	windows bool // some consumers take their shards in turns
	away    bool // most troubles are that proxies cannot be heard
	traffic simTraffic
	// quietAt is when the last disturbance was.
	quietAt time.Duration
	// lost is when a leader last gave a proxy up.
	lost    map[string]time.Duration
	applies int
	sets    map[uint64][]Shard // by generation
	// crashOn, when set, says before and after each of the leaders' outputs, which
	// outputs counts, whether the leader dies now.
	crashOn  func(n int, before bool) bool
	outputs  int
	trace    strings.Builder
	failures []string
	removed  int
	switched int
}

// simLock is kept by a proxy's connection.
type simLock struct {
	proxy   *simProxy
	session int
}

type simAttachment struct {
	proxy    *simProxy
	consumer uint64
}

type simEvent struct {
	at    time.Duration
	order uint64
	do    func()
}

type simQueue []simEvent

func (q simQueue) Len() int { return len(q) }
func (q simQueue) Less(i, j int) bool {
	if q[i].at != q[j].at {
		return q[i].at < q[j].at
	}
	return q[i].order < q[j].order
}
func (q simQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *simQueue) Push(e any)   { *q = append(*q, e.(simEvent)) }
func (q *simQueue) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

func newSimWorld(t *testing.T, seed uint64, ordered bool) *simWorld {
	return &simWorld{
		t: t, rnd: rand.New(rand.NewPCG(seed, 1)), ordered: ordered, delay: 10, failing: 0.1,
		attached: make(map[string][]simAttachment), locks: make(map[string]simLock), bound: make(map[string]bool), exists: make(map[string]bool),
		lost: make(map[string]time.Duration), sets: make(map[uint64][]Shard),
		timing: Timing{Grace: 500 * time.Millisecond, Drain: 2 * time.Second},
	}
}

// after schedules do.
func (w *simWorld) after(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.queue, simEvent{w.now + d, w.order, do})
}

// run plays until a time.
func (w *simWorld) run(until time.Duration) {
	for len(w.queue) > 0 && w.queue[0].at <= until {
		e := heap.Pop(&w.queue).(simEvent)
		w.now = e.at
		e.do()
	}
	w.now = until
}

// some returns a random time up to most milliseconds.
func (w *simWorld) some(most float64) time.Duration {
	return time.Duration(w.rnd.Float64() * most * float64(time.Millisecond))
}

func (w *simWorld) logf(format string, args ...any) {
	fmt.Fprintf(&w.trace, "%8.3f %s\n", w.now.Seconds(), fmt.Sprintf(format, args...))
}

func (w *simWorld) failf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.logf("FAILED %s", text)
	w.failures = append(w.failures, fmt.Sprintf("%.3f: %s", w.now.Seconds(), text))
}

// disturb notes that something was done to the world.
func (w *simWorld) disturb(format string, args ...any) {
	w.quietAt = w.now
	w.logf(format, args...)
}

// alive returns the proxies whose processes exist.
func (w *simWorld) alive() []*simProxy {
	var alive []*simProxy
	for _, p := range w.proxies {
		if !p.dead {
			alive = append(alive, p)
		}
	}
	return alive
}

// broadcast is the fanout.
func (w *simWorld) broadcast(from *simProxy, body []byte) {
	if !from.connected {
		return
	}
	if w.alarm {
		// What is written before the broker has said that it takes nothing waits in its
		// socket until it does.
		if from.stuckIn != w.alarms && w.rnd.IntN(2) == 0 {
			session := from.session
			w.stuck = append(w.stuck, func() {
				if from.session == session {
					w.broadcast(from, body)
				}
			})
		}
		from.stuckIn = w.alarms
		return
	}
	m, err := DecodeMessage(body)
	if err != nil {
		w.failf("own message: %v", err)
		return
	}
	for _, p := range w.alive() {
		if !p.connected || w.rnd.Float64() < w.loss {
			continue
		}
		session := p.session
		w.after(w.some(w.delay), func() {
			p.deliver(func() {
				if p.connected && p.session == session {
					p.step(func() {
						if p.core.WantsReport(w.now, m) {
							p.core.Own(w.now, p.report())
						}
						p.core.Receive(w.now, m)
					})
				}
			})
		})
	}
}

// elect has some proxy become the leader shortly, if there is none.
func (w *simWorld) elect() {
	w.after(5*time.Millisecond+w.some(50), func() {
		if w.leader != nil {
			return
		}
		var able []*simProxy
		for _, p := range w.alive() {
			if p.connected && !p.paused && w.now >= p.contends {
				able = append(able, p)
			}
		}
		if len(able) == 0 {
			return
		}
		p := able[w.rnd.IntN(len(able))]
		w.leader = p
		stored := w.stored
		session := p.session
		heard := w.some(w.delay)
		p.electedAt = w.now + heard
		w.after(heard, func() {
			p.deliver(func() {
				if p.session != session {
					return
				}
				var state *State
				if stored != nil {
					state, _ = DecodeState(stored)
				}
				p.step(func() { p.core.Elected(w.now, state) })
			})
		})
	})
}

// unlead takes the lead from a proxy, if it has it.
func (w *simWorld) unlead(p *simProxy) {
	if w.leader == p {
		w.leader = nil
		w.elect()
	}
}

func (w *simWorld) attach(queue string, p *simProxy, consumer uint64) {
	w.attached[queue] = append(w.attached[queue], simAttachment{p, consumer})
}

func (w *simWorld) detach(queue string, p *simProxy, consumer uint64) {
	w.attached[queue] = slices.DeleteFunc(w.attached[queue], func(a simAttachment) bool {
		return a.proxy == p && a.consumer == consumer
	})
}

// detachAll is what the broker does when a proxy's connections are gone.
func (w *simWorld) detachAll(p *simProxy) {
	for queue := range w.attached {
		w.attached[queue] = slices.DeleteFunc(w.attached[queue], func(a simAttachment) bool { return a.proxy == p })
	}
	w.requeue(p)
}

// start starts a proxy process with a configuration.
func (w *simWorld) start(want Spec) *simProxy {
	w.made++
	p := newSimProxy(w, fmt.Sprintf("p%02d", w.made), want)
	w.proxies = append(w.proxies, p)
	w.disturb("%s starts with %d shards", p.id, len(want.Shards))
	p.connect()
	p.publishing()
	return p
}
