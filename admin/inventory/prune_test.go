package inventory

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards"
	"github.com/shardmq/shardmq/shards/coordination"
)

const (
	surplusA = "sharding: images - rabbit@a - 2"
	surplusB = "sharding: images - rabbit@b - 3"
)

// pruned runs a removal of two surplus shards without waiting.
func pruned(t *testing.T, c *cluster, change func(*PruneOptions)) map[string]Verdict {
	t.Helper()
	o := PruneOptions{Options: c.options(t, false)}
	change(&o)
	o.Interval = 0
	p, err := prune(t.Context(), o, 0)
	require.NoError(t, err)
	out := map[string]Verdict{}
	for _, v := range p.Verdicts {
		out[v.Queue] = v
	}
	return out
}

func twoSurplus() *cluster {
	return &cluster{queues: map[string]*queue{
		"sharding: images - rabbit@a - 0": {ready: 5}, "sharding: images - rabbit@a - 1": {}, "sharding: images - rabbit@b - 0": {},
		surplusA: {}, surplusB: {},
	}}
}

func reporting(r coordination.ExchangeReport) *View {
	v := &View{}
	v.Add(&coordination.Message{Kind: coordination.ReportKind, From: "p1", Exchanges: map[string]coordination.ExchangeReport{"images": r}})
	return v
}

// deciding is what is heard while a leader is new: it leads, and has not decided.
func deciding() *View {
	v := reporting(coordination.ExchangeReport{})
	v.Add(&coordination.Message{Kind: coordination.BeatKind, From: "p1"})
	return v
}

// replaced is what is heard when surplusA is of a former set.
func replaced(phase coordination.Phase) *View {
	v := reporting(coordination.ExchangeReport{})
	v.Add(&coordination.Message{Kind: coordination.StateKind, State: &coordination.State{Exchanges: map[string]*coordination.Entry{
		"images": {Layout: coordination.Layout{Old: []coordination.OldShard{{Shard: shardOf("images", "rabbit@a", 2), Phase: phase}}}},
	}}})
	return v
}

// What keeps a shard; the other one goes in each case.
func TestPruneKeeps(t *testing.T) {
	silent := reporting(coordination.ExchangeReport{})
	silent.Silent = []string{"p2"}
	partial := reporting(coordination.ExchangeReport{})
	partial.unread("here", errors.New("boom"))
	for name, c := range map[string]struct {
		queue   queue
		view    *View
		stats   map[string]Stats
		kept    string // reason for surplusA; "" = it goes
		keptToo bool   // and the other one for the same reason
	}{
		"nothing":         {},
		"messages":        {queue: queue{ready: 2}, kept: "2 messages ready"},
		"a consumer":      {queue: queue{consumers: 1}, kept: "1 consumer"},
		"proxies run":     {view: reporting(coordination.ExchangeReport{})},
		"unsettled":       {view: reporting(coordination.ExchangeReport{Unsettled: map[string]int{surplusA: 1}}), kept: "a consumer or unacknowledged messages at proxy p1"},
		"wanted":          {view: reporting(coordination.ExchangeReport{Want: coordination.Spec{Shards: []coordination.Shard{shardOf("images", "rabbit@a", 2)}}}), kept: "the configuration of a running proxy asks for it"},
		"unacknowledged":  {stats: map[string]Stats{surplusA: {Unacked: new(int64(3))}}, kept: "3 messages unacknowledged"},
		"partial view":    {view: partial, kept: "what running proxies say could not be heard and read altogether (see the warnings), and they may hold messages of it", keptToo: true},
		"silent proxy":    {view: silent, kept: "a running proxy has not answered, and may hold messages of it: p2", keptToo: true},
		"nobody answers":  {view: &View{Led: true}, kept: "proxies run but have not answered (is RabbitMQ blocking publishers?)", keptToo: true},
		"no plan yet":     {view: deciding(), kept: "the leader has not told its plan yet", keptToo: true},
		"published to":    {view: replaced(coordination.Bound), kept: "proxies may still publish to it"},
		"drained":         {view: replaced(coordination.Unbound)},
		"replicated":      {stats: map[string]Stats{surplusA: {Type: "quorum"}}, kept: replicatedKept},
		"found out later": {queue: queue{replicated: true}, kept: replicatedKept},
	} {
		t.Run(name, func(t *testing.T) {
			for _, yes := range []bool{false, true} {
				all := twoSurplus()
				*all.queues[surplusA] = c.queue
				got := pruned(t, all, func(o *PruneOptions) {
					o.Yes = yes
					if c.view != nil {
						o.Listen = func(context.Context, time.Duration) (*View, error) { return c.view, nil }
					}
					if c.stats != nil {
						o.Stats = func(context.Context) (map[string]Stats, error) { return c.stats, nil }
					}
				})
				require.Len(t, got, 2)
				gone := []string{}
				if yes && !c.keptToo {
					gone = append(gone, surplusB)
					require.Equal(t, Deleted, got[surplusB].Action)
				}
				if yes && c.kept == "" {
					gone = append(gone, surplusA)
				}
				if c.kept != "" && (yes || !c.queue.replicated) {
					require.Equal(t, c.kept, got[surplusA].Reason)
					require.NotEqual(t, Deleted, got[surplusA].Action)
					require.NotEqual(t, Delete, got[surplusA].Action)
				}
				require.Equal(t, sorted(gone), sorted(all.deleted))
				require.NotNil(t, all.queues["sharding: images - rabbit@a - 1"], "what is wanted stays, empty as it is")
			}
		})
	}
}

