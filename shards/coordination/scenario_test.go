package coordination

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// calmWorld is one in which nothing goes wrong by itself.
func calmWorld(t *testing.T, ordered bool) *simWorld {
	w := newSimWorld(t, 1, ordered)
	w.failing = 0
	t.Cleanup(func() {
		require.Empty(t, w.failures, w.trace.String())
		t.Log("\n" + w.trace.String())
	})
	return w
}

// until plays until a condition holds and returns how long that took.
func (w *simWorld) until(most time.Duration, holds func() bool) time.Duration {
	began := w.now
	for !holds() && w.now-began < most {
		w.run(w.now + 10*time.Millisecond)
	}
	w.logf("%s", w.assignment())
	return w.now - began
}

// settled reports whether all shards are consumed and nothing is being handed
// over.
func (w *simWorld) settled() bool {
	return w.covered() && !w.leadingCore().lead.works[simExchange].waiting
}

func (w *simWorld) covered() bool {
	c := w.leadingCore()
	return c != nil && c.known.Exchanges[simExchange] != nil && len(w.uncovered()) == 0
}

func (p *simProxy) load() int {
	n := 0
	for _, c := range p.consumers {
		n += len(c.on)
	}
	return n
}

func TestScenarioJoinAndLeave(t *testing.T) {
	w := calmWorld(t, false)
	spec := w.spec(8)
	a, b := w.start(spec), w.start(spec)
	w.run(2 * time.Second)
	a.join(false)
	require.Less(t, w.until(time.Minute, w.settled), 100*time.Millisecond)
	require.Equal(t, 8, a.load())
	c := b.join(false)
	require.Less(t, w.until(time.Minute, func() bool { return w.settled() && b.load() == 4 }), 1500*time.Millisecond)
	require.Equal(t, 4, a.load())
	require.Equal(t, uint64(4), w.leadingCore().status(w.now).Moves)
	b.leave(c)
	require.Less(t, w.until(time.Minute, func() bool { return w.settled() && a.load() == 8 }), 1500*time.Millisecond)
}

// Whoever dies, and however, the shards are consumed again within five seconds.
func TestScenarioDeath(t *testing.T) {
	for name, kill := range map[string]func(w *simWorld, leader, member *simProxy){
		"member":            func(w *simWorld, _, member *simProxy) { w.kill(member) },
		"leader":            func(w *simWorld, leader, _ *simProxy) { w.kill(leader) },
		"both":              func(w *simWorld, leader, member *simProxy) { w.kill(member); w.kill(leader) },
		"connection member": func(w *simWorld, _, member *simProxy) { w.cut(member); w.detachAll(member); member.clientsGone() },
		"says good-bye": func(w *simWorld, _, member *simProxy) {
			member.consumers = nil
			member.step(func() { member.core.Bye(w.now) })
			w.kill(member)
		},
	} {
		for _, ordered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/ordered=%v", name, ordered), func(t *testing.T) {
				w := calmWorld(t, ordered)
				spec := w.spec(6)
				for range 3 {
					w.start(spec).join(false)
				}
				w.until(10*time.Second, w.settled)
				leader := w.leader
				member := w.proxies[0]
				if member == leader {
					member = w.proxies[1]
				}
				kill(w, leader, member)
				took := w.until(time.Minute, w.covered)
				require.Less(t, took, 3*time.Second)
			})
		}
	}
}

// A paused proxy is given up after three seconds. Where order is promised its
// shards wait until the broker gives it up too; elsewhere they are shared out.
func TestScenarioPause(t *testing.T) {
	w := calmWorld(t, false)
	spec := w.spec(4)
	a, b := w.start(spec), w.start(spec)
	a.join(false)
	b.join(false)
	w.until(10*time.Second, w.settled)
	paused, other := a, b
	if w.leader == a {
		paused, other = b, a
	}
	w.pause(paused)
	require.Less(t, w.until(time.Minute, func() bool { return other.load() == 4 }), 5*time.Second)
	w.resume(paused)
	require.Less(t, w.until(time.Minute, func() bool { return other.load() == 2 && paused.load() == 2 && w.settled() }), 5*time.Second)
	applies := w.applies
	w.run(w.now + 20*time.Second)
	require.Equal(t, applies, w.applies, "then nothing moves")
}

