package inventory

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards"
	"github.com/shardmq/shardmq/shards/coordination"
)

// resizing is what two proxies say of an exchange that is going from four shards
// to two while a third one is drained.
func resizing() *View {
	v := &View{}
	v.Add(&coordination.Message{Kind: coordination.StateKind, State: &coordination.State{
		Stamp: coordination.Stamp{Ballot: coordination.Ballot{Term: 3, Leader: "4f2a"}, Version: 7},
		Exchanges: map[string]*coordination.Entry{"images": {Layout: coordination.Layout{
			Generation: 2,
			Set:        []coordination.Shard{shardOf("images", "rabbit@a", 0), shardOf("images", "rabbit@b", 0)},
			Next:       []coordination.Shard{shardOf("images", "rabbit@a", 0), shardOf("images", "rabbit@a", 1)},
			Old:        []coordination.OldShard{{Shard: shardOf("images", "rabbit@a", 2), Phase: coordination.Bound}},
		}}},
	}})
	for _, id := range []string{"4f2a", "77aa"} {
		v.Add(&coordination.Message{Kind: coordination.ReportKind, From: id, Seq: 1, Exchanges: map[string]coordination.ExchangeReport{
			"images": {Unsettled: map[string]int{shards.QueueName("images", "rabbit@a", 2): 1}},
		}})
	}
	return v
}

func manyQueues() *cluster {
	return &cluster{queues: map[string]*queue{
		"sharding: images - rabbit@a - 0":  {ready: 30, consumers: 1},
		"sharding: images - rabbit@a - 1":  {},
		"sharding: images - rabbit@a - 2":  {ready: 7, consumers: 2},
		"sharding: images - rabbit@a - 17": {},
		"sharding: images - rabbit@b - 0":  {ready: 10, consumers: 1, grows: 5},
		"sharding: images - 3":             {ready: 1},
		"sharding: imagesque - 0":          {ready: 1},
	}}
}

func TestListGolden(t *testing.T) {
	none := Stats{Unacked: new(int64(0))}
	for _, c := range []struct {
		name  string
		down  bool
		view  *View
		stats map[string]Stats
	}{
		{name: "alone"},
		{name: "resizing", view: resizing()},
		{name: "down", down: true, view: resizing()},
		{name: "management", stats: map[string]Stats{
			"sharding: images - rabbit@a - 0": {Unacked: new(int64(3)), Publish: 12.5, Deliver: 11, Type: "classic", Node: "rabbit@a"},
			"sharding: images - rabbit@a - 1": none, "sharding: images - rabbit@a - 2": none, "sharding: images - rabbit@a - 17": none,
			"sharding: images - rabbit@b - 0": none, "sharding: images - 3": {Unacked: new(int64(0)), Type: "quorum", Node: "rabbit@b"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := manyQueues().options(t, c.down)
				o.Interval = 2 * time.Second
				if c.view != nil {
					o.Listen = func(context.Context, time.Duration) (*View, error) { return c.view, nil }
				}
				if c.stats != nil {
					o.Stats = func(context.Context) (map[string]Stats, error) { return c.stats, nil }
				}
				l, err := List(t.Context(), o)
				require.NoError(t, err)
				var table, json bytes.Buffer
				require.NoError(t, WriteTable(&table, []*Listing{l}))
				golden(t, c.name+".txt", table.Bytes())
				require.NoError(t, WriteJSON(&json, l))
				golden(t, c.name+".json", json.Bytes())
			})
		})
	}
}

// Queues are counted at their own node only: another one may block for a minute
// over those of a node that is down.
func TestQueuesAreCountedAtTheirNode(t *testing.T) {
	c := manyQueues()
	o := c.options(t, true)
	o.Listen = func(context.Context, time.Duration) (*View, error) { return resizing(), nil }
	_, err := List(t.Context(), o)
	require.NoError(t, err)
	for _, each := range c.asked {
		if node, queue, _ := strings.Cut(each, " "); strings.Contains(queue, "rabbit@") {
			require.Contains(t, queue, node)
		}
	}
}

