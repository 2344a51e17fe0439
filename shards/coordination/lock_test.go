package coordination

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// alarmWorld is one of two proxies with one ordered exchange, on which an alarm has
// just begun.
func alarmWorld(t *testing.T, seed uint64) (w *simWorld, a, b *simProxy) {
	w = newSimWorld(t, seed, true)
	t.Cleanup(func() {
		require.Empty(t, w.failures, w.trace.String())
		if testing.Verbose() {
			t.Log("\n" + w.trace.String())
		}
	})
	spec := w.spec(4)
	a, b = w.start(spec), w.start(spec)
	a.join(false)
	b.join(false)
	w.until(10*time.Second, w.settled)
	w.alarm = true
	w.disturb("alarm")
	return w, a, b
}

// lock is a Locker's.
func (p *simProxy) lock(out Output) {
	w, session := p.w, p.session
	w.after(w.some(20), func() {
		err, ok := error(nil), false
		switch l, there := w.locks[out.Queue]; {
		case !p.connected || p.session != session || !w.alarm:
			err = errSim
		case !there || l.proxy == p && l.session == session || !l.proxy.connected || l.session != l.proxy.session:
			ok, w.locks[out.Queue] = true, simLock{p, session}
		}
		w.after(w.some(20), func() {
			p.deliver(func() { p.step(func() { p.core.Locked(w.now, out, ok, err) }) })
		})
	})
}

func (p *simProxy) unlock(out Output) {
	w, session := p.w, p.session
	w.after(w.some(20), func() {
		if w.locks[out.Queue] == (simLock{p, session}) {
			delete(w.locks, out.Queue)
		}
		w.after(w.some(20), func() {
			p.deliver(func() { p.step(func() { p.core.Unlocked(w.now, out, nil) }) })
		})
	})
}

// most is the most consumers that any shard has at the broker.
func (w *simWorld) most() int {
	n := 0
	for _, on := range w.attached {
		n = max(n, len(on))
	}
	return n
}

// consumed reports whether every shard has its consumer at the broker.
func (w *simWorld) consumed() bool {
	n := 0
	for _, on := range w.attached {
		n += len(on)
	}
	return n == 4 && w.most() == 1
}

// While an alarm keeps everybody from publishing, the shards of a proxy that dies
// are taken by the other one.
func TestScenarioAlarmOrdered(t *testing.T) {
	w, a, b := alarmWorld(t, 1)
	w.kill(a)
	require.Less(t, w.until(time.Minute, func() bool { return b.load() == 4 }), 10*time.Second)
	w.alarm = false
	w.run(w.now + 10*time.Second)
	require.True(t, w.settled())
	require.Equal(t, 4, b.load())
	require.Empty(t, w.locks, "a leader decides again")
}

// All consumers of an ordered exchange go and come back during an alarm, at both
// proxies at once: all shards are consumed again, each by one.
func TestScenarioAlarmOrderedRestart(t *testing.T) {
	for seed := range uint64(restarts) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w, a, b := alarmWorld(t, seed)
			w.run(w.now + w.some(8000))
			for _, p := range []*simProxy{a, b} {
				w.after(w.some(3000), func() {
					for _, c := range slices.Clone(p.consumers) {
						p.leave(c)
					}
					w.after(w.some(500), func() { p.join(false); p.join(false) })
				})
			}
			w.run(w.now + 4*time.Second)
			for range 1000 {
				w.run(w.now + 10*time.Millisecond)
				require.LessOrEqual(t, w.most(), 1)
			}
			require.Less(t, w.until(time.Minute, w.consumed), 20*time.Second)
			w.run(w.now + 3*time.Second)
			for _, p := range []*simProxy{a, b} {
				require.Empty(t, p.core.status(w.now).Exchanges[simExchange].Uncovered)
			}
			w.alarm = false
			w.disturb("no alarm")
			require.Less(t, w.until(time.Minute, func() bool {
				return w.settled() && a.load() == 2 && b.load() == 2 && len(w.locks) == 0
			}), 10*time.Second)
		})
	}
}

// Without a transport that keeps locks ordered shards wait for a leader, which is
// told.
func TestScenarioAlarmOrderedWithoutLocks(t *testing.T) {
	w, a, b := alarmWorld(t, 1)
	a.core.local.lockable, b.core.local.lockable = false, false
	w.kill(a)
	w.run(w.now + 20*time.Second)
	require.Equal(t, 2, b.load())
	require.Len(t, b.core.status(w.now).Exchanges[simExchange].Uncovered, 2)
	require.Contains(t, w.trace.String(), "no leader is heard [exchange x shards 2]")
	w.alarm = false
	require.Less(t, w.until(time.Minute, func() bool { return b.load() == 4 }), 5*time.Second)
	require.Empty(t, b.core.status(w.now).Exchanges[simExchange].Uncovered)
}

