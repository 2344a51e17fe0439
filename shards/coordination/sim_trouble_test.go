package coordination

func (w *simWorld) randomProxy() *simProxy {
	alive := w.alive()
	if len(alive) == 0 {
		return nil
	}
	return alive[w.rnd.IntN(len(alive))]
}

func (w *simWorld) randomJoin() {
	if p := w.randomProxy(); p != nil && !p.paused {
		p.join(w.rnd.IntN(40) == 0)
	}
}

// trouble does something to the world.
func (w *simWorld) trouble(want *Spec) {
	p := w.randomProxy()
	if p == nil {
		w.start(*want)
		return
	}
	if w.barrier && w.rnd.IntN(4) == 0 {
		w.reload(want)
		return
	}
	kind := w.rnd.IntN(18)
	if w.away { // proxies that are alive and yet not there
		kind = []int{0, 3, 7, 7, 8, 9, 9, 10, 10, 11, 15}[w.rnd.IntN(11)]
	}
	switch kind {
	case 0, 1, 2:
		w.randomJoin()
	case 3, 4:
		if len(p.consumers) > 0 && !p.paused {
			if c := p.consumers[w.rnd.IntN(len(p.consumers))]; !c.left {
				p.leave(c)
			}
		}
	case 5:
		w.kill(p)
	case 6:
		if w.leader != nil {
			w.kill(w.leader)
		}
	case 7:
		if !p.paused {
			w.pause(p)
			if session := p.session2; w.rnd.IntN(2) == 0 { // for no longer than a leader waits, or hardly
				w.after(w.some(5000), func() {
					if p.paused && p.session2 == session && !p.dead {
						w.resume(p)
					}
				})
			}
		}
	case 8:
		for _, p := range w.alive() {
			if p.paused {
				w.resume(p)
			}
		}
	case 9:
		if !p.paused {
			w.cut(p)
			w.after(w.some(4000), p.connect)
		}
	case 10:
		w.setAlarm(!w.alarm)
		w.disturb("alarm %v", w.alarm)
	case 11:
		w.loss = []float64{0, 0.05, 0.3}[w.rnd.IntN(3)]
		w.delay = []float64{5, 20, 400, 1500}[w.rnd.IntN(4)]
		w.disturb("%.2f of messages are lost, delays up to %v ms", w.loss, w.delay)
	case 12:
		w.reload(want)
	case 13, 14:
		w.burst()
	case 15:
		for range 1 + w.rnd.IntN(3) {
			w.after(w.some(1500), func() {
				if w.leader != nil {
					w.depose()
				}
			})
		}
	default:
		if len(w.alive()) < 5 {
			w.start(*want)
		}
	}
}

// burst has consumers come and go faster than messages do.
func (w *simWorld) burst() {
	for range 6 {
		w.after(w.some(500), func() {
			p := w.randomProxy()
			if p == nil || p.paused {
				return
			}
			if n := len(p.consumers); n > 0 && w.rnd.IntN(2) == 0 {
				if c := p.consumers[w.rnd.IntN(n)]; !c.left {
					p.leave(c)
				}
				return
			}
			p.join(false)
		})
	}
}

// reload changes the configuration, of one proxy after the other.
func (w *simWorld) reload(want *Spec) {
	*want = w.spec(1 + w.rnd.IntN(5))
	w.disturb("%d shards are configured", len(want.Shards))
	for _, p := range w.alive() {
		w.after(w.some(3000), func() {
			p.deliver(func() {
				p.want = *want
				w.disturb("%s wants %d shards", p.id, len(p.want.Shards))
				p.changed()
			})
		})
	}
}
