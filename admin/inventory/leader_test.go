package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards"
	"github.com/shardmq/shardmq/shards/coordination"
)

// quorumLeft is an exchange of two quorum shards that has four, and what is heard of the proxies that consume all.
func quorumLeft(t *testing.T, phase coordination.Phase) (*cluster, PruneOptions) {
	t.Helper()
	c := &cluster{queues: map[string]*queue{}}
	l := coordination.Layout{Generation: 3}
	unsettled := map[string]int{}
	for i := range 4 {
		s := coordination.Shard{Queue: shards.QueueNameFixed("images", i), Index: i}
		c.queues[s.Queue] = &queue{consumers: 1, replicated: true}
		unsettled[s.Queue] = 1
		if i < 2 {
			l.Set = append(l.Set, s)
		} else {
			l.Old = append(l.Old, coordination.OldShard{Shard: s, Phase: phase})
		}
	}
	v := reporting(coordination.ExchangeReport{Unsettled: unsettled})
	v.Add(&coordination.Message{Kind: coordination.StateKind, State: &coordination.State{Exchanges: map[string]*coordination.Entry{"images": {Layout: l}}}})
	o := PruneOptions{Options: c.options(t, false)}
	o.Policies = shards.NewPolicies([]*shards.Policy{policy(t, "images", shards.Definition{Shards: 2, QueueArguments: map[string]any{"x-queue-type": "quorum"}})})
	o.Listen = func(context.Context, time.Duration) (*View, error) { return v, nil }
	return c, o
}

// Surplus quorum shards that the proxies consume are named, with what keeps them; with force the leader is asked to have
// them let go of and to remove them, again and again until they are gone.
func TestPruneHasTheLeaderRemoveReplicated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := quorumLeft(t, coordination.Unbound)
		surplus := []string{shards.QueueNameFixed("images", 2), shards.QueueNameFixed("images", 3)}
		asked := 0
		o.Insist = func(ctx context.Context, messages ...[]byte) error {
			asked++
			require.Len(t, messages, 1)
			var m struct {
				Kind     coordination.Kind
				Exchange string
				Queues   []string
			}
			require.NoError(t, json.Unmarshal(messages[0], &m))
			require.Equal(t, coordination.PruneKind, m.Kind)
			require.Equal(t, "images", m.Exchange)
			require.Equal(t, surplus, m.Queues)
			for _, queue := range surplus {
				<-time.After(20 * time.Second)
				c.mu.Lock()
				delete(c.queues, queue)
				c.mu.Unlock()
			}
			<-ctx.Done()
			return nil
		}
		for _, tt := range []struct {
			yes, force bool
			action     Action
			reason     string
		}{{false, false, Keep, replicatedKept}, {true, false, Keep, replicatedKept}, {false, true, Delete, ""}} {
			o.Yes, o.Force = tt.yes, tt.force
			p, err := prune(t.Context(), o, 0)
			require.NoError(t, err)
			require.Len(t, p.Verdicts, 2)
			for i, v := range p.Verdicts {
				require.Equal(t, surplus[i], v.Queue)
				require.Equal(t, tt.action, v.Action)
				require.Equal(t, tt.reason, v.Reason)
			}
			require.Zero(t, asked)
		}
		o.Yes, o.Force = true, true
		p, err := prune(t.Context(), o, 0)
		require.NoError(t, err)
		require.Len(t, p.Verdicts, 2)
		for _, v := range p.Verdicts {
			require.Equal(t, Deleted, v.Action)
		}
		require.Equal(t, 1, asked)
		require.Empty(t, c.deleted, "it is the leader who does it")
		require.Empty(t, c.unbound)
	})
}

func TestPruneOfWhatTheLeaderDoesNotRemove(t *testing.T) {
	last := shards.QueueNameFixed("images", 3)
	for name, tt := range map[string]struct {
		change func(*cluster)
		insist error
		want   string
	}{
		"never":         {want: notRemoved},
		"not reachable": {insist: errors.New("boom"), want: "boom"},
		"down":          {change: func(c *cluster) { c.queues[last] = &queue{dormant: true} }, want: notRemoved},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, o := quorumLeft(t, coordination.Unbound)
				o.Yes, o.Force = true, true
				o.Insist = func(ctx context.Context, _ ...[]byte) error {
					c.mu.Lock()
					delete(c.queues, shards.QueueNameFixed("images", 2))
					if tt.change != nil {
						tt.change(c)
					}
					c.mu.Unlock()
					<-time.After(10 * lookEvery)
					if tt.insist == nil {
						<-ctx.Done()
					}
					return tt.insist
				}
				p, err := prune(t.Context(), o, 0)
				require.NoError(t, err)
				require.Len(t, p.Verdicts, 2)
				require.Equal(t, Deleted, p.Verdicts[0].Action)
				require.Equal(t, Kept, p.Verdicts[1].Action)
				require.Equal(t, tt.want, p.Verdicts[1].Reason)
			})
		})
	}
}

// What keeps a shard from being asked about at all.
func TestPruneAsksOnlyForWhatCanGo(t *testing.T) {
	last := shards.QueueNameFixed("images", 3)
	for name, tt := range map[string]struct {
		phase  coordination.Phase
		change func(*cluster)
		kept   string
	}{
		"bound":    {phase: coordination.Bound, kept: "proxies may still publish to it"},
		"messages": {phase: coordination.Unbound, change: func(c *cluster) { c.queues[last].ready = 2 }, kept: "2 messages ready"},
	} {
		t.Run(name, func(t *testing.T) {
			c, o := quorumLeft(t, tt.phase)
			delete(c.queues, shards.QueueNameFixed("images", 2))
			if tt.change != nil {
				tt.change(c)
			}
			o.Yes, o.Force = true, true
			o.Insist = func(context.Context, ...[]byte) error {
				t.Error("nothing is to be asked for")
				return nil
			}
			p, err := prune(t.Context(), o, 0)
			require.NoError(t, err)
			require.Len(t, p.Verdicts, 1)
			require.Equal(t, tt.kept, p.Verdicts[0].Reason)
			require.Equal(t, Keep, p.Verdicts[0].Action)
		})
	}
}

// Where nobody leads, what is known to be replicated is deleted at once: RabbitMQ closes the connection on which that is
// tried on a condition.
func TestPruneForceWithoutProxies(t *testing.T) {
	for name, known := range map[string]bool{"by the management API": true, "found out": false} {
		c := twoSurplus()
		c.queues[surplusA].replicated = true
		got := pruned(t, c, func(o *PruneOptions) {
			o.Yes, o.Force = true, true
			if known {
				o.Stats = func(context.Context) (map[string]Stats, error) {
					return map[string]Stats{surplusA: {Type: "quorum"}}, nil
				}
			}
		})
		require.Equal(t, Deleted, got[surplusA].Action, name)
		require.Equal(t, known, c.refused == 0, name)
	}
}
