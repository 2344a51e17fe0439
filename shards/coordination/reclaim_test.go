package coordination

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A proxy that is given up while it is stopped, or cut off, and goes on before the
// broker has noticed keeps the ordered shards its consumers are attached to: had it
// let go of them, their next owners would have begun before its clients had got what
// was on its way to them.
func TestScenarioGivenUpInOrder(t *testing.T) {
	for name, away := range map[string]func(w *simWorld, p *simProxy) (back func()){
		"stopped": func(w *simWorld, p *simProxy) func() { w.pause(p); return func() { w.resume(p) } },
		"cut off": func(w *simWorld, p *simProxy) func() { w.cut(p); return p.connect },
	} {
		for seed := range uint64(20) {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				w := newSimWorld(t, seed, true)
				spec := w.spec(6)
				for range 3 {
					w.start(spec).join(false)
				}
				w.until(10*time.Second, w.settled)
				p := w.proxies[seed%3]
				if p == w.leader {
					p = w.proxies[(seed+1)%3]
				}
				held := sortedKeys(p.consumers[0].on)
				require.Len(t, held, 2)
				back := away(w, p)
				w.until(5*time.Second, func() bool { return w.leadingCore().members[p.id] == nil })
				e := w.leadingCore().known.Exchanges[simExchange]
				require.Empty(t, e.Grants[p.id], "given up")
				w.run(w.now + w.some(4000))
				back()
				for range 300 {
					w.run(w.now + 10*time.Millisecond)
					require.Equal(t, held, sortedKeys(p.consumers[0].on), w.trace.String())
				}
				require.Equal(t, held, e.Grants[p.id][1], "they are its own again")
				require.True(t, w.settled())
				require.Empty(t, w.failures, w.trace.String())
			})
		}
	}
}

// leftOut has a rig that follows a leader "z" hear a state of its that grants both
// shards to proxy "b", and names the proxies given.
func (r *coreRig) leftOut(version uint64, proxies ...string) {
	counted := make(map[string]uint64)
	for _, id := range proxies {
		counted[id] = 1
	}
	shards := r.own["x"].Want.Shards
	m := &Message{Kind: StateKind, From: "z", State: &State{
		Stamp: Stamp{Ballot{9, "z"}, version}, Proxies: counted,
		Exchanges: map[string]*Entry{"x": {
			Layout: Layout{Generation: 1, Set: shards, Ordered: true},
			Grants: Grants{"b": {1: {shards[0].Queue, shards[1].Queue}}},
		}},
	}}
	r.hear(m)
}

// Of what it had, a proxy that its leader does not count on keeps what it is attached
// to, and only that; when it is counted on it obeys.
func TestLeftOutKeepsWhatIsAttached(t *testing.T) {
	r := newCoreRig(t)
	one, two := r.own["x"].Want.Shards[0].Queue, r.own["x"].Want.Shards[1].Queue
	r.own["x"] = ExchangeReport{Want: r.own["x"].Want, Consumers: []ConsumerReport{{ID: 5}}}
	r.c.Own(r.now, r.own)
	r.c.Receive(r.now, &Message{Kind: StateKind, From: "z", State: &State{
		Stamp: Stamp{Ballot{9, "z"}, 1}, Proxies: map[string]uint64{"me": 1, "z": 1},
		Exchanges: map[string]*Entry{"x": {
			Layout: Layout{Generation: 1, Set: r.own["x"].Want.Shards, Ordered: true}, Grants: Grants{"me": {5: {one, two}}},
		}},
	}})
	r.take()
	require.Equal(t, []string{one, two}, r.c.Plan("x").Targets[5])

	r.own["x"] = ExchangeReport{
		Want: r.own["x"].Want, Consumers: []ConsumerReport{{ID: 5, Held: []string{one, two}}}, Unsettled: map[string]int{two: 1},
	}
	r.leftOut(2, "b", "z")
	require.Equal(t, map[uint64][]string{5: {two}}, r.c.Plan("x").Targets)
	r.leftOut(3, "b", "me", "z")
	require.Empty(t, r.c.Plan("x").Targets)
}

