package coordination

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func exampleState() *State {
	return &State{
		Stamp: Stamp{Ballot: Ballot{Term: 3, Leader: "a"}, Version: 9},
		Exchanges: map[string]*Entry{"x": {
			Layout: Layout{
				Generation: 4, Key: "k", Ordered: true, Set: makeShards(nodeNames(1), 2), Next: makeShards(nodeNames(1), 3),
				Old:        []OldShard{{Shard: Shard{Queue: "old", Node: "rabbit@b", Index: 1}, Phase: Unbound}},
				Superseded: []string{"j"},
			},
			Grants: Grants{"a": {1: {"q"}}, "b": {7: {"r", "s"}}}, Exclusive: "b", Moves: 5,
		}},
	}
}

func exampleReport() *Message {
	return &Message{
		Kind: ReportKind, From: "b", Seq: 8, Promised: Ballot{3, "a"}, Applied: Stamp{Ballot{3, "a"}, 9}, Bye: true,
		Exchanges: map[string]ExchangeReport{"x": {
			Want: Spec{Shards: makeShards(nodeNames(1), 1), Ordered: true}, Prepared: 2, Routing: 1,
			Consumers: []ConsumerReport{{ID: 7, Node: "rabbit@a", Exclusive: true, Left: true, Held: []string{"r"}}},
			Unsettled: map[string]int{"r": 3},
		}},
		Own: map[string][]Shard{"x": makeShards(nodeNames(1), 1)},
	}
}

func TestMessagesSurviveTheWire(t *testing.T) {
	for _, m := range []*Message{
		exampleReport(),
		{Kind: StateKind, From: "a", State: exampleState()},
		{Kind: BeatKind, From: "a", Seq: 3, Stamp: Stamp{Ballot{3, "a"}, 9}},
	} {
		got, err := DecodeMessage(encode(m))
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
	who, err := DecodeMessage(Who(""))
	require.NoError(t, err)
	require.Equal(t, WhoKind, who.Kind)
	state, err := DecodeState(encodeState(exampleState()))
	require.NoError(t, err)
	require.Equal(t, exampleState(), state)
}

func TestDecodeRefuses(t *testing.T) {
	_, err := DecodeMessage(make([]byte, MaxMessage+1))
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = DecodeState(make([]byte, MaxMessage+1))
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = DecodeMessage([]byte(`{"v":2,"kind":"who"}`))
	require.ErrorIs(t, err, ErrVersion)
	_, err = DecodeState([]byte(`{"v":2,"state":{}}`))
	require.ErrorIs(t, err, ErrVersion)
	_, err = DecodeMessage([]byte(`{"v":1,"kind":"song"}`))
	require.ErrorIs(t, err, ErrKind)
	for _, body := range []string{"", "{", "[]", `{"v":1,"kind":"state"}`} {
		_, err = DecodeMessage([]byte(body))
		require.Error(t, err, body)
	}
	_, err = DecodeState([]byte(`{"v":1}`))
	require.Error(t, err)
}

func TestNewer(t *testing.T) {
	older, later := exampleState(), exampleState()
	later.Version++
	next := exampleState()
	next.Term, next.Version = 4, 1
	order := [][]byte{[]byte("not a state"), encodeState(older), encodeState(later), encodeState(next)}
	for i := range order {
		for j := range order {
			require.Equal(t, i > j, Newer(order[i], order[j]) && i != 0, "%d, %d", i, j)
		}
	}
}

// Whatever a message says, a core takes it, as a member and as a leader.
func FuzzReceive(f *testing.F) {
	f.Add(encode(exampleReport()))
	f.Add(encode(&Message{Kind: StateKind, From: "a", State: exampleState()}))
	f.Add(encode(&Message{Kind: BeatKind, From: "a", Seq: 3, Stamp: Stamp{Ballot{3, "a"}, 9}}))
	f.Add(Who("z"))
	f.Add([]byte(`{"v":1,"kind":"state","state":{"term":1,"exchanges":{"x":null,"y":{"set":[{}]}}}}`))
	f.Add([]byte(`{"v":1,"kind":"report","from":"b","seq":1,"exchanges":{"x":{"want":{"shards":[{},{}]},"consumers":[{"id":1},{"id":1}]}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := DecodeMessage(body)
		if err != nil {
			return
		}
		again, err := DecodeMessage(encode(m))
		require.NoError(t, err)
		want, _ := json.Marshal(m)
		got, _ := json.Marshal(again)
		require.JSONEq(t, string(want), string(got))
		for _, leads := range []bool{false, true} {
			c := NewCore("me", leads, Timing{})
			own := map[string]ExchangeReport{"x": exampleReport().Exchanges["x"]}
			c.Connected(1)
			c.Own(1, own)
			for second := range 10 {
				at := time.Duration(second) * time.Second
				c.Receive(at, m)
				c.Own(at, own)
				c.Tick(at)
				c.Take()
			}
			require.NotNil(t, c.status(c.now).Exchanges)
		}
	})
}

// Whatever was stored, a leader begins with it.
func FuzzElected(f *testing.F) {
	f.Add(encodeState(exampleState()))
	f.Add([]byte(`{"v":1,"state":{"term":18446744073709551615,"exchanges":{"x":null,"y":{"grants":{"me":{"1":["q"]}}}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := DecodeState(body)
		if err != nil {
			return
		}
		c := NewCore("me", false, Timing{})
		c.Connected(1)
		c.Elected(1, s)
		for _, out := range c.Take() {
			if out.Kind == StoreOutput {
				c.Stored(2, out.ID, nil)
			}
		}
		for second := range 10 {
			at := time.Duration(second) * time.Second
			c.Own(at, map[string]ExchangeReport{"x": exampleReport().Exchanges["x"]})
			c.Tick(at)
			for _, out := range c.Take() {
				if out.Slot == BeatKind {
					beat, err := DecodeMessage(out.Body)
					require.NoError(t, err)
					c.Receive(at, beat)
				}
			}
		}
	})
}

// A layout that was stored counts for the next leader even if the former one was
// heard of later without it: it may have told it to some.
func TestStoredLayoutsCount(t *testing.T) {
	ballot := Ballot{3, "a"}
	layout := func(shards int) Layout { return Layout{Generation: 1, Set: makeShards(nodeNames(1), shards)} }
	told := &State{Stamp: Stamp{ballot, 9}, Exchanges: map[string]*Entry{
		"x": {Layout: layout(2), Grants: Grants{"a": {1: {"q"}}}},
	}}
	stored := &State{Stamp: Stamp{ballot, 7}, Exchanges: map[string]*Entry{"x": {Layout: layout(3)}, "y": {Layout: layout(1)}}}
	latest := told.latest(stored)
	require.Equal(t, Stamp{ballot, 9}, latest.Stamp)
	require.Len(t, latest.Exchanges["x"].Set, 3)
	require.Equal(t, Grants{"a": {1: {"q"}}}, latest.Exchanges["x"].Grants)
	require.Len(t, latest.Exchanges["y"].Set, 1)
	require.Len(t, told.Exchanges["x"].Set, 2, "nothing is changed in place")

	stored.Ballot.Term = 2
	require.Len(t, told.latest(stored).Exchanges["x"].Set, 2, "of a former leader's nothing counts")
	stored.Ballot.Term = 4
	require.Len(t, told.latest(stored).Exchanges["x"].Set, 3)
	require.Nil(t, told.latest(stored).Exchanges["x"].Grants["a"])
	require.Len(t, told.latest(nil).Exchanges["x"].Set, 2)
}