// While an alarm keeps everybody from publishing there is no leader to hear, and
// shards of a proxy that dies are taken all the same.
func TestScenarioAlarm(t *testing.T) {
	w := calmWorld(t, false)
	spec := w.spec(4)
	a, b := w.start(spec), w.start(spec)
	a.join(false)
	b.join(false)
	w.until(10*time.Second, w.settled)
	w.alarm = true
	w.kill(a)
	all := func() bool { return b.load() == 4 }
	require.Less(t, w.until(time.Minute, all), 6*time.Second)
	w.alarm = false
	w.run(w.now + 10*time.Second)
	require.True(t, w.settled())
	require.Equal(t, 4, b.load())
}

func (w *simWorld) layout() *Layout { return &w.leadingCore().known.Exchanges[simExchange].Layout }

// Proxies that reload one after the other make one change, and one that starts
// with the former configuration none.
func TestScenarioReload(t *testing.T) {
	w := calmWorld(t, false)
	two, three := w.spec(2), w.spec(3)
	for range 3 {
		w.start(two)
	}
	w.run(3 * time.Second)
	for i, p := range w.alive() {
		w.after(time.Duration(i)*4*time.Second, func() { p.want = three; p.changed() })
	}
	w.run(15 * time.Second)
	require.Equal(t, uint64(2), w.layout().Generation)
	require.Len(t, w.layout().Set, 3)

	w.start(two)
	w.run(w.now + 5*time.Second)
	require.Equal(t, uint64(2), w.layout().Generation, "an old file undoes nothing")

	for _, p := range w.alive() {
		p.want = two
		p.changed()
	}
	w.run(w.now + 10*time.Second)
	require.Len(t, w.layout().Set, 2, "unless it is everybody's")
	require.Equal(t, uint64(3), w.layout().Generation)
	require.Empty(t, w.layout().Old)
	require.False(t, w.exists["q - rabbit@a - 2"])
}

// What was decided outlives all proxies: the file of the one that starts first
// does not count if it was superseded, unless nobody wants anything else.
func TestScenarioStoredStateCounts(t *testing.T) {
	w := calmWorld(t, false)
	two, three := w.spec(2), w.spec(3)
	a := w.start(two)
	w.run(2 * time.Second)
	a.want = three
	a.changed()
	w.run(4 * time.Second)
	require.Equal(t, uint64(2), w.layout().Generation)
	w.kill(a)
	w.run(w.now + time.Second)
	b := w.start(three)
	w.start(two)
	w.run(w.now + 5*time.Second)
	require.Equal(t, uint64(2), w.layout().Generation)
	require.Len(t, w.layout().Set, 3)
	require.Greater(t, w.leadingCore().known.Term, uint64(1))
	w.kill(b)
	w.run(w.now + 8*time.Second)
	require.Len(t, w.layout().Set, 2, "now everybody wants it")
}

// A shard that is to go and is wanted again comes back.
func TestScenarioChangeOfMind(t *testing.T) {
	w := calmWorld(t, false)
	two, four := w.spec(2), w.spec(4)
	a := w.start(four)
	a.join(false)
	w.run(2 * time.Second)
	a.want = two
	a.changed()
	require.Less(t, w.until(time.Minute, func() bool { return len(w.layout().in(Unbound)) == 2 }), 5*time.Second)
	a.want = four
	a.changed()
	w.until(time.Minute, func() bool { return w.layout().Next == nil && len(w.layout().Set) == 4 })
	require.Empty(t, w.layout().Old)
	w.run(w.now + 10*time.Second)
	require.Equal(t, 4, a.load())
	require.True(t, w.bound["q - rabbit@a - 3"])
}

// An exclusive consumer gets every shard, wherever the others are, and gives them
// back.
func TestScenarioExclusive(t *testing.T) {
	w := calmWorld(t, false)
	spec := w.spec(4)
	a, b := w.start(spec), w.start(spec)
	a.join(false)
	w.until(10*time.Second, w.settled)
	c := b.join(true)
	w.until(10*time.Second, func() bool { return b.load() == 4 })
	require.Equal(t, 4, b.load())
	require.Zero(t, a.load())
	require.True(t, a.core.Plan(simExchange).Taken)
	require.False(t, b.core.Plan(simExchange).Taken)
	b.leave(c)
	w.until(10*time.Second, func() bool { return a.load() == 4 })
	require.Equal(t, 4, a.load())
}