// A proxy that was given up is not counted on by a report that it may have made
// before it got what it had been granted.
func TestGivenUpIsCountedOnAgain(t *testing.T) {
	r := newCoreRig(t)
	ballot := r.lead()
	r.pass(100*time.Millisecond, true)
	require.Equal(t, []string{"b", "me"}, sortedKeys(r.sent[StateKind].State.Proxies))
	before := r.c.known.Version
	granted := r.granted("b", 1)
	r.pass(10*time.Second, true)
	require.NotContains(t, r.c.members, "b")
	require.Equal(t, []string{"me"}, sortedKeys(r.sent[StateKind].State.Proxies))

	r.report("b", ballot, before, ConsumerReport{ID: 1})
	r.pass(100*time.Millisecond, true)
	require.Equal(t, []string{"me"}, sortedKeys(r.sent[StateKind].State.Proxies), "it may have been on its way for long")
	r.report("b", ballot, r.c.known.Version, ConsumerReport{ID: 1, Held: granted})
	r.pass(100*time.Millisecond, true)
	require.Equal(t, []string{"b", "me"}, sortedKeys(r.sent[StateKind].State.Proxies))
}

// One that a leader has not known before may have been given up by a former one.
func TestNewcomersAreCountedOnLater(t *testing.T) {
	r := newCoreRig(t)
	ballot := r.lead()
	r.report("c", ballot, 0)
	r.pass(100*time.Millisecond, true)
	require.NotContains(t, r.c.known.Proxies, "c")
	r.report("c", ballot, r.c.known.Version)
	require.Contains(t, r.c.known.Proxies, "c")
}

// One that was given up while reports are collected counts no earlier either.
func TestGivenUpWhileCollecting(t *testing.T) {
	r := newCoreRig(t)
	ballot := r.lead()
	before := r.c.known.Version
	r.pass(4*time.Second, false)
	require.True(t, r.c.lead.suspended)
	for r.c.members["b"] != nil {
		r.report("c", Ballot{}, 0) // heard, but not in answer to this leader
		r.pass(time.Second, true)
		require.False(t, r.c.leading())
	}
	r.report("b", ballot, before, ConsumerReport{ID: 1})
	r.report("c", ballot, 0)
	r.pass(200*time.Millisecond, true)
	require.True(t, r.c.leading())
	require.NotContains(t, r.sent[StateKind].State.Proxies, "b")
	r.report("b", ballot, r.c.known.Version, ConsumerReport{ID: 1})
	r.pass(100*time.Millisecond, true)
	require.Contains(t, r.sent[StateKind].State.Proxies, "b")
}

// attachedReport has a proxy report one consumer that holds shards, and whether it is
// attached to them.
func (r *coreRig) attachedReport(proxy string, ballot Ballot, version uint64, attached bool, held ...string) {
	unsettled := make(map[string]int)
	for _, queue := range held {
		if attached {
			unsettled[queue] = 1
		}
	}
	r.seq[proxy]++
	r.c.Receive(r.now, &Message{
		Kind: ReportKind, From: proxy, Seq: r.seq[proxy], Promised: ballot, Applied: Stamp{ballot, version},
		Exchanges: map[string]ExchangeReport{"x": {
			Want: r.own["x"].Want, Consumers: []ConsumerReport{{ID: 1, Held: held}}, Unsettled: unsettled,
		}},
	})
	r.take()
}

// Shards go back to the consumer that is attached to them, and from there to whom
// they are due, but not before those they were granted to know that they have them no
// more.
func TestReclaimedAreKept(t *testing.T) {
	r := newCoreRig(t)
	ballot := r.lead()
	both := r.granted("b", 1)
	require.Len(t, both, 2)
	r.attachedReport("b", ballot, r.c.known.Version, false, both...)
	r.attachedReport("c", ballot, 0, true, both...)
	require.Equal(t, both, r.granted("c", 1))
	require.Empty(t, r.granted("b", 1))
	for range 3 {
		r.attachedReport("c", ballot, r.c.known.Version, true, both...)
		require.Equal(t, both, r.granted("c", 1), "b could still take them")
	}
	r.attachedReport("b", ballot, r.c.known.Version, false)
	require.Len(t, r.granted("c", 1), 1, "one is due to b")
	require.Empty(t, r.granted("b", 1), "once c has let go of it")
	r.attachedReport("c", ballot, r.c.known.Version, true, r.granted("c", 1)...)
	require.Len(t, r.granted("b", 1), 1)
}

