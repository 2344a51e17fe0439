package coordination

import (
	"errors"
	"slices"
	"time"
)

// simProxy is a proxy in a simWorld: a Core, and in place of consumer groups,
// routers and topology a model of what they promise.
type simProxy struct {
	w    *simWorld
	id   string
	core *Core
	wake time.Duration

	dead, paused, connected, timedOut bool
	pausedAt                          time.Duration // when that last began or ended
	cutAt                             time.Duration // when it lost its connection last
	session, session2                 int
	stuckIn                           int           // the alarm in which it has written something
	contends                          time.Duration // from when it may be elected
	electedAt                         time.Duration // when it heard last that it was
	backlog                           []func()

	want      Spec
	consumers []*simConsumer
	lastID    uint64
	plan      *Plan
	prepared  uint64
	routing   uint64
	routingAt time.Duration // since when it publishes
	routes    []Shard
	pub       simPublisher
}

// simConsumer is a client consumer.
type simConsumer struct {
	id        uint64
	exclusive bool
	left      bool
	window    int      // how many shards it consumes at a time; 0 = all
	target    []string // as the group has it
	aimed     []string // as the router goes by it
	// has are the queues attached or not settled yet; on those attached at the broker.
	has, on map[string]bool
	ended   map[string]time.Duration // by queue: when its attachment ended
	closed  bool
}

const simExchange = "x"

func newSimProxy(w *simWorld, id string, want Spec) *simProxy {
	p := &simProxy{w: w, id: id, core: NewCore(id, false, w.timing), want: want, wake: -1}
	p.core.local.lockable = true
	return p
}

// deliver has the process do something, when it is not paused.
func (p *simProxy) deliver(do func()) {
	switch {
	case p.dead:
	case p.paused:
		p.backlog = append(p.backlog, do)
	default:
		do()
	}
}

// later has the process do something in a while.
func (p *simProxy) later(d time.Duration, do func()) {
	p.w.after(d, func() { p.deliver(do) })
}

func (p *simProxy) connect() {
	p.deliver(func() {
		if p.connected {
			return
		}
		p.connected = true
		p.session++
		p.w.logf("%s is connected", p.id)
		p.w.elect()
		p.step(func() { p.core.Connected(p.w.now) })
	})
}

// step is one entry into the core, as Node makes it.
func (p *simProxy) step(do func()) {
	if p.dead {
		return
	}
	do()
	for range 10 {
		if !p.perform() || p.dead {
			break
		}
		p.core.Own(p.w.now, p.report())
	}
	p.arm()
}

// arm schedules the next tick.
func (p *simProxy) arm() {
	at := max(p.core.Wake(), p.w.now+time.Millisecond)
	if p.wake > p.w.now && p.wake <= at {
		return
	}
	p.wake = at
	p.w.after(at-p.w.now, func() {
		p.deliver(func() {
			if p.wake != at {
				return
			}
			p.wake = -1
			p.core.Own(p.w.now, p.report())
			p.step(func() { p.core.Tick(p.w.now) })
		})
	})
}

// changed is Node.Changed.
func (p *simProxy) changed() {
	p.step(func() {
		r := p.report()
		p.core.OwnExchange(p.w.now, simExchange, r[simExchange], true)
	})
}

func (p *simProxy) perform() (applied bool) {
	for _, out := range p.core.Take() {
		leads := p.w.leader == p && out.Kind != LogOutput
		if leads && p.crashes(true) {
			return false
		}
		applied = p.do(out) || applied
		if leads {
			if p.crashes(false) {
				return false
			}
			p.w.outputs++
		}
	}
	return applied
}

// crashes kills the process if this is the moment.
func (p *simProxy) crashes(before bool) bool {
	if p.w.crashOn == nil || !p.w.crashOn(p.w.outputs, before) {
		return false
	}
	p.w.kill(p)
	return true
}

