package coordination

import (
	"context"
	"time"
)

// run is the goroutine that takes the transport's events and keeps the core's
// time, until ctx ends or Close.
func (n *Node) run(ctx context.Context) {
	var events <-chan Event
	if n.o.Transport != nil {
		events = n.o.Transport.Events()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.ctx.Done():
			return
		case e, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			n.event(e)
		case <-n.kick:
		case <-timer.C:
		}
		timer.Reset(n.tick())
	}
}

// tick does what is due and returns the time until the next.
func (n *Node) tick() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return time.Hour
	}
	now := n.now()
	if len(n.stale) > 0 && now-n.computed < 4*n.cost {
		return n.computed + 4*n.cost - now
	}
	if wait := n.core.Wake() - now; wait > 0 && len(n.stale) == 0 {
		return wait
	}
	clear(n.stale)
	n.settle()
	n.computed = n.now()
	n.cost = n.computed - now
	n.core.Tick(n.now())
	if n.perform() {
		n.settle()
	}
	return max(n.core.Wake()-n.now(), time.Millisecond)
}

// event passes an event of the transport to the core.
func (n *Node) event(e Event) {
	var message *Message
	var state *State
	var err error
	switch e.Kind {
	case Received:
		if message, err = n.decode(e.Body); err != nil {
			if !n.prunes(e.Body, err) {
				n.refused(err)
			}
			return
		}
	case Elected:
		if e.Body != nil {
			if state, err = n.decodeState(e.Body); err != nil {
				n.o.Log.Warn("stored state cannot be read, starting anew", "error", err.Error())
			}
		}
	case Deposed, Connected, Disconnected:
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	now := n.begun(message)
	switch e.Kind {
	case Received:
		n.core.Receive(now, message)
	case Elected:
		n.core.Elected(now, state)
	case Deposed:
		n.core.Deposed(now)
	case Connected:
		n.core.Connected(now)
	case Disconnected:
		n.core.Disconnected(now)
	}
	if n.perform() {
		n.settle()
	}
}

// begun returns the time of an event, once the core has the report that it wants to
// have before. mu is held.
func (n *Node) begun(m *Message) time.Duration {
	now := n.now()
	if n.core.WantsReport(now, m) {
		n.core.Own(now, n.o.Participant.Report())
	}
	return now
}

// perform does, or begins, what the core wants done, and reports whether anything
// was applied. mu is held.
func (n *Node) perform() (applied bool) {
	for _, out := range n.core.Take() {
		switch out.Kind {
		case ApplyOutput:
			applied = true
			n.o.Participant.Apply(out.Exchange, out.Plan)
			if wait := n.waiters[out.Exchange]; wait != nil {
				close(wait)
				delete(n.waiters, out.Exchange)
			}
		case SeenOutput:
			if w, ok := n.o.Participant.(Watcher); ok {
				w.Seen(out.Exchange)
			}
		case LogOutput:
			if out.Warn {
				n.o.Log.Warn(out.Text, out.Fields...)
				continue
			}
			n.o.Log.Info(out.Text, out.Fields...)
		case SendOutput:
			n.outbox.put(out.Slot, out.Body)
		case ResignOutput:
			n.o.Transport.Resign()
		case StoreOutput, AliveOutput, EffectOutput, LockOutput, UnlockOutput:
			n.begin(out)
		}
	}
	return applied
}

// begin does something that takes time in a goroutine of its own: of stores there
// is one at a time, of the others one per exchange or proxy.
func (n *Node) begin(out Output) {
	if n.closed {
		return
	}
	n.running.Go(func() {
		var done func(now time.Duration)
		switch out.Kind {
		case StoreOutput:
			done = n.store(out)
		case AliveOutput:
			done = n.alive(out)
		case LockOutput, UnlockOutput:
			done = n.lock(out)
		default:
			done = n.affect(out)
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.closed {
			return
		}
		done(n.begun(nil))
		if n.perform() {
			n.settle()
		}
		n.wake()
	})
}

func (n *Node) store(out Output) func(time.Duration) {
	ctx, cancel := context.WithTimeout(n.ctx, storeTimeout)
	defer cancel()
	err := n.o.Transport.Store(ctx, out.Body)
	return func(now time.Duration) { n.core.Stored(now, out.ID, err) }
}

func (n *Node) alive(out Output) func(time.Duration) {
	ctx, cancel := context.WithTimeout(n.ctx, aliveTimeout)
	defer cancel()
	connected, err := n.o.Transport.Alive(ctx, out.Proxy)
	return func(now time.Duration) { n.core.Alive(now, out.Proxy, connected, err) }
}

// lock gets a lock, or lets go of it.
func (n *Node) lock(out Output) func(time.Duration) {
	ctx, cancel := context.WithTimeout(n.ctx, lockTimeout)
	defer cancel()
	locker, _ := n.o.Transport.(Locker) // the core wants no locks without one
	if out.Kind == UnlockOutput {
		err := locker.Unlock(ctx, out.Queue)
		return func(now time.Duration) { n.core.Unlocked(now, out, err) }
	}
	ok, err := locker.Lock(ctx, out.Queue)
	return func(now time.Duration) { n.core.Locked(now, out, ok, err) }
}

// affect has the topologist do what a leader, or a proxy without one, wants done.
func (n *Node) affect(out Output) func(time.Duration) {
	select {
	case n.effects <- struct{}{}:
		defer func() { <-n.effects }()
	case <-n.ctx.Done():
	}
	ctx, cancel := context.WithTimeout(n.ctx, effectTimeout)
	defer cancel()
	o := Outcome{Err: errNotAwaited}
	if n.awaits(out) {
		o = n.outcome(ctx, out)
	}
	return func(now time.Duration) { n.core.Done(now, out.ID, out.Exchange, o) }
}

// awaits reports whether an effect is still wanted, now that it is its turn.
func (n *Node) awaits(out Output) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.core.Awaits(n.now(), out.ID, out.Exchange)
}

func (n *Node) outcome(ctx context.Context, out Output) (o Outcome) {
	t := n.o.Topologist
	if t == nil {
		return Outcome{Err: errNoTopologist}
	}
	switch out.Effect {
	case PrepareEffect:
		o.Err = t.Prepare(ctx, out.Exchange, out.Shards)
	case RetireEffect:
		o.Err = t.Retire(ctx, out.Exchange, out.Shards)
	case IdleEffect:
		o.OK, o.Err = t.Idle(ctx, out.Exchange, out.Shards[0])
	case RemoveEffect:
		o.OK, o.Err = t.Remove(ctx, out.Exchange, out.Shards[0])
	case UncoveredEffect:
		o.Queues, o.Err = t.Uncovered(ctx, out.Exchange, out.Shards)
	case LoadsEffect:
		o.Loads, o.Err = t.Loads(ctx, out.Exchange, out.Shards)
	}
	return o
}

// send is the goroutine that sends what is in the outbox, until Close.
func (n *Node) send() {
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-n.outbox.ready:
		}
		for _, s := range n.outbox.take() {
			ctx, cancel := context.WithTimeout(n.ctx, sendTimeout)
			// A message that is lost is made up for by the next of its kind; but what
			// Close has interrupted is Close's to send.
			if n.o.Transport.Send(ctx, s.body) != nil && n.ctx.Err() != nil {
				n.outbox.put(s.kind, s.body)
			}
			cancel()
		}
	}
}
