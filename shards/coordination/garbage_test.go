package coordination

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whatever term or leader somebody makes up, the next election is above it and the
// leader's own messages are understood.
func TestLeadsAgainAfterAbsurdTerms(t *testing.T) {
	for name, stamp := range map[string]Stamp{
		"almost the last term": {Ballot: Ballot{math.MaxUint64 / 4, "z"}, Version: 1},
		"the last version":     {Ballot: Ballot{9, "z"}, Version: math.MaxUint64},
		"its own name":         {Ballot: Ballot{9, "me"}, Version: 1},
	} {
		for _, kind := range []Kind{StateKind, BeatKind, ReportKind} {
			t.Run(name+" in a "+string(kind), func(t *testing.T) {
				r := newCoreRig(t)
				r.lead()
				body := encode(&Message{
					Kind: kind, From: "z", Seq: 1, Stamp: stamp, Promised: stamp.Ballot,
					State: &State{Stamp: stamp, Exchanges: map[string]*Entry{}},
				})
				m, err := DecodeMessage(body)
				require.NoError(t, err)
				r.c.Receive(r.now, m)
				r.take()
				r.seq["z"] = 1
				require.True(t, r.resign, "it is obeyed no more")
				r.c.Elected(r.now, nil)
				r.take()
				ballot := r.c.known.Ballot
				require.Positive(t, ballot.compare(stamp.Ballot))
				r.pass(time.Second, true)
				r.report("b", ballot, 0)
				r.report("z", ballot, 0)
				r.pass(time.Second, true)
				require.True(t, r.c.leading())
			})
		}
	}
}

func TestTermsBeginAgain(t *testing.T) {
	last := Ballot{math.MaxUint64, "a"}
	require.Equal(t, Ballot{1, "b"}, last.next("b"))
	require.Positive(t, last.next("b").compare(last))
	require.Positive(t, last.compare(Ballot{}))
	require.Negative(t, Ballot{}.compare(Ballot{1, ""}))
}

// A state in the leader's name that it did not decide would count for more than
// all that it decides later.
func TestResignsWhenImitated(t *testing.T) {
	for _, kind := range []Kind{StateKind, ReportKind} {
		r := newCoreRig(t)
		stamp := Stamp{Ballot: r.lead(), Version: r.c.known.Version + 1}
		r.c.Receive(r.now, &Message{
			Kind: kind, From: "z", Seq: 1, Promised: stamp.Ballot, Applied: stamp, State: &State{Stamp: stamp},
		})
		r.take()
		require.True(t, r.resign, kind)
	}
}

// A beat that was never sent does not come back.
func TestBeatsOfOthersAreNoEcho(t *testing.T) {
	r := newCoreRig(t)
	ballot := r.lead()
	r.c.Receive(r.now, &Message{Kind: BeatKind, From: "me", Seq: math.MaxUint64, Stamp: Stamp{Ballot: ballot}})
	for range 5 {
		r.report("b", ballot, r.c.known.Version)
		r.pass(time.Second, true)
		require.True(t, r.c.leading())
	}
}

func TestProxiesAreBounded(t *testing.T) {
	r := newCoreRig(t)
	for i := range 2 * maxMembers {
		r.c.Receive(r.now, &Message{Kind: ReportKind, From: "p" + strconv.Itoa(i), Seq: 1})
	}
	require.Len(t, r.c.members, maxMembers)
	for range 120 {
		r.now += time.Second
		r.c.Tick(r.now)
		r.take()
	}
	r.report("b", Ballot{}, 0)
	require.NotNil(t, r.c.members["b"], "those made up are forgotten")
}

func TestDecodeRefusesImpossibleShards(t *testing.T) {
	good := Layout{Generation: 1, Set: []Shard{{Queue: "q"}}}
	with := func(change func(l *Layout)) Layout {
		l := good
		change(&l)
		return l
	}
	state := func(l Layout) []byte {
		return encode(&Message{Kind: StateKind, State: &State{Exchanges: map[string]*Entry{"x": {Layout: l}}}})
	}
	_, err := DecodeMessage(state(good))
	require.NoError(t, err)
	for name, l := range map[string]Layout{
		"no shards":       with(func(l *Layout) { l.Set = nil }),
		"no generation":   with(func(l *Layout) { l.Generation = 0 }),
		"the last number": with(func(l *Layout) { l.Generation = math.MaxUint64 }),
		"a shard twice":   with(func(l *Layout) { l.Set = append(l.Set, l.Set[0]) }),
		"no name":         with(func(l *Layout) { l.Next = []Shard{{}} }),
		"a name too long": with(func(l *Layout) { l.Old = []OldShard{{Shard: Shard{Queue: strings.Repeat("q", 256)}}} }),
		"no known phase":  with(func(l *Layout) { l.Old = []OldShard{{Shard: Shard{Queue: "r"}, Phase: "gone"}} }),
		"old and in use":  with(func(l *Layout) { l.Old = []OldShard{{Shard: l.Set[0], Phase: Bound}} }),
		"old and to come": with(func(l *Layout) {
			l.Next, l.Old = []Shard{{Queue: "r"}}, []OldShard{{Shard: Shard{Queue: "r"}, Phase: Unbound}}
		}),
		"beyond all bounds": with(func(l *Layout) { l.Next = makeShards(nodeNames(1), maxShards+1) }),
	} {
		_, err := DecodeMessage(state(l))
		require.ErrorIs(t, err, errShards, name)
		body, err := json.Marshal(stored{V: wireVersion, State: &State{Exchanges: map[string]*Entry{"x": {Layout: l}}}})
		require.NoError(t, err)
		_, err = DecodeState(body)
		require.ErrorIs(t, err, errShards, name)
	}
	bad := []Shard{{Queue: "q"}, {Queue: "q"}}
	for name, m := range map[string]*Message{
		"wanted": {Exchanges: map[string]ExchangeReport{"x": {Want: Spec{Shards: bad}}}},
		"found":  {Exchanges: map[string]ExchangeReport{"x": {Found: bad}}},
		"own":    {Own: map[string][]Shard{"x": bad}},
	} {
		m.Kind = ReportKind
		_, err := DecodeMessage(encode(m))
		require.ErrorIs(t, err, errShards, name)
	}
	_, err = DecodeMessage(encode(&Message{Kind: ReportKind, From: strings.Repeat("p", 256)}))
	require.ErrorIs(t, err, errNames)
}

// Exchanges under a pattern may come and go for ever.
func TestPlansAreForgotten(t *testing.T) {
	c := NewCore("me", true, Timing{Forget: time.Minute})
	report := map[string]ExchangeReport{"x": {Want: Spec{Shards: makeShards(nodeNames(1), 2)}}}
	c.Own(0, report)
	require.NotNil(t, c.Plan("x"))
	c.Own(time.Second, nil)
	for at := time.Second; at < 3*time.Minute; at += time.Second {
		c.Tick(at)
	}
	require.Nil(t, c.Plan("x"))
	c.Own(3*time.Minute, report)
	require.NotNil(t, c.Plan("x"))
}