func (p *simProxy) do(out Output) (applied bool) {
	w := p.w
	switch out.Kind {
	case SendOutput:
		w.broadcast(p, out.Body)
	case StoreOutput:
		p.store(out)
	case ApplyOutput:
		w.applies++
		p.apply(out.Plan)
		return true
	case AliveOutput:
		w.after(w.some(20), func() {
			connected := slices.ContainsFunc(w.proxies, func(o *simProxy) bool { return o.id == out.Proxy && o.connected })
			p.deliver(func() { p.step(func() { p.core.Alive(w.now, out.Proxy, connected, nil) }) })
		})
	case ResignOutput:
		p.contends = w.now + time.Second
		w.unlead(p)
		w.after(p.contends-w.now+time.Millisecond, w.elect)
	case EffectOutput:
		p.effect(out)
	case LockOutput:
		p.lock(out)
	case UnlockOutput:
		p.unlock(out)
	case SeenOutput:
	case LogOutput:
		w.logf("%s: %s %v", p.id, out.Text, out.Fields)
		if out.Text == "publishes go by other shards now, and go on" {
			w.traffic.passed++
		}
		if out.Text == "proxy is gone" {
			w.lost[out.Fields[1].(string)] = w.now
			w.taint(out.Fields[1].(string))
		}
	}
	return false
}

var errSim = errors.New("simulated failure")

func (p *simProxy) store(out Output) {
	w := p.w
	session := p.session
	w.after(w.some(w.delay), func() {
		err := errSim
		if w.leader == p && p.session == session && !w.alarm {
			w.stored, err = out.Body, nil
		}
		w.after(w.some(w.delay), func() {
			p.deliver(func() { p.step(func() { p.core.Stored(w.now, out.ID, err) }) })
		})
	})
}

// effect is the topologist.
func (p *simProxy) effect(out Output) {
	w := p.w
	w.after(w.some(50), func() {
		p.deliver(func() {
			var o Outcome
			switch {
			case !p.core.Awaits(w.now, out.ID, out.Exchange), w.rnd.Float64() < w.failing:
				o.Err = errSim
			case out.Effect == PrepareEffect:
				for _, shard := range out.Shards {
					w.bound[shard.Queue], w.exists[shard.Queue] = true, true
				}
			case out.Effect == RetireEffect:
				w.checkRetire(p, out.Shards)
				for _, shard := range out.Shards {
					w.bound[shard.Queue] = false
				}
			case out.Effect == IdleEffect:
				o.OK = w.rnd.Float64() >= 3*w.failing && len(w.traffic.queues[out.Shards[0].Queue]) == 0
			case out.Effect == LoadsEffect:
				o.Loads = w.loads(out.Shards)
			case out.Effect == RemoveEffect:
				o.OK = w.remove(p, out.Shards[0].Queue)
			case out.Effect == UncoveredEffect:
				for _, shard := range out.Shards {
					if len(w.attached[shard.Queue]) == 0 {
						o.Queues = append(o.Queues, shard.Queue)
					}
				}
			}
			p.step(func() { p.core.Done(w.now, out.ID, out.Exchange, o) })
		})
	})
}

// apply is the participant taking a plan over.
func (p *simProxy) apply(plan *Plan) {
	w := p.w
	former := p.plan
	p.plan = plan
	w.checkPlan(p, plan)
	p.halt(former, plan)
	if former == nil || former.Generation != plan.Generation || !sameShards(former.Set, plan.Set) {
		p.later(w.some(100), func() {
			for _, shard := range p.plan.Set {
				w.bound[shard.Queue], w.exists[shard.Queue] = true, true
			}
			if p.routing == 0 {
				p.routingAt = w.now
			}
			p.routing, p.routes = p.plan.Generation, p.plan.Set
			p.prepared = max(p.prepared, p.plan.Generation)
			p.unhalt()
			p.changed()
		})
	}
	if plan.Next != nil {
		p.later(w.some(100), func() {
			if now := p.plan; now.Next != nil {
				p.prepared = now.Generation + 1
				p.changed()
			}
		})
	}
	for _, c := range p.consumers {
		p.aim(c, plan.Targets[c.id])
	}
}
