package coordination

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func aloneNode(t *testing.T, spec Spec) (*Node, *fakeParticipant) {
	f := newFakeParticipant(map[string]Spec{"x": spec})
	n := NewNode(NodeOptions{Participant: f})
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n, f
}

// Alone, everything is decided before Changed returns, without Start.
func TestAloneDecidesAtOnce(t *testing.T) {
	n, f := aloneNode(t, Spec{Shards: makeShards(nodeNames(1), 4)})
	p, err := n.Plan(context.Background(), "x")
	require.NoError(t, err)
	require.Equal(t, uint64(1), p.Generation)
	require.Len(t, p.Set, 4)

	f.join("x", ConsumerReport{ID: 1})
	n.Changed("x")
	require.Len(t, f.targets("x", 1), 4)

	f.join("x", ConsumerReport{ID: 2})
	n.Changed("x")
	require.Len(t, f.targets("x", 1), 2, "half is taken away")
	require.Empty(t, f.targets("x", 2), "and granted only when it is let go of")
	require.True(t, f.release("x"))
	n.Changed("x")
	require.Len(t, f.targets("x", 2), 2)

	calls := f.calls
	n.Changed("x")
	require.Equal(t, calls, f.calls, "nothing changes when nothing has changed")

	s := n.Status()
	require.True(t, s.Leads)
	require.Equal(t, uint64(2), s.Moves)
	require.Empty(t, s.Exchanges["x"].Uncovered)
	require.Len(t, s.Exchanges["x"].Owners, 4)

	f.leave("x", 1)
	n.Changed("x")
	require.Len(t, f.targets("x", 2), 2, "the one that left still holds its shards")
	f.release("x")
	n.Changed("x")
	require.Len(t, f.targets("x", 2), 4)
}

func TestAloneExclusive(t *testing.T) {
	n, f := aloneNode(t, Spec{Shards: makeShards(nodeNames(1), 4)})
	f.join("x", ConsumerReport{ID: 1})
	f.join("x", ConsumerReport{ID: 2, Exclusive: true})
	n.Changed("x")
	require.Empty(t, f.targets("x", 1))
	require.Len(t, f.targets("x", 2), 4)
}

func TestAloneOrderedLeavesWaiting(t *testing.T) {
	n, f := aloneNode(t, Spec{Shards: makeShards(nodeNames(1), 1), Ordered: true})
	f.join("x", ConsumerReport{ID: 1})
	f.join("x", ConsumerReport{ID: 2})
	n.Changed("x")
	require.Len(t, f.targets("x", 1), 1)
	require.Empty(t, f.targets("x", 2))
}

func TestPlanWaitsForTheReport(t *testing.T) {
	n, _ := aloneNode(t, Spec{Shards: makeShards(nodeNames(1), 1)})
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := n.Plan(ctx, "other")
	require.ErrorIs(t, err, ErrNoPlan)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Empty(t, n.waiters, "nobody waits any more")
	require.NoError(t, n.Close())
	_, err = n.Plan(context.Background(), "x")
	require.ErrorIs(t, err, ErrClosed)
}

// namer knows shards by their names; it is a Logger too.
type namer struct {
	*fakeParticipant
	warned []string
}

func (namer) IsShard(_, queue string) bool     { return queue != "orders" }
func (namer) Info(string, ...any)              {}
func (n *namer) Warn(_ string, keyvals ...any) { n.warned = append(n.warned, keyvals[1].(string)) }
func received(m *Message) Event                { return Event{Kind: Received, Body: encode(m)} }
func foundBy(queue string) map[string]ExchangeReport {
	return map[string]ExchangeReport{"x": {Found: []Shard{{Queue: queue}}}}
}

