package coordination

import (
	"slices"
	"strconv"
	"time"
)

// simOwnPatience is how long a proxy keeps a pause that no leader ends.
const simOwnPatience = 7 * time.Second

// simTraffic is what is published and consumed in a world with barriers. Every
// proxy publishes to some keys, each message with the next number of its key.
type simTraffic struct {
	queues  map[string][]simMessage
	unacked []simUnacked
	first   map[string]int // per key, the number delivered last for the first time
	// tainted are proxies whose messages may be overtaken: they were away for longer
	// than a leader waits.
	tainted                      map[string]bool
	passed, published, delivered int
}

type simMessage struct {
	from, key   string
	n           int
	redelivered bool
}

// simUnacked is a message that a consumer was given.
type simUnacked struct {
	simMessage
	queue    string
	proxy    *simProxy
	consumer uint64
}

// simPublisher is the publishing side of a proxy.
type simPublisher struct {
	halted  bool // by a pause
	run     int  // numbers its pauses
	fenced  uint64
	onWay   int // messages that are not in their queues yet
	arrival time.Duration
	sent    [3]int // by key
}

// newBarrierWorld is a world where order is kept when shards change.
func newBarrierWorld(w *simWorld) *simWorld {
	w.barrier, w.ordered = true, true
	w.timing.Patience = 3 * time.Second
	w.traffic = simTraffic{queues: make(map[string][]simMessage), first: make(map[string]int), tainted: make(map[string]bool)}
	return w
}

// publishing has the process publish for as long as it lives.
func (p *simProxy) publishing() {
	if !p.w.barrier {
		return
	}
	p.later(20*time.Millisecond+p.w.some(100), func() {
		p.publish()
		p.publishing()
	})
}

func (p *simProxy) publish() {
	w := p.w
	if p.routing == 0 || p.pub.halted || w.alarm {
		return
	}
	k := w.rnd.IntN(len(p.pub.sent))
	p.pub.sent[k]++
	m := simMessage{from: p.id, key: p.id + "/" + strconv.Itoa(k), n: p.pub.sent[k]}
	queue := p.routes[(k+len(p.routes)/2)%len(p.routes)].Queue
	p.pub.onWay++
	wait := w.some(30)
	if w.rnd.IntN(20) == 0 {
		wait = w.some(400) // the broker is busy; less than Grace
	}
	p.pub.arrival = max(p.pub.arrival, w.now+wait)
	w.after(p.pub.arrival-w.now, func() {
		p.pub.onWay--
		if !w.bound[queue] {
			if !w.exempt(p) {
				w.failf("message %d of %s is lost, for %s is not bound", m.n, m.key, queue)
			}
			return
		}
		w.traffic.published++
		w.traffic.queues[queue] = append(w.traffic.queues[queue], m)
	})
}

// halt is the participant's part of a pause.
func (p *simProxy) halt(former, plan *Plan) {
	pub := &p.pub
	if plan.Pause && !(pub.halted && former != nil && former.Pause && former.Generation == plan.Generation) {
		pub.run++
		pub.halted, pub.fenced = true, 0
		run := pub.run
		p.fence(run, plan.Generation+1)
		p.later(simOwnPatience, func() {
			if pub.halted && pub.run == run {
				p.w.logf("%s ends its pause by itself", p.id)
				p.w.traffic.tainted[p.id] = true
				pub.halted, pub.fenced = false, 0
				p.changed()
			}
		})
	}
	p.unhalt()
}

// unhalt ends the pause if the plan has none and publishes go by it.
func (p *simProxy) unhalt() {
	if p.pub.halted && !p.plan.Pause && p.routing == p.plan.Generation {
		p.pub.halted, p.pub.fenced = false, 0
	}
}

// fence waits until what is on its way has arrived.
func (p *simProxy) fence(run int, generation uint64) {
	p.later(p.w.some(60), func() {
		switch {
		case !p.pub.halted || p.pub.run != run:
		case p.pub.onWay > 0:
			p.fence(run, generation)
		default:
			p.pub.fenced = generation
			p.changed()
		}
	})
}