// One that is attached to what another is attached to as well, which only a guess of
// its proxy's could have led to, gets nothing back.
func TestAttachedOwnerStays(t *testing.T) {
	r := newCoreRig(t)
	ballot := r.lead()
	both := r.granted("b", 1)
	r.attachedReport("b", ballot, r.c.known.Version, true, both...)
	r.attachedReport("c", ballot, 0, true, both...)
	require.NotEmpty(t, r.granted("b", 1))
	require.Empty(t, r.granted("c", 1))
}

// A new leader, to whom two report that they hold the same, goes by who is attached.
func TestAttachedCountsForANewLeader(t *testing.T) {
	r := newCoreRig(t)
	r.c.Elected(r.now, nil)
	r.take()
	r.pass(100*time.Millisecond, true)
	ballot, both := r.c.known.Ballot, []string{r.own["x"].Want.Shards[0].Queue, r.own["x"].Want.Shards[1].Queue}
	r.attachedReport("b", ballot, 0, false, both...)
	r.attachedReport("c", ballot, 0, true, both...)
	r.pass(time.Second, true)
	require.True(t, r.c.leading())
	require.Equal(t, both, r.granted("c", 1))
}

// What is only on its way from one consumer to another is nobody's to take back.
func TestMovesAreNotUndone(t *testing.T) {
	r := newCoreRig(t)
	ballot := r.lead()
	both := r.granted("b", 1)
	r.attachedReport("b", ballot, r.c.known.Version, true, both...)
	r.own["x"] = ExchangeReport{Want: r.own["x"].Want, Consumers: []ConsumerReport{{ID: 5}}}
	r.pass(100*time.Millisecond, true)
	require.Len(t, r.granted("b", 1), 1)
	version := r.c.known.Version
	for range 3 {
		r.attachedReport("b", ballot, version, true, both...)
		require.Len(t, r.granted("b", 1), 1)
		require.Equal(t, version, r.c.known.Version)
	}
}

// A store that ends while reports are being collected has no effect before the
// leader decides again.
func TestNothingIsDecidedWhileCollecting(t *testing.T) {
	r := newCoreRig(t)
	ballot := r.lead()
	r.hold = true
	r.own["x"] = ExchangeReport{Want: Spec{Shards: makeShards(nodeNames(1), 3), Ordered: true}}
	r.pass(500*time.Millisecond, true)
	r.pass(10*time.Second, false)
	require.True(t, r.c.lead.suspended)
	r.pass(time.Second, true)
	require.Equal(t, collecting, r.c.lead.phase)
	delete(r.sent, StateKind)
	r.hold = false
	r.c.Stored(r.now, r.c.lead.store.id, nil)
	r.take()
	r.pass(2*time.Second, true)
	require.NotContains(t, r.sent, StateKind)
	require.Nil(t, r.c.Plan("x").Next)
	r.report("b", ballot, r.c.known.Version, ConsumerReport{ID: 1})
	r.pass(200*time.Millisecond, true)
	require.Len(t, r.sent[StateKind].State.Exchanges["x"].Next, 3)
}

// An exchange that comes to be consumed in order, while several share its shards, is
// left by all but one of each.
func TestScenarioSharedComesToBeOrdered(t *testing.T) {
	w := calmWorld(t, false)
	a, b := w.start(w.spec(2)), w.start(w.spec(2))
	for _, p := range []*simProxy{a, a, b, b} {
		p.join(false)
	}
	shared := func() int { return len(w.attached["q - rabbit@a - 0"]) + len(w.attached["q - rabbit@a - 1"]) }
	w.until(10*time.Second, func() bool { return shared() == 4 })
	ordered := w.spec(2)
	ordered.Ordered = true
	for _, p := range []*simProxy{a, b} {
		p.want = ordered
		p.changed()
	}
	require.Less(t, w.until(time.Minute, func() bool { return shared() == 2 && w.settled() }), 10*time.Second)
}
