package coordination

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Through any changes: a number is one set for ever, no shard that was told is
// lost before it is removed, and none is on its way out and wanted at once.
func TestLayoutProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := firstLayout(Spec{Shards: makeShards(nodeNames(1), 2)})
		numbers := map[uint64][]Shard{}
		gone := map[string]bool{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			before := union(l.Set, l.Next, l.in(Bound), l.in(Unbound), l.in(Closing))
			clear(gone)
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				want := Spec{Shards: makeShards(nodeNames(1), rapid.IntRange(1, 5).Draw(t, "n")), Ordered: rapid.Bool().Draw(t, "ordered")}
				if want.Key() != l.Key {
					l = l.adopt(want)
				}
			case 1:
				if l.Next != nil {
					l = l.switched()
				}
			case 5:
				l = l.paused(l.Next != nil)
			case 2:
				l = l.moved(l.in(Bound), Unbound)
			case 3:
				l = l.moved(l.in(Unbound), Closing)
			case 4:
				for _, s := range l.in(Closing) {
					l = l.removed(s.Queue)
					gone[s.Queue] = true
				}
			}
			after := union(l.Set, l.Next, l.in(Bound), l.in(Unbound), l.in(Closing))
			for _, s := range before {
				require.True(t, gone[s.Queue] || hasQueue(after, s.Queue), "%s is lost", s.Queue)
			}
			for _, old := range l.Old {
				require.False(t, hasQueue(l.Set, old.Queue) || hasQueue(l.Next, old.Queue), "%s is old and wanted", old.Queue)
			}
			require.NotContains(t, l.Superseded, l.Key)
			require.False(t, l.Paused && l.Next == nil, "publishes pause for nothing")
			for n, set := range map[uint64][]Shard{l.Generation: l.Set, l.Generation + 1: l.Next} {
				if former, told := numbers[n]; told && set != nil {
					require.Equal(t, former, set, "generation %d", n)
				}
				if set != nil {
					numbers[n] = set
				}
			}
		}
	})
}

func TestSupersededIsBounded(t *testing.T) {
	l := firstLayout(Spec{Shards: makeShards(nodeNames(1), 1)})
	for n := range 40 {
		l = l.adopt(Spec{Shards: makeShards(nodeNames(1), n+2)})
	}
	require.Len(t, l.Superseded, maxSuperseded)
}

func TestSpecKey(t *testing.T) {
	specs := []Spec{
		{}, {Ordered: true}, {Shards: makeShards(nodeNames(1), 2)}, {Shards: makeShards(nodeNames(2), 1)},
		{Shards: makeShards(nodeNames(1), 2), Ordered: true}, {Shards: []Shard{{Queue: "q", Node: "n"}}}, {Shards: []Shard{{Queue: "qn"}}},
	}
	keys := map[string]string{}
	for i, s := range specs {
		require.Equal(t, s.Key(), s.Key())
		require.NotContains(t, keys, s.Key())
		keys[s.Key()] = fmt.Sprint(i)
	}
}

// With more consumers than shards the last one on a shard stays until another has
// it for sure.
func TestSharedShardIsNeverLeftAlone(t *testing.T) {
	ballot := Ballot{1, "me"}
	w := newWork()
	stays := &candidate{consumerKey: consumerKey{"a", 1}, granted: []string{"q"}, wanted: []string{"r"}, applied: Stamp{ballot, 5}}
	comes := &candidate{consumerKey: consumerKey{"b", 1}, wanted: []string{"q"}, applied: Stamp{ballot, 5}}
	run := func(version uint64) granting {
		g := granting{w: w, cs: []*candidate{stays, comes}, shards: []Shard{{Queue: "q"}, {Queue: "r"}}, ballot: ballot, version: version}
		g.index()
		g.run()
		return g
	}
	require.True(t, run(6).waiting)
	require.Equal(t, []string{"q", "r"}, stays.granted)
	require.Equal(t, []string{"q"}, comes.granted)
	require.True(t, run(7).waiting, "b has not applied it")
	require.Equal(t, []string{"q", "r"}, stays.granted)
	comes.applied.Version = 6
	require.False(t, run(8).waiting)
	require.Equal(t, []string{"r"}, stays.granted)
}

// A closing shard is not deleted while any proxy has anything of it.
func TestClosingWaitsForAll(t *testing.T) {
	r := newCoreRig(t)
	ballot := r.lead()
	w := r.c.work("x")
	version := r.c.known.Version
	w.closing["q"] = version
	report := func(version uint64, x ExchangeReport) bool {
		r.seq["b"]++
		r.c.Receive(r.now, &Message{
			Kind: ReportKind, From: "b", Seq: r.seq["b"], Promised: ballot, Applied: Stamp{ballot, version},
			Exchanges: map[string]ExchangeReport{"x": x},
		})
		return r.c.released("x", "q", w)
	}
	want := r.own["x"].Want
	require.False(t, report(version-1, ExchangeReport{Want: want}), "it may still be about to consume")
	require.False(t, report(version, ExchangeReport{Want: want, Unsettled: map[string]int{"q": 1}}))
	require.False(t, report(version, ExchangeReport{Want: want, Consumers: []ConsumerReport{{ID: 1, Held: []string{"q"}}}}))
	require.True(t, report(version, ExchangeReport{Want: want, Unsettled: map[string]int{"r": 1}}))
}
