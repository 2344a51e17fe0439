package coordination

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// coreRig drives one Core by hand.
type coreRig struct {
	t      *testing.T
	c      *Core
	now    time.Duration
	sent   map[Kind]*Message // the last of each kind
	asked  []string
	effect *Output // the last one that was begun
	resign bool
	stores int
	hold   bool // stores take their time
	seq    map[string]uint64
	own    map[string]ExchangeReport
}

func newCoreRig(t *testing.T) *coreRig {
	r := &coreRig{
		t: t, c: NewCore("me", false, Timing{}), sent: make(map[Kind]*Message), seq: make(map[string]uint64),
		own: map[string]ExchangeReport{"x": {Want: Spec{Shards: makeShards(nodeNames(1), 2), Ordered: true}}},
	}
	r.c.Connected(0)
	r.take()
	return r
}

// take does what the core wants: stores work, beats come back.
func (r *coreRig) take() {
	for _, out := range r.c.Take() {
		switch out.Kind {
		case SendOutput:
			m, err := DecodeMessage(out.Body)
			require.NoError(r.t, err)
			r.sent[m.Kind] = m
		case StoreOutput:
			r.stores++
			if r.hold {
				continue
			}
			r.c.Stored(r.now, out.ID, nil)
			r.take()
		case AliveOutput:
			r.asked = append(r.asked, out.Proxy)
		case ResignOutput:
			r.resign = true
		case EffectOutput:
			r.effect = &out
		case ApplyOutput, SeenOutput, LogOutput, LockOutput, UnlockOutput:
		}
	}
}

// pass lets time pass; if echo, the leader's beats come back.
func (r *coreRig) pass(d time.Duration, echo bool) {
	for end := r.now + d; r.now < end; {
		r.now += 50 * time.Millisecond
		r.c.Own(r.now, r.own)
		r.c.Tick(r.now)
		r.take()
		if beat := r.sent[BeatKind]; beat != nil && echo {
			delete(r.sent, BeatKind)
			r.c.Receive(r.now, beat)
			r.take()
		}
	}
}

// report has another proxy report.
func (r *coreRig) report(from string, promised Ballot, version uint64, consumers ...ConsumerReport) {
	r.seq[from]++
	r.c.Receive(r.now, &Message{
		Kind: ReportKind, From: from, Seq: r.seq[from], Promised: promised, Applied: Stamp{promised, version},
		Exchanges: map[string]ExchangeReport{"x": {Want: r.own["x"].Want, Consumers: consumers}},
	})
	r.take()
}

func (r *coreRig) granted(proxy string, id uint64) []string {
	e := r.c.known.Exchanges["x"]
	if e == nil {
		return nil
	}
	return e.Grants[proxy][id]
}

// lead makes the core a leader that knows the proxy "b".
func (r *coreRig) lead() Ballot {
	r.c.Elected(r.now, nil)
	r.take()
	r.pass(100*time.Millisecond, true)
	ballot := r.c.known.Ballot
	r.report("b", ballot, 0, ConsumerReport{ID: 1})
	r.pass(time.Second, true)
	require.True(r.t, r.c.leading())
	return ballot
}

// A report counts only if it promises to obey nobody below the new leader: what
// the former one has sent could still arrive.
func TestLeaderWaitsForPromises(t *testing.T) {
	r := newCoreRig(t)
	r.report("b", Ballot{}, 0, ConsumerReport{ID: 1})
	r.c.Elected(r.now, nil)
	r.take()
	require.Equal(t, 1, r.stores, "the term is stored first")
	for range 4 {
		r.pass(500*time.Millisecond, true)
		r.report("b", Ballot{}, 0, ConsumerReport{ID: 1})
		require.False(t, r.c.leading())
	}
	r.report("b", r.c.known.Ballot, 0, ConsumerReport{ID: 1})
	r.pass(100*time.Millisecond, true)
	require.True(t, r.c.leading())
	require.Len(t, r.granted("b", 1), 2)
}

// What the stored state has granted to a proxy is held until that has reported,
// or is dead.
func TestGrantsOfStrangersAreHeld(t *testing.T) {
	stored := exampleState()
	stored.Exchanges["x"].Set, stored.Exchanges["x"].Next, stored.Exchanges["x"].Old = makeShards(nodeNames(1), 2), nil, nil
	r := newCoreRig(t)
	r.own["x"] = ExchangeReport{Want: r.own["x"].Want, Consumers: []ConsumerReport{{ID: 5}}}
	r.c.Elected(r.now, stored)
	r.take()
	r.report("c", Ballot{4, "me"}, 0)
	r.pass(2*time.Second, true)
	require.False(t, r.c.leading())
	require.Contains(t, r.asked, "a")
	require.Contains(t, r.asked, "b")
	r.c.Alive(r.now, "a", false, nil)
	r.c.Alive(r.now, "b", true, nil)
	r.report("c", Ballot{4, "me"}, 0)
	r.pass(500*time.Millisecond, true)
	require.False(t, r.c.leading(), "b is connected, and may only be slow")
	r.report("c", Ballot{4, "me"}, 0)
	r.pass(time.Second, true)
	require.True(t, r.c.leading(), "but not for ever")
	require.Len(t, r.granted("me", 5), 2)
}