// Nobody gets any queue consumed and deleted that is not a shard, by a report or by
// a state; and what is not taken is said, but not each time.
func TestNodeTakesOnlyShards(t *testing.T) {
	p := &namer{fakeParticipant: newFakeParticipant(map[string]Spec{"x": {Shards: makeShards(nodeNames(1), 1)}})}
	n := NewNode(NodeOptions{Participant: p, Log: p})
	defer func() { require.NoError(t, n.Close()) }()
	for range 3 {
		n.event(received(&Message{Kind: ReportKind, From: "b", Seq: 1, Exchanges: foundBy("orders")}))
	}
	require.Nil(t, n.core.members["b"])
	require.Equal(t, []string{errShards.Error()}, p.warned)
	n.event(received(&Message{Kind: ReportKind, From: "b", Seq: 1, Exchanges: foundBy("q")}))
	require.NotNil(t, n.core.members["b"])

	state := &State{Exchanges: map[string]*Entry{"x": {Layout: Layout{Generation: 1, Set: []Shard{{Queue: "orders"}}}}}}
	got, err := n.decodeState(encodeState(state))
	require.ErrorIs(t, err, errShards)
	require.Nil(t, got)
	_, err = n.decode(encode(&Message{Kind: StateKind, State: state}))
	require.ErrorIs(t, err, errShards)
}

// mute is a Transport on which nothing happens.
type mute struct{}

func (mute) ID() string                                  { return "me" }
func (mute) Events() <-chan Event                        { return nil }
func (mute) Send(context.Context, []byte) error          { return nil }
func (mute) Store(context.Context, []byte) error         { return nil }
func (mute) Resign()                                     {}
func (mute) Alive(context.Context, string) (bool, error) { return true, nil }
func (mute) Close() error                                { return nil }

// piecemeal is a participant that can report on one exchange alone.
type piecemeal struct{ *fakeParticipant }

func (p piecemeal) ReportOn(exchange string) (ExchangeReport, bool) {
	r, ok := p.Report()[exchange]
	return r, ok
}

// A process that goes on after it was stopped drops what it may not begin on any more,
// of all exchanges, whatever comes first.
func TestNodeWakesAtWhateverComesFirst(t *testing.T) {
	for name, first := range map[string]func(n *Node){
		"a change":    func(n *Node) { n.Changed("x") },
		"a message":   func(n *Node) { n.event(received(&Message{Kind: WhoKind})) },
		"an answer":   func(n *Node) { n.begin(Output{Kind: AliveOutput, Proxy: "z"}); synctest.Wait() },
		"the clock":   func(n *Node) { n.tick() },
		"cut off too": func(n *Node) { n.event(Event{Kind: Disconnected}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				want := Spec{Shards: makeShards(nodeNames(1), 1), Ordered: true}
				p := piecemeal{newFakeParticipant(map[string]Spec{"x": want, "y": want})}
				p.join("y", ConsumerReport{ID: 1})
				n := NewNode(NodeOptions{Participant: p, Transport: mute{}})
				defer n.Close()
				n.event(Event{Kind: Connected})
				time.Sleep(time.Second)
				n.tick()
				n.event(received(&Message{Kind: StateKind, State: &State{
					Stamp: Stamp{Ballot{9, "z"}, 1}, Proxies: map[string]uint64{"me": 1, "z": 1},
					Exchanges: map[string]*Entry{"y": {
						Layout: Layout{Generation: 1, Set: want.Shards, Ordered: true}, Grants: Grants{"me": {1: {want.Shards[0].Queue}}},
					}},
				}}))
				require.Len(t, p.targets("y", 1), 1)
				time.Sleep(10 * time.Second)
				first(n)
				require.Empty(t, p.targets("y", 1))
			})
		})
	}
}

// remover counts what it is asked to remove.
type remover struct {
	Topologist
	asked int
}

func (r *remover) Remove(context.Context, string, Shard) (bool, error) {
	r.asked++
	return true, nil
}

// What has waited for its turn is not done if nobody waits for it any more.
func TestNodeRemovesOnlyWhatIsAwaited(t *testing.T) {
	r := &remover{}
	n := NewNode(NodeOptions{Participant: nobody{}, Topologist: r})
	defer n.Close()
	n.affect(Output{Kind: EffectOutput, ID: 99, Exchange: "x", Effect: RemoveEffect, Shards: makeShards(nodeNames(1), 1)})
	require.Zero(t, r.asked)
}