func TestPruneForceDeletesReplicated(t *testing.T) {
	c := twoSurplus()
	c.queues[surplusA].replicated = true
	got := pruned(t, c, func(o *PruneOptions) { o.Yes, o.Force = true, true })
	require.Equal(t, Deleted, got[surplusA].Action)
	require.Equal(t, []string{surplusA, surplusB}, sorted(c.deleted))
}

// All bindings that proxies and the plugin make are undone first.
func TestPruneUnbindsFirst(t *testing.T) {
	c := twoSurplus()
	c.onUnbind = func() { c.queues[surplusA].ready++ } // a last message
	got := pruned(t, c, func(o *PruneOptions) {
		o.Yes = true
		o.Policies = shards.NewPolicies([]*shards.Policy{policy(t, "images", shards.Definition{ShardsPerNode: 2, RoutingKey: "1234"})})
		o.Brokers = o.Brokers[:1]
	})
	require.Equal(t, Kept, got[surplusA].Action)
	require.Equal(t, "a message has arrived meanwhile; it is unbound now, so no more will", got[surplusA].Reason)
	require.Empty(t, c.deleted)
	set := shards.SetOf("images", 0, []shards.Shard{{Queue: surplusA}})
	require.Contains(t, c.unbound, surplusA+"  images")
	require.Contains(t, c.unbound, surplusA+" 1234 images")
	require.Contains(t, c.unbound, surplusA+" "+set.Key(0, 1)+" images")
	require.Contains(t, c.unbound, surplusA+" "+set.Key(0, shards.MaxWords)+" images")
	require.Contains(t, c.unbound, surplusA+"  images.unsharded")
}

// A policy that is gone leaves shards, perhaps of an exchange that is gone as well.
func TestPruneWithoutPolicy(t *testing.T) {
	c := &cluster{queues: map[string]*queue{"sharding: gone - rabbit@a - 0": {}, "sharding: gone - rabbit@b - 0": {}}}
	got := pruned(t, c, func(o *PruneOptions) { o.Yes, o.Exchanges = true, []string{"gone"} })
	require.Len(t, got, 2)
	require.Len(t, c.deleted, 2)
}

// The leader goes on having the shards of an exchange in its plan when its policy is gone. They are surplus once no proxy has
// a policy for it, or consumers on it.
func TestPruneAbandoned(t *testing.T) {
	for name, c := range map[string]struct {
		report coordination.ExchangeReport
		gone   bool
	}{
		"nobody":    {gone: true},
		"a policy":  {report: coordination.ExchangeReport{Want: coordination.Spec{Shards: []coordination.Shard{shardOf("old", "rabbit@a", 9)}}}},
		"consumers": {report: coordination.ExchangeReport{Consumers: []coordination.ConsumerReport{{ID: 1}}}},
	} {
		all := &cluster{queues: map[string]*queue{"sharding: old - rabbit@a - 0": {}}}
		v := &View{}
		v.Add(&coordination.Message{Kind: coordination.StateKind, State: &coordination.State{Exchanges: map[string]*coordination.Entry{
			"old": {Layout: coordination.Layout{Set: []coordination.Shard{shardOf("old", "rabbit@a", 0), shardOf("old", "rabbit@a", 1)}}}}}})
		v.Add(&coordination.Message{Kind: coordination.ReportKind, From: "p1", Exchanges: map[string]coordination.ExchangeReport{"old": c.report}})
		got := pruned(t, all, func(o *PruneOptions) {
			o.Yes, o.Exchanges = true, []string{"old"}
			o.Listen = func(context.Context, time.Duration) (*View, error) { return v, nil }
		})
		require.Equal(t, c.gone, len(got) == 1 && got["sharding: old - rabbit@a - 0"].Action == Deleted, name)
	}
}

func TestPruneDown(t *testing.T) {
	c := twoSurplus()
	o := PruneOptions{Options: c.options(t, true), Yes: true}
	o.Listen = func(context.Context, time.Duration) (*View, error) { return resizing(), nil }
	p, err := prune(t.Context(), o, 0)
	require.NoError(t, err)
	for _, v := range p.Verdicts {
		require.NotEqual(t, "rabbit@b", v.Node, "an unreachable node's active shard is none of prune's business")
	}
}

func TestVerdictsGolden(t *testing.T) {
	for _, yes := range []bool{false, true} {
		name := "prune"
		if yes {
			name = "pruned"
		}
		c := twoSurplus()
		c.queues[surplusA].ready = 1
		p, err := prune(t.Context(), PruneOptions{Options: c.options(t, false), Yes: yes}, 0)
		require.NoError(t, err)
		vs := p.Verdicts
		var table, json bytes.Buffer
		require.NoError(t, WriteVerdicts(&table, vs))
		golden(t, name+".txt", table.Bytes())
		require.NoError(t, WriteJSON(&json, vs))
		golden(t, name+".json", json.Bytes())
	}
	var table bytes.Buffer
	require.NoError(t, WriteVerdicts(&table, nil))
	require.Equal(t, "no surplus shards\n", table.String())
}
