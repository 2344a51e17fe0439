package coordination

import "time"

func (w *simWorld) setAlarm(on bool) {
	w.alarm = on
	if on {
		w.alarms++
		return
	}
	for _, send := range w.stuck {
		send()
	}
	w.stuck = nil
}

// depose has the broker cancel the leader's consumer, as it does when somebody deletes
// the queue or its node goes down. Others may be elected before the former leader hears
// of it.
func (w *simWorld) depose() {
	p := w.leader
	heard := max(w.some(w.delay), p.electedAt-w.now+time.Millisecond)
	w.disturb("%s loses the lead", p.id)
	p.contends = w.now + heard + time.Millisecond
	w.unlead(p)
	w.after(heard, func() { p.deliver(func() { p.step(func() { p.core.Deposed(w.now) }) }) })
	w.after(heard+2*time.Millisecond, w.elect)
}

func (w *simWorld) kill(p *simProxy) {
	w.disturb("%s is killed", p.id)
	p.dead, p.connected = true, false
	w.detachAll(p)
	w.unlead(p)
}

func (w *simWorld) pause(p *simProxy) {
	w.disturb("%s is paused", p.id)
	w.taint(p.id)
	p.paused, p.pausedAt = true, w.now
	p.session2++
	session := p.session2
	// After two missed heartbeats the broker closes its connections.
	w.after(10*time.Second, func() {
		if p.paused && p.session2 == session && !p.dead {
			w.logf("the broker gives %s up", p.id)
			p.connected, p.timedOut = false, true
			p.session++
			w.detachAll(p)
			w.unlead(p)
		}
	})
}

func (w *simWorld) resume(p *simProxy) {
	w.disturb("%s goes on", p.id)
	p.paused, p.pausedAt = false, w.now
	if p.timedOut {
		p.timedOut = false
		p.clientsGone()
		p.step(func() { p.core.Deposed(w.now); p.core.Disconnected(w.now) })
		w.after(w.some(500), p.connect)
	}
	backlog := p.backlog
	p.backlog = nil
	for _, do := range backlog {
		p.deliver(do)
	}
	w.elect()
}

func (w *simWorld) cut(p *simProxy) {
	if !p.connected {
		return
	}
	w.disturb("%s loses its connection", p.id)
	w.taint(p.id)
	p.connected, p.cutAt = false, w.now
	p.session++
	w.unlead(p)
	p.deliver(func() { p.step(func() { p.core.Deposed(w.now); p.core.Disconnected(w.now) }) })
}
