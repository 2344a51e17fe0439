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
	r.own["x"] = ExchangeReport{Want: r.own["x"].Want, Consumers: []ConsumerReport{{ID: 5}}}
	r.pass(time.Second, false)
	r.hear(r.grants(1, two))
	require.Equal(t, []string{two}, r.c.Plan("x").Targets[5])

	r.now += 10 * time.Second
	r.own["x"] = ExchangeReport{
		Want: r.own["x"].Want, Consumers: []ConsumerReport{{ID: 5, Held: []string{two}}}, Unsettled: map[string]int{two: 1},
	}
	r.hear(r.grants(2, one, two)) // from before
	require.Equal(t, []string{two}, r.c.Plan("x").Targets[5])
	stale := r.grants(3, one, two)
	r.pass(100*time.Millisecond, false)
	require.True(t, r.sent[ReportKind].Waking, "it asks")
	r.hear(stale)
	require.Equal(t, []string{two}, r.c.Plan("x").Targets[5], "a leader who has not heard of it since")
	r.hear(r.grants(3, one, two))
	require.Equal(t, []string{one, two}, r.c.Plan("x").Targets[5])
}

// hear has a message heard as Node has it.
func (r *coreRig) hear(m *Message) {
	if r.c.WantsReport(r.now, m) {
		r.c.Own(r.now, r.own)
	}
	r.c.Receive(r.now, m)
	r.take()
}

// holding makes a proxy that follows leader "z", was granted both shards and is attached
// to the second.
func holding(t *testing.T) (r *coreRig, one, two string) {
	r = newCoreRig(t)
	one, two = r.own["x"].Want.Shards[0].Queue, r.own["x"].Want.Shards[1].Queue
	r.attach(two)
	r.pass(time.Second, false)
	r.hear(r.grants(1, one, two))
	require.Equal(t, []string{one, two}, r.c.Plan("x").Targets[5])
	return r, one, two
}

// attach has consumer 5 hold all that it was granted, and be attached to some.
func (r *coreRig) attach(queues ...string) {
	k, unsettled := ConsumerReport{ID: 5}, make(map[string]int)
	for _, shard := range r.own["x"].Want.Shards {
		k.Held = append(k.Held, shard.Queue)
	}
	for _, queue := range queues {
		unsettled[queue] = 1
	}
	r.own["x"] = ExchangeReport{Want: r.own["x"].Want, Consumers: []ConsumerReport{k}, Unsettled: unsettled}
}

// A proxy without its connection may have been given up, while its clients' go on: it
// begins on nothing any more, and once it is connected again not before a leader has
// heard of it.
func TestCutOffProxyBeginsOnNothing(t *testing.T) {
	for _, away := range []time.Duration{time.Second, 10 * time.Second} { // in the second it comes to help itself
		r, one, two := holding(t)
		r.c.Disconnected(r.now)
		require.Equal(t, r.now, r.c.Wake())
		r.pass(away, false)
		require.Equal(t, []string{two}, r.c.Plan("x").Targets[5])
		stale := r.grants(2, one, two)
		r.attach() // it may be another's from now on
		r.pass(50*time.Millisecond, false)
		require.Empty(t, r.c.Plan("x").Targets)
		r.c.Connected(r.now)
		r.pass(100*time.Millisecond, false)
		r.hear(stale)
		require.Empty(t, r.c.Plan("x").Targets)
		r.hear(r.grants(3, one, two))
		require.Equal(t, []string{one, two}, r.c.Plan("x").Targets[5])
	}
}

// Others wait for Silent since a proxy's last report, and that may have been a while
// before it was stopped.
func TestStopsThatCountAreShorterThanSilence(t *testing.T) {
	for stop, counts := range map[time.Duration]bool{time.Second: false, 1600 * time.Millisecond: true} {
		r, one, two := holding(t)
		r.now += stop
		r.c.Own(r.now, r.own)
		want := []string{one, two}
		if counts {
			want = []string{two}
		}
		require.Equal(t, want, r.c.Plan("x").Targets[5], stop)
	}
}

// Before a proxy that was away takes shards by their locks, the others must have had the
// time to miss the leader and to lock what they hold.
func TestWhoWasAwayTakesNothingAtOnce(t *testing.T) {
	for name, away := range map[string]func(r *coreRig){
		"cut off": func(r *coreRig) { r.c.Disconnected(r.now); r.pass(20*time.Second, false); r.c.Connected(r.now) },
		"stopped": func(r *coreRig) { r.now += 20 * time.Second; r.pass(50*time.Millisecond, false) },
	} {
		r, _, _ := holding(t)
		r.c.local.lockable = true
		away(r)
		r.pass(4*time.Second, false)
		require.True(t, r.c.local.on, name)
		require.False(t, r.c.mayTake(), name)
		r.pass(2*time.Second, false)
		require.True(t, r.c.mayTake(), name)
	}
}

// What a leader has said before an alarm may come after it: it must not undo what was
// settled by locks meanwhile.
func TestStateFromBeforeAnAlarm(t *testing.T) {
	r, one, two := holding(t)
	stale := r.grants(2, one, two)
	r.pass(5*time.Second, false)
	require.True(t, r.c.local.on)
	require.Equal(t, []string{one, two}, r.c.Plan("x").Targets[5], "kept, under locks")
	r.hear(stale)
	require.Equal(t, []string{two}, r.c.Plan("x").Targets[5])
	r.hear(r.grants(3, one, two))
	require.Equal(t, []string{one, two}, r.c.Plan("x").Targets[5])
}

// It drops what it is not attached to at once, lest it begin there by what has long
// been somebody else's.
func TestStoppedProxyDropsWhatIsNotAttached(t *testing.T) {
	r, _, two := holding(t)
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