// A proxy that hears no leader keeps what its consumers are attached to, even if
// another has locked it, and gives up what they have not begun on.
func TestLockedByAnotherIsYielded(t *testing.T) {
	r := newCoreRig(t)
	r.c.local.lockable = true
	one, two := r.own["x"].Want.Shards[0].Queue, r.own["x"].Want.Shards[1].Queue
	r.own["x"] = ExchangeReport{
		Want: r.own["x"].Want, Consumers: []ConsumerReport{{ID: 5, Held: []string{one, two}}}, Unsettled: map[string]int{one: 1},
	}
	r.c.Own(r.now, r.own)
	r.c.Receive(r.now, &Message{Kind: StateKind, From: "z", State: &State{
		Stamp: Stamp{Ballot{9, "z"}, 1}, Proxies: map[string]uint64{"me": 1, "z": 1},
		Exchanges: map[string]*Entry{"x": {
			Layout: Layout{Generation: 1, Set: r.own["x"].Want.Shards, Ordered: true}, Grants: Grants{"me": {5: {one, two}}},
		}},
	}})
	r.take()
	r.pass(4*time.Second, false)
	require.True(t, r.c.local.on)
	require.Equal(t, []string{one, two}, r.c.Plan("x").Targets[5])
	for _, queue := range []string{one, two} {
		r.c.Locked(r.now, Output{ID: r.c.local.locks["x"][queue].id, Exchange: "x", Queue: queue}, false, nil)
		r.take()
	}
	require.Equal(t, []string{one}, r.c.Plan("x").Targets[5])
}

// A leader that comes back from an alarm leaves shards with whom has taken them
// meanwhile, and does not count on the one it had granted them to before it has heard.
func TestTakenInAnAlarmStaysTaken(t *testing.T) {
	r := newCoreRig(t)
	r.own["x"] = ExchangeReport{Want: r.own["x"].Want, Consumers: []ConsumerReport{{ID: 5}}}
	ballot := r.lead()
	r.pass(100*time.Millisecond, true)
	theirs, ours := r.granted("b", 1), r.granted("me", 5)
	if len(theirs) == 2 { // b has not let go of one yet
		r.report("b", ballot, r.c.known.Version, ConsumerReport{ID: 1, Held: theirs[:1]})
		theirs, ours = r.granted("b", 1), r.granted("me", 5)
	}
	require.Len(t, theirs, 1)
	r.own["x"] = ExchangeReport{Want: r.own["x"].Want, Consumers: []ConsumerReport{{ID: 5, Held: ours}}, Unsettled: map[string]int{ours[0]: 1}}
	r.pass(10*time.Second, false)
	require.True(t, r.c.lead.suspended)
	r.report("b", ballot, r.c.known.Version, ConsumerReport{ID: 1})
	r.attachedReport("c", ballot, r.c.known.Version, true, theirs...)
	r.pass(time.Second, true)
	r.report("b", ballot, r.c.known.Version, ConsumerReport{ID: 1})
	r.attachedReport("c", ballot, r.c.known.Version, true, theirs...)
	r.pass(time.Second, true)
	require.True(t, r.c.leading())
	require.Equal(t, theirs, r.granted("c", 1))
	require.Equal(t, ours, r.granted("me", 5))
	require.Empty(t, r.granted("b", 1))
}

// Nobody goes by the report of a proxy that may be taking shards by itself.
func TestReportsOfLocalProxiesDoNotCount(t *testing.T) {
	r := newCoreRig(t)
	ballot := r.lead()
	local := func(is bool) {
		r.seq["b"]++
		r.c.Receive(r.now, &Message{
			Kind: ReportKind, From: "b", Seq: r.seq["b"], Promised: ballot, Applied: Stamp{ballot, r.c.known.Version}, Local: is,
		})
		r.take()
		r.pass(500*time.Millisecond, true)
	}
	local(true)
	require.NotContains(t, r.c.known.Proxies, "b")
	local(false)
	require.Contains(t, r.c.known.Proxies, "b")
	r.pass(4*time.Second, false)
	local(true)
	local(true)
	require.False(t, r.c.leading(), "it is waited for")
	local(false)
	require.True(t, r.c.leading())
}