// feed is the broker giving an attached consumer one message after the other.
func (w *simWorld) feed(queue string, p *simProxy, c *simConsumer) {
	if !w.barrier {
		return
	}
	w.after(w.some(20), func() {
		attached := slices.ContainsFunc(w.attached[queue], func(a simAttachment) bool { return a.proxy == p && a.consumer == c.id })
		if !attached {
			return
		}
		if waiting := w.traffic.queues[queue]; len(waiting) > 0 && w.owed(queue, p, c) < 5 {
			w.traffic.queues[queue] = waiting[1:]
			w.give(waiting[0], queue, p, c)
		}
		w.feed(queue, p, c)
	})
}

// give delivers a message; it is settled some time later.
func (w *simWorld) give(m simMessage, queue string, p *simProxy, c *simConsumer) {
	w.traffic.delivered++
	if !m.redelivered {
		if m.n <= w.traffic.first[m.key] && !w.traffic.tainted[m.from] {
			w.failf("message %d of %s comes behind %d", m.n, m.key, w.traffic.first[m.key])
		}
		w.traffic.first[m.key] = max(m.n, w.traffic.first[m.key])
		w.checkSettled(m, queue)
	}
	m.redelivered = true
	given := simUnacked{m, queue, p, c.id}
	w.traffic.unacked = append(w.traffic.unacked, given)
	settle := w.some(20)
	if w.rnd.IntN(100) == 0 {
		settle = w.some(1500)
	}
	p.later(settle, func() {
		w.traffic.unacked = slices.DeleteFunc(w.traffic.unacked, func(u simUnacked) bool { return u == given })
	})
}

// checkSettled: when a message is delivered for the first time no earlier one of its
// key is still out that was in another shard.
func (w *simWorld) checkSettled(m simMessage, queue string) {
	for _, u := range w.traffic.unacked {
		if u.key == m.key && u.n < m.n && u.queue != queue && !w.traffic.tainted[m.from] && !w.exempt(u.proxy) {
			w.failf("message %d of %s is delivered while %d, given to %s/%d from %s, is not settled", m.n, m.key, u.n, u.proxy.id, u.consumer, u.queue)
		}
	}
}

// owed is how many messages of a queue a consumer has.
func (w *simWorld) owed(queue string, p *simProxy, c *simConsumer) (n int) {
	for _, u := range w.traffic.unacked {
		if u.queue == queue && u.proxy == p && u.consumer == c.id {
			n++
		}
	}
	return n
}

// requeue takes back what a proxy's clients have not settled: their connections
// are gone.
func (w *simWorld) requeue(p *simProxy) {
	var kept []simUnacked
	for _, u := range slices.Backward(w.traffic.unacked) {
		if u.proxy == p {
			w.traffic.queues[u.queue] = slices.Insert(w.traffic.queues[u.queue], 0, u.simMessage)
		} else {
			kept = append(kept, u)
		}
	}
	slices.Reverse(kept)
	w.traffic.unacked = kept
}

// taint: what a proxy publishes may be overtaken from now on.
func (w *simWorld) taint(id string) {
	if w.barrier {
		w.traffic.tainted[id] = true
	}
}

func (w *simWorld) loads(shards []Shard) []Load {
	loads := make([]Load, len(shards))
	for i, shard := range shards {
		loads[i] = Load{Ready: uint32(len(w.traffic.queues[shard.Queue])), Consumers: uint32(len(w.attached[shard.Queue]))}
	}
	return loads
}

// checkTraffic: pauses have ended, and everything is consumed.
func (w *simWorld) checkTraffic() {
	for _, p := range w.alive() {
		if p.pub.halted {
			w.failf("%s still pauses", p.id)
		}
	}
	for _, queue := range sortedKeys(w.traffic.queues) {
		if n := len(w.traffic.queues[queue]); n > 100 {
			w.failf("%d messages wait in %s", n, queue)
		}
	}
}
