package coordination

import (
	"testing"
	"time"
)

// crashScript is a small run in which a leader does all it can do: it is elected,
// hands shards over, makes the set larger and smaller, and removes shards.
func crashScript(w *simWorld) {
	w.failing = 0
	two, three := w.spec(2), w.spec(3)
	a, b := w.start(two), w.start(two)
	a.join(false)
	w.run(2 * time.Second)
	b.join(false)
	w.run(4 * time.Second)
	w.reconfigure(three)
	w.run(7 * time.Second)
	w.reconfigure(two)
	w.run(14 * time.Second)
}

// reconfigure gives every proxy another configuration, one after the other.
func (w *simWorld) reconfigure(want Spec) {
	for i, p := range w.alive() {
		w.after(time.Duration(i)*300*time.Millisecond, func() {
			p.deliver(func() {
				p.want = want
				p.changed()
			})
		})
	}
}

// A leader that dies before or after any single thing it does leaves a state from
// which the next one goes on: nothing forbidden happens, every shard is consumed
// again within five seconds, and the set is the wanted one in the end.
func TestLeaderDiesAtEachStep(t *testing.T) {
	for _, kind := range []string{"plain", "ordered", "barrier"} {
		world := func() *simWorld {
			w := newSimWorld(t, 7, kind == "ordered")
			if kind == "barrier" {
				newBarrierWorld(w)
			}
			return w
		}
		whole := world()
		crashScript(whole)
		if len(whole.failures) > 0 || whole.removed != 1 {
			t.Fatalf("without a crash: %v, %d removed\n%s", whole.failures, whole.removed, whole.trace.String())
		}
		steps := 0
		for n := 0; n < whole.outputs; n += crashStride {
			for _, before := range []bool{true, false} {
				steps++
				w := world()
				done := false
				w.crashOn = func(at int, first bool) bool {
					crash := !done && at == n && first == before
					done = done || crash
					return crash
				}
				crashScript(w)
				w.crashOn = nil
				want := w.spec(2)
				w.start(want)
				w.peace(&want)
				if !done || len(w.failures) > 0 {
					t.Fatalf("%s, dies at step %d, before it %v, died %v: %v\n%s", kind, n, before, done, w.failures, w.trace.String())
				}
			}
		}
		t.Logf("%s: the leader died at %d moments", kind, steps)
	}
}
