package coordination

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// oldRig is a proxy that leads alone, whose exchange goes from four shards to two.
type oldRig struct {
	c      *Core
	now    time.Duration
	report ExchangeReport
	idle   func(queue string) bool // the broker's answers
	remove func(queue string) bool
	looks  map[string]int // how often each was looked at
	tries  []time.Duration
	phases []string // all that the surplus shards ever were, in order
}

func newOldRig() *oldRig {
	r := &oldRig{
		c: NewCore("me", true, Timing{}), looks: map[string]int{},
		report: ExchangeReport{Want: Spec{Shards: makeShards(nodeNames(1), 4)}, Consumers: []ConsumerReport{{ID: 1}}},
	}
	r.pass(time.Second)
	r.report.Want.Shards = r.report.Want.Shards[:2]
	return r
}

// pass lets time pass. The proxy does at once what the plan says.
func (r *oldRig) pass(d time.Duration) {
	for end := r.now + d; r.now < end; r.now += 500 * time.Millisecond {
		r.c.Own(r.now, map[string]ExchangeReport{"x": r.report})
		r.c.Tick(r.now)
		for outs := r.c.Take(); len(outs) > 0; outs = r.c.Take() {
			for _, out := range outs {
				r.do(out)
			}
		}
		for _, old := range r.layout().Old {
			if phase := fmt.Sprint(old.Queue, " ", old.Phase); !slices.Contains(r.phases, phase) {
				r.phases = append(r.phases, phase)
			}
		}
	}
}

func (r *oldRig) do(out Output) {
	switch out.Kind {
	case ApplyOutput:
		r.report.Routing, r.report.Prepared = out.Plan.Generation, out.Plan.Generation
		if out.Plan.Next != nil {
			r.report.Prepared++
		}
		r.report.Consumers[0].Held = out.Plan.Targets[1]
		r.c.Own(r.now, map[string]ExchangeReport{"x": r.report})
	case EffectOutput:
		o := Outcome{OK: true}
		switch queue := out.Shards[0].Queue; out.Effect {
		case IdleEffect:
			r.looks[queue]++
			o.OK = r.idle(queue)
		case RemoveEffect:
			r.tries = append(r.tries, r.now)
			o.OK = r.remove(queue)
		case PrepareEffect, RetireEffect, UncoveredEffect, LoadsEffect:
		}
		r.c.Done(r.now, out.ID, out.Exchange, o)
	}
}

func (r *oldRig) layout() *Layout { return &r.c.known.Exchanges["x"].Layout }

// A shard that the topologist never calls idle stays where it is: it is consumed, and nothing is decided any more.
func TestOldShardThatStaysIsLeftAlone(t *testing.T) {
	r := newOldRig()
	r.idle = func(string) bool { return false }
	r.pass(2 * time.Minute)
	old := r.layout().in(Unbound)
	require.Equal(t, makeShards(nodeNames(1), 4)[2:], old)
	version, moves := r.c.known.Version, r.c.known.Exchanges["x"].Moves
	r.pass(time.Hour)
	require.Equal(t, version, r.c.known.Version, "nothing has changed")
	require.Equal(t, moves, r.c.known.Exchanges["x"].Moves)
	require.Len(t, r.report.Consumers[0].Held, 4, "they are consumed")
	require.Empty(t, r.tries)
	for _, phase := range r.phases {
		require.NotContains(t, phase, Closing)
	}

	// Once it is called idle after all, it goes within seconds, and is forgotten.
	r.idle = func(queue string) bool { return queue == old[1].Queue }
	r.remove = func(string) bool { return true }
	r.pass(10 * time.Second)
	require.Equal(t, []OldShard{{Shard: old[0], Phase: Unbound}}, r.layout().Old)
	require.Len(t, r.tries, 1)
	require.Len(t, r.report.Consumers[0].Held, 3)
}

// Shards that are never idle do not keep one behind them from its turn, however long a look takes.
func TestOldShardsTakeTurns(t *testing.T) {
	r := newOldRig()
	r.idle = func(string) bool { return false }
	r.pass(2 * time.Minute)
	w, e := r.c.work("x"), r.c.known.Exchanges["x"]
	for i, old := range e.Old {
		w.due[old.Queue] = r.now - time.Duration(i+1)*time.Second
	}
	r.c.now = r.now
	require.Equal(t, e.Old[1].Queue, r.c.dueOld(e, w).Queue, "it has waited longest")
	delete(w.due, e.Old[1].Queue)
	require.Equal(t, e.Old[0].Queue, r.c.dueOld(e, w).Queue)
	require.Equal(t, r.now+time.Minute, w.due[e.Old[1].Queue])
	delete(w.due, e.Old[0].Queue)
	require.Nil(t, r.c.dueOld(e, w))
}

// What cannot be removed, for somebody uses it past the proxies, is taken from its consumers less and less often.
func TestOldShardThatCannotBeRemovedIsTriedLessOften(t *testing.T) {
	r := newOldRig()
	inUse := r.report.Want.Shards[:4][2].Queue
	r.idle = func(queue string) bool { return true }
	r.remove = func(queue string) bool { return queue != inUse }
	r.pass(10 * time.Hour)
	require.Len(t, r.layout().Old, 1)
	require.Less(t, len(r.tries), 20)
	n := len(r.tries)
	require.Greater(t, n, 10)
	require.InDelta(t, time.Hour, r.tries[n-1]-r.tries[n-2], float64(time.Minute), "and not never")
	require.InDelta(t, time.Minute, r.tries[2]-r.tries[1], float64(10*time.Second), "the first time soon")

	r.remove = func(string) bool { return true }
	r.pass(time.Hour + time.Minute)
	require.Empty(t, r.layout().Old)
	require.Empty(t, r.c.work("x").pauses)
}
