package coordination

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// grants is a state of leader "z" that grants shards to this proxy's consumer 5.
func (r *coreRig) grants(version uint64, queues ...string) *Message {
	return &Message{Kind: StateKind, From: "z", State: &State{
		Stamp: Stamp{Ballot{9, "z"}, version}, Proxies: map[string]uint64{"me": r.c.seq, "z": 1},
		Exchanges: map[string]*Entry{"x": {
			Layout: Layout{Generation: 1, Set: r.own["x"].Want.Shards, Ordered: true}, Grants: Grants{"me": {5: queues}},
		}},
	}}
}

// A proxy that was stopped believes nothing that it was granted, before it hears what
// was said after it has gone on; what its consumers are attached to it keeps.
func TestStoppedProxyBelievesNothingOld(t *testing.T) {
	r := newCoreRig(t)
	one, two := r.own["x"].Want.Shards[0].Queue, r.own["x"].Want.Shards[1].Queue
	hear := func(m *Message) {
		if r.c.WantsReport(r.now, m) {
			r.c.Own(r.now, r.own)
		}
		r.c.Receive(r.now, m)
		r.take()
	}
	r.own["x"] = ExchangeReport{Want: r.own["x"].Want, Consumers: []ConsumerReport{{ID: 5}}}
	r.pass(time.Second, false)
	hear(r.grants(1, two))
	require.Equal(t, []string{two}, r.c.Plan("x").Targets[5])

	r.now += 10 * time.Second
	r.own["x"] = ExchangeReport{
		Want: r.own["x"].Want, Consumers: []ConsumerReport{{ID: 5, Held: []string{two}}}, Unsettled: map[string]int{two: 1},
	}
	hear(r.grants(2, one, two)) // from before
	require.Equal(t, []string{two}, r.c.Plan("x").Targets[5])
	stale := r.grants(3, one, two)
	r.pass(100*time.Millisecond, false)
	require.True(t, r.sent[ReportKind].Waking, "it asks")
	hear(stale)
	require.Equal(t, []string{two}, r.c.Plan("x").Targets[5], "a leader who has not heard of it since")
	hear(r.grants(3, one, two))
	require.Equal(t, []string{one, two}, r.c.Plan("x").Targets[5])
}

// It drops what it is not attached to at once, lest it begin there by what has long
// been somebody else's.
func TestStoppedProxyDropsWhatIsNotAttached(t *testing.T) {
	r := newCoreRig(t)
	one, two := r.own["x"].Want.Shards[0].Queue, r.own["x"].Want.Shards[1].Queue
	r.own["x"] = ExchangeReport{
		Want: r.own["x"].Want, Consumers: []ConsumerReport{{ID: 5, Held: []string{one, two}}}, Unsettled: map[string]int{two: 1},
	}
	r.pass(time.Second, false)
	r.c.Receive(r.now, r.grants(1, one, two))
	r.take()
	require.Equal(t, []string{one, two}, r.c.Plan("x").Targets[5])
	r.now += 10 * time.Second
	r.c.Own(r.now, r.own)
	require.Equal(t, []string{two}, r.c.Plan("x").Targets[5])
}

// A leader that was stopped decides nothing before it has collected reports.
func TestStoppedLeaderCollects(t *testing.T) {
	r := newCoreRig(t)
	ballot := r.lead()
	r.now += 10 * time.Second
	version := r.c.known.Version
	r.report("b", ballot, version) // its consumer has left
	require.False(t, r.c.leading())
	require.Equal(t, version, r.c.known.Version)
	r.pass(time.Second, true)
	r.report("b", ballot, version)
	r.pass(200*time.Millisecond, true)
	require.True(t, r.c.leading())
	require.Empty(t, r.granted("b", 1))
}
