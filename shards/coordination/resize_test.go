package coordination

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What has waited for its turn is not done any more by one that does not lead, or may
// not.
func TestAwaitsEffects(t *testing.T) {
	for name, change := range map[string]func(r *coreRig){
		"deposed":   func(r *coreRig) { r.c.Deposed(r.now) },
		"suspended": func(r *coreRig) { r.pass(4*time.Second, false) },
		"stopped":   func(r *coreRig) { r.now += 10 * time.Second },
	} {
		r := newCoreRig(t)
		r.lead()
		r.own["x"] = ExchangeReport{Want: Spec{Shards: makeShards(nodeNames(1), 1), Ordered: true}}
		r.pass(time.Second, true)
		require.True(t, r.c.Awaits(r.now, r.effect.ID, "x"))
		require.False(t, r.c.Awaits(r.now, r.effect.ID-1, "x"))
		require.False(t, r.c.Awaits(r.now, r.effect.ID, "y"))
		change(r)
		require.False(t, r.c.Awaits(r.now, r.effect.ID, "x"), name)
	}
}

// While the leader unbinds a shard nobody may begin to bind it again.
func TestNothingIsAdoptedWhileShardsAreUnbound(t *testing.T) {
	r := newCoreRig(t)
	r.lead()
	want := func(shards int) {
		r.own["x"] = ExchangeReport{Want: Spec{Shards: makeShards(nodeNames(1), shards), Ordered: true}}
		r.pass(time.Second, true)
	}
	done := func(kind EffectKind) {
		for r.effect == nil || r.effect.Effect != kind {
			r.pass(time.Second, true)
		}
		r.c.Done(r.now, r.effect.ID, "x", Outcome{OK: true})
		r.take()
	}
	want(1)
	done(PrepareEffect)
	for r.effect.Effect != RetireEffect {
		r.pass(time.Second, true)
	}
	want(2)
	require.Nil(t, r.c.Plan("x").Next)
	require.Len(t, r.c.Plan("x").Old, 1)
	done(RetireEffect)
	r.pass(100*time.Millisecond, true)
	require.Len(t, r.c.Plan("x").Next, 2)
	require.Empty(t, r.c.Plan("x").Old)
}