// A leader whose own messages do not come back gives nobody up, and decides
// nothing until it has collected reports again.
func TestLeaderThatHearsNobodyDecidesNothing(t *testing.T) {
	r := newCoreRig(t)
	ballot := r.lead()
	require.Len(t, r.granted("b", 1), 2)
	r.pass(20*time.Second, false)
	require.False(t, r.c.leading())
	require.Contains(t, r.c.members, "b")
	r.pass(2*time.Second, true)
	require.False(t, r.c.leading(), "b has not reported since")
	r.report("b", ballot, r.c.known.Version, ConsumerReport{ID: 1, Held: r.granted("b", 1)})
	r.pass(200*time.Millisecond, true)
	require.True(t, r.c.leading())
	r.pass(5*time.Second, true)
	require.NotContains(t, r.c.members, "b", "now it is silent, and the leader is heard")
}

// Messages of a proxy that came while beats were on their way are a sign of life.
func TestExpiryCountsEchoes(t *testing.T) {
	r := newCoreRig(t)
	r.lead()
	b := r.c.members["b"]
	b.heard = r.now - 10*time.Second // as after a pause of this process
	r.c.lead.since = b.heard
	b.echoes = 0
	r.c.expire()
	require.Contains(t, r.c.members, "b")
	b.echoes = 3
	r.c.expire()
	require.NotContains(t, r.c.members, "b")
}

// A shard that was taken away is not granted to another before the former owner's
// proxy has applied that it was, whatever an earlier report of it says.
func TestRevokedUntilApplied(t *testing.T) {
	r := newCoreRig(t)
	ballot := r.lead()
	granted := r.granted("b", 1)
	require.Len(t, granted, 2)
	r.own["x"] = ExchangeReport{Want: r.own["x"].Want, Consumers: []ConsumerReport{{ID: 5}}}
	r.pass(100*time.Millisecond, true)
	require.Len(t, r.granted("b", 1), 1)
	r.report("b", ballot, 0, ConsumerReport{ID: 1}) // sent before the grants came to b
	require.Empty(t, r.granted("me", 5))
	r.report("b", ballot, r.c.known.Version, ConsumerReport{ID: 1, Held: granted}) // not settled yet
	require.Empty(t, r.granted("me", 5))
	r.report("b", ballot, r.c.known.Version, ConsumerReport{ID: 1, Held: r.granted("b", 1)})
	require.Len(t, r.granted("me", 5), 1)
}

func TestHigherBallotIsObeyed(t *testing.T) {
	r := newCoreRig(t)
	r.lead()
	r.c.Receive(r.now, &Message{Kind: BeatKind, From: "z", Stamp: Stamp{Ballot: Ballot{r.c.known.Term, "z"}}})
	r.take()
	require.True(t, r.resign, "two of one term: the higher ID leads")
	require.False(t, r.c.leading())
	former := r.c.applied
	r.c.Receive(r.now, &Message{Kind: StateKind, From: "a", State: &State{Stamp: Stamp{Ballot{r.c.promised.Term, "a"}, 99}}})
	require.Equal(t, former, r.c.applied, "a lower ballot is not")
}

func TestOldReportsAreIgnored(t *testing.T) {
	r := newCoreRig(t)
	ballot := r.lead()
	r.seq["b"] += 10
	r.report("b", ballot, 1)
	require.Empty(t, r.granted("b", 1))
	r.seq["b"] -= 5
	r.report("b", ballot, 1, ConsumerReport{ID: 1})
	require.Empty(t, r.granted("b", 1))
}

func TestReportsAfterGoodbyeAreIgnored(t *testing.T) {
	r := newCoreRig(t)
	ballot := r.lead()
	r.c.Receive(r.now, &Message{Kind: ReportKind, From: "b", Seq: 50, Bye: true})
	r.take()
	r.seq["b"] = 60
	r.report("b", ballot, 1, ConsumerReport{ID: 1})
	require.Empty(t, r.granted("b", 1))
	require.Equal(t, []string{"me"}, r.c.status(r.now).Proxies)
}

// Nobody hears of a set before it is stored; who consumes what goes on meanwhile.
func TestLayoutsAreStoredFirst(t *testing.T) {
	r := newCoreRig(t)
	r.lead()
	r.hold = true
	r.own["x"] = ExchangeReport{
		Want: Spec{Shards: makeShards(nodeNames(1), 3), Ordered: true}, Consumers: []ConsumerReport{{ID: 5}},
	}
	r.pass(time.Second, true)
	told := r.sent[StateKind].State.Exchanges["x"]
	require.Len(t, told.Set, 2)
	require.Nil(t, told.Next)
	require.Len(t, told.Grants["b"][1], 1)
	require.Nil(t, r.c.Plan("x").Next)
	r.c.Stored(r.now, r.c.lead.store.id, nil)
	r.take()
	r.pass(100*time.Millisecond, true)
	require.Len(t, r.sent[StateKind].State.Exchanges["x"].Next, 3)
	require.Len(t, r.c.Plan("x").Next, 3)
}

// What cannot be sent is no reason to wake up for, again and again.
func TestSleepsWhileNothingCanBeSent(t *testing.T) {
	r := newCoreRig(t)
	r.lead()
	r.pass(4*time.Second, false)
	require.True(t, r.c.lead.suspended)
	r.c.lead.dirty = true // a store has ended meanwhile
	r.c.Tick(r.now)
	require.Greater(t, r.c.Wake(), r.now)
	r.c.whoDue = true
	r.c.Disconnected(r.now)
	r.c.Own(r.now, r.own)
	r.c.Tick(r.now)
	require.Greater(t, r.c.Wake(), r.now)
}