func TestSearchEndsAfterMisses(t *testing.T) {
	c := &cluster{queues: map[string]*queue{
		"sharding: x - rabbit@a - 15": {}, "sharding: x - rabbit@a - 31": {}, "sharding: x - rabbit@b - 90": {},
	}}
	o := c.options(t, false)
	o.Exchanges = []string{"x"}
	l, err := List(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, map[string]Status{"sharding: x - rabbit@a - 15": Surplus, "sharding: x - rabbit@a - 31": Surplus}, statuses(l.Exchanges[0]))
	require.Empty(t, l.Exchanges[0].Policy)

	o.Exchanges = []string{strings.Repeat("x", 250)}
	l, err = List(t.Context(), o)
	require.NoError(t, err)
	require.Empty(t, l.Exchanges[0].Shards, "no such name fits")
}

// What this configuration asks for and the leader does not know yet is to come.
func TestNewerConfigurationThanTheProxies(t *testing.T) {
	o := manyQueues().options(t, false)
	o.Policies = shards.NewPolicies([]*shards.Policy{policy(t, "images", shards.Definition{ShardsPerNode: 3})})
	o.Listen = func(context.Context, time.Duration) (*View, error) { return resizing(), nil }
	l, err := List(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, map[string]Status{
		"sharding: images - rabbit@a - 0": Active, "sharding: images - rabbit@a - 1": Coming, "sharding: images - rabbit@a - 2": Draining,
		"sharding: images - rabbit@b - 0": Active, "sharding: images - rabbit@b - 1": Coming, "sharding: images - rabbit@b - 2": Coming,
		"sharding: images - rabbit@a - 17": Surplus, "sharding: images - 3": Surplus,
	}, statuses(l.Exchanges[0]))
}

func TestListErrors(t *testing.T) {
	c := &cluster{}
	o := c.options(t, false)
	o.Brokers = []Broker{&node{cluster: c, name: "rabbit@a", down: true}}
	_, err := List(t.Context(), o)
	require.ErrorIs(t, err, ErrNoNode)
	require.ErrorIs(t, err, shards.ErrUnreachable)

	boom := errors.New("boom")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(boom)
	o = c.options(t, false)
	o.Interval = time.Hour
	_, err = List(ctx, o)
	require.ErrorIs(t, err, boom)
}

func TestNothingToList(t *testing.T) {
	c := &cluster{}
	o := c.options(t, false)
	o.Policies = shards.NewPolicies(nil)
	l, err := List(t.Context(), o)
	require.NoError(t, err)
	var table bytes.Buffer
	require.NoError(t, WriteTable(&table, []*Listing{l}))
	require.Contains(t, table.String(), "no exchange to look at")
	o.Exchanges = []string{"none"}
	l, err = List(t.Context(), o)
	require.NoError(t, err)
	table.Reset()
	require.NoError(t, WriteTable(&table, []*Listing{l}))
	require.Equal(t, "none (vhost /): 0 shards; no policy; 0 proxies\nno shards\n", table.String())
}

func TestViewTakesTheLatest(t *testing.T) {
	v := &View{}
	report := func(seq uint64, bye bool) {
		v.Add(&coordination.Message{Kind: coordination.ReportKind, From: "p", Seq: seq, Bye: bye,
			Exchanges: map[string]coordination.ExchangeReport{"x": {Unsettled: map[string]int{"q": int(seq)}}}})
	}
	report(2, false)
	report(1, false)
	require.Equal(t, map[string]int{"p": 2}, v.unsettled("x", "q"))
	report(3, true)
	require.Zero(t, v.Proxies())

	state := func(term, version uint64) {
		v.Add(&coordination.Message{Kind: coordination.StateKind, State: &coordination.State{
			Stamp: coordination.Stamp{Ballot: coordination.Ballot{Term: term}, Version: version}}})
	}
	state(2, 1)
	state(1, 9)
	require.EqualValues(t, 2, v.State.Term)
	state(2, 3)
	state(2, 2)
	require.EqualValues(t, 3, v.State.Version)
	require.True(t, v.Led)
	v = &View{}
	v.Add(&coordination.Message{Kind: coordination.BeatKind})
	require.True(t, v.Led)
}
