package coordination

import (
	"flag"
	"fmt"
	"testing"
	"time"
)

var (
	simSeeds = flag.Int("sim.seeds", simSeedsDefault, "seeds of the simulation to play")
	simFirst = flag.Int("sim.first", 1, "the first of these seeds")
	simSeed  = flag.Uint64("sim.seed", 0, "play this seed alone, and print what happens")
)

// Many proxies with random failures: while things happen nothing forbidden does;
// five seconds after the last every shard is consumed, soon after everything is
// in balance, and then nothing moves any more.
func TestSimulation(t *testing.T) {
	if *simSeed > 0 {
		playSeed(t, *simSeed, true)
		return
	}
	const parts = 4
	for part := range parts {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			var sum simSummary
			for seed := *simFirst + part; seed < *simFirst+*simSeeds; seed += parts {
				sum.add(playSeed(t, uint64(seed), testing.Verbose() && seed == 1))
				if t.Failed() {
					return
				}
			}
			t.Log(sum)
		})
	}
}

type simSummary struct {
	runs, removed int
	passed        int
	messages      int
	moves         uint64
	terms         uint64
}

func (s *simSummary) add(o simSummary) {
	s.runs += o.runs
	s.removed += o.removed
	s.passed += o.passed
	s.messages += o.messages
	s.moves += o.moves
	s.terms += o.terms
}

func (s simSummary) String() string {
	return fmt.Sprintf("%d runs: %d elections, %d moves, %d shards removed, %d barriers passed, %d messages",
		s.runs, s.terms, s.moves, s.removed, s.passed, s.messages)
}

// playSeed plays one run.
func playSeed(t *testing.T, seed uint64, verbose bool) simSummary {
	w := newSimWorld(t, seed, seed%3 == 0)
	w.windows, w.away = true, seed%4 == 0
	if seed%6 == 0 {
		newBarrierWorld(w)
	}
	w.play()
	if len(w.failures) > 0 {
		t.Errorf("seed %d: %v", seed, w.failures)
	}
	if verbose {
		t.Logf("seed %d\n%s", seed, w.trace.String())
	}
	sum := simSummary{runs: 1, removed: w.removed, passed: w.traffic.passed, messages: w.traffic.delivered}
	if c := w.leadingCore(); c != nil {
		sum.terms = c.known.Term
		if e := c.known.Exchanges[simExchange]; e != nil {
			sum.moves = e.Moves
		}
	}
	return sum
}

func (w *simWorld) spec(shards int) Spec {
	return Spec{Shards: makeShards(nodeNames(1), shards), Ordered: w.ordered, Barrier: w.barrier}
}

// play is the scenario: a start, troubles, peace.
func (w *simWorld) play() {
	want := w.spec(2 + w.rnd.IntN(3))
	for range 2 + w.rnd.IntN(3) {
		w.start(want)
	}
	for range w.rnd.IntN(5) {
		w.randomJoin()
	}
	w.run(w.some(3000))
	end := w.now + 15*time.Second
	for w.now < end {
		w.trouble(&want)
		w.run(w.now + w.some(2500))
		w.logf("%s", w.assignment())
	}
	w.peace(&want)
}

// peace heals everything and checks what has to come of it.
func (w *simWorld) peace(want *Spec) {
	w.setAlarm(false)
	w.loss, w.delay = 0, 10
	for _, p := range w.alive() {
		if p.paused {
			w.resume(p)
		}
		if !p.connected {
			w.after(w.some(500), p.connect)
		}
		if !sameShards(p.want.Shards, want.Shards) {
			p.want = *want
			p.changed()
		}
	}
	if len(w.alive()) == 0 {
		w.start(*want)
	}
	if w.barrier {
		w.randomJoin() // without any consumer no shard comes to be empty
	}
	w.disturb("peace")
	w.run(w.quietAt + 5*time.Second)
	w.logf("%s", w.assignment())
	w.checkCovered()
	w.run(w.quietAt + 15*time.Second)
	w.logf("%s", w.assignment())
	w.checkCovered()
	// A barrier that the broker does not answer in time for is tried again.
	for limit := w.now + time.Minute; w.barrier && w.now < limit && w.leadingCore() != nil && w.layout().Next != nil; {
		w.run(w.now + 2*time.Second)
	}
	w.run(w.now + 2*time.Second) // until all have gone over
	w.checkShards(*want)
	w.checkTraffic()
	for limit := w.now + 2*time.Minute; w.now < limit && w.leavingShards() > 0; {
		w.run(w.now + time.Second)
	}
	if n := w.leavingShards(); n > 0 {
		w.failf("%d shards of former sets stay", n)
	}
	w.run(w.now + 3*time.Second) // what the last of them leaves to share out
	w.checkBalanced()
	w.checkForgotten()
	applies := w.applies
	w.run(w.now + 5*time.Second)
	if w.applies != applies {
		w.failf("%d plans changed in peace", w.applies-applies)
	}
}

// checkShards: the set is the one that is wanted, and nothing of others is left.
func (w *simWorld) checkShards(want Spec) {
	c := w.leadingCore()
	if c == nil {
		return
	}
	e := c.known.Exchanges[simExchange]
	if !sameShards(e.Set, want.Shards) || e.Next != nil {
		w.failf("set of %d shards, next %v, where %d are wanted", len(e.Set), e.Next, len(want.Shards))
	}
	for _, p := range w.alive() {
		if p.routing != e.Generation || !sameShards(p.routes, e.Set) {
			w.failf("%s routes by generation %d, not %d", p.id, p.routing, e.Generation)
		}
	}
}

// leavingShards returns how many shards of former sets there are.
func (w *simWorld) leavingShards() int {
	if c := w.leadingCore(); c != nil {
		return len(c.known.Exchanges[simExchange].Old)
	}
	return 0
}
