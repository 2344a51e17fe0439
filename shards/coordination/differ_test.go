package coordination

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// warnings collects what cores warn of.
type warnings []string

// drive lets the rig's time pass and collects warnings; others report as given.
func (r *coreRig) drive(d time.Duration, others map[string]Spec) (said warnings) {
	for end := r.now + d; r.now < end; {
		r.now += 200 * time.Millisecond
		r.c.Own(r.now, r.own)
		for _, id := range sortedKeys(others) {
			r.seq[id]++
			r.c.Receive(r.now, &Message{
				Kind: ReportKind, From: id, Seq: r.seq[id], Promised: r.c.known.Ballot, Applied: r.c.known.Stamp,
				Exchanges: map[string]ExchangeReport{"x": {Want: others[id]}},
			})
		}
		r.c.Tick(r.now)
		for _, out := range r.c.Take() {
			switch {
			case out.Kind == StoreOutput:
				r.c.Stored(r.now, out.ID, nil)
			case out.Slot == BeatKind:
				beat, err := DecodeMessage(out.Body)
				require.NoError(r.t, err)
				r.c.Receive(r.now, beat)
			case out.Warn:
				said = append(said, fmt.Sprint(out.Text, out.Fields))
			}
		}
	}
	return said
}

func placing(shards int, placement string) Spec {
	return Spec{Shards: makeShards(nodeNames(1), shards), Ordered: true, Placement: placement}
}

func TestPlacementIsNoPartOfTheKey(t *testing.T) {
	a, b := placing(2, "xxhash on routing key"), placing(2, "phash2 on routing key")
	require.Equal(t, a.Key(), b.Key())
	require.False(t, a.equal(b), "but it is news")
	m := &Message{Kind: ReportKind, From: "b", Seq: 1, Exchanges: map[string]ExchangeReport{"x": {Want: a}}}
	got, err := DecodeMessage(encode(m))
	require.NoError(t, err)
	require.Equal(t, m, got)
	a.Placement = string(make([]byte, MaxPlacement+1))
	m.Exchanges["x"] = ExchangeReport{Want: a}
	_, err = DecodeMessage(encode(m))
	require.ErrorIs(t, err, errPlacement)
}

// Who places otherwise than most is named once, and again when that has changed.
func TestLeaderWarnsOfOtherPlacements(t *testing.T) {
	r := newCoreRig(t)
	r.lead()
	r.own["x"] = ExchangeReport{Want: placing(2, "xxhash on routing key")}
	others := map[string]Spec{"b": placing(2, "xxhash on routing key"), "c": placing(2, ""), "d": placing(2, "phash2 on routing key")}
	said := r.drive(5*time.Second, others)
	require.Len(t, said, 1)
	for _, part := range []string{"exchange x", "proxies d", "differs placement", "theirs phash2 on routing key", "others xxhash on routing key"} {
		require.Contains(t, said[0], part)
	}
	require.Equal(t, 1, r.c.status(r.now).Exchanges["x"].Differing)
	require.Equal(t, uint64(1), r.c.known.Exchanges["x"].Generation, "nothing is changed by it")
	others["c"] = placing(2, "phash2 on message-id")
	said = r.drive(5*time.Second, others)
	require.Len(t, said, 1)
	require.Contains(t, said[0], "proxies c")
	require.Equal(t, 2, r.c.status(r.now).Exchanges["x"].Differing)
	others["c"], others["d"] = others["b"], others["b"]
	require.Empty(t, r.drive(5*time.Second, others))
	require.Zero(t, r.c.status(r.now).Exchanges["x"].Differing)
	others["d"] = placing(2, "phash2 on routing key")
	require.Len(t, r.drive(5*time.Second, others), 1, "it is back")
}

// A proxy with the file of yesterday is named when a minute has passed.
func TestLeaderWarnsOfWishesThatAreNotAdopted(t *testing.T) {
	r := newCoreRig(t)
	r.lead()
	r.own["x"] = ExchangeReport{Want: placing(3, "p"), Prepared: 1, Routing: 1}
	others := map[string]Spec{"b": placing(2, "p")}
	r.drive(time.Second, others)
	require.Len(t, r.c.layoutOf("x").Next, 3)
	require.Empty(t, r.drive(58*time.Second, others), "it may be about to be reloaded")
	require.Zero(t, r.c.status(r.now).Exchanges["x"].Differing)
	said := r.drive(6*time.Second, others)
	require.Len(t, said, 1)
	for _, part := range []string{"exchange x", "proxies b", "differs shards ", "theirs 2 (2 on rabbit@a)", "others 3 (3 on rabbit@a)"} {
		require.Contains(t, said[0], part)
	}
	require.Equal(t, 1, r.c.status(r.now).Exchanges["x"].Differing)
	require.Empty(t, r.drive(time.Minute, others), "once")
	others["b"] = placing(3, "p")
	require.Empty(t, r.drive(2*time.Second, others))
	require.Zero(t, r.c.status(r.now).Exchanges["x"].Differing)
}

// What is wanted otherwise has a name each.
func TestDifferencesFromWhatWasAdopted(t *testing.T) {
	l := firstLayout(placing(2, ""))
	for _, tt := range []struct {
		want                    Spec
		subject, theirs, others string
	}{
		{Spec{Shards: l.Set}, "max-consumers-per-shard", "unlimited", "1"},
		{Spec{Shards: l.Set, Ordered: true, Barrier: true}, "order-barrier", "true", "false"},
		{Spec{Shards: makeShards([]string{""}, 1)}, "shards, max-consumers-per-shard", "1, unlimited", "2 (2 on rabbit@a), 1"},
		{
			Spec{Shards: []Shard{{Queue: "a", Node: "rabbit@a"}, {Queue: "b", Node: "rabbit@a"}}, Ordered: true},
			"shards", "2 (2 on rabbit@a) by other names, or arranged otherwise", "2 (2 on rabbit@a)",
		},
	} {
		d := l.against(&tt.want)
		require.Equal(t, [3]string{tt.subject, tt.theirs, tt.others}, [3]string{d.subject, d.theirs, d.others})
	}
}
