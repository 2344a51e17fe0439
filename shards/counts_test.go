package shards

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCounts(t *testing.T) {
	top, cluster, nodes, _ := topology(t, 2, policy(t, "^x$", Definition{}))
	x := exchangeOf(t, top, "x")
	counts, err := top.Counts(t.Context(), x)
	require.NoError(t, err)
	require.Empty(t, counts)
	cluster.exchanges["x"] = ExchangeSpec{Name: "x", Type: "topic"}
	_, err = top.Resolve(t.Context(), x, false)
	require.NoError(t, err)
	cluster.do(func() {
		cluster.queues[QueueName("x", "a@h", 0)] = fakeQueue{Count: Count{1, 2, true, false}}
		cluster.queues[QueueName("x", "b@h", 0)] = fakeQueue{Count: Count{3, 4, true, false}}
	})
	counts, err = top.Counts(t.Context(), x)
	require.NoError(t, err)
	require.Equal(t, []Count{{1, 2, true, false}, {3, 4, true, false}}, counts)
	nodes[1].setDown(true)
	asked := cluster.count("a@h queue count " + QueueName("x", "b@h", 0))
	counts, err = top.Counts(t.Context(), x)
	require.NoError(t, err)
	require.Equal(t, []Count{{1, 2, true, false}, {}}, counts)
	require.Equal(t, []int{0}, x.State().Live)
	require.Equal(t, asked, cluster.count("a@h queue count "+QueueName("x", "b@h", 0)), "no other node is asked")
	nodes[0].setDown(true)
	_, err = top.Counts(t.Context(), x)
	require.ErrorIs(t, err, ErrUnreachable)
	require.Equal(t, []int{0}, x.State().Live, "nothing is known while no node answers")
}

func TestRecentCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, cluster, nodes, _ := topology(t, 1, policy(t, "^x$", Definition{ShardsPerNode: 2}))
		x := exchangeOf(t, top, "x")
		set, counts, err := top.RecentCounts(t.Context(), x, time.Second)
		require.NoError(t, err)
		require.Nil(t, set)
		require.Nil(t, counts)

		cluster.exchanges["x"] = ourX
		state, err := top.Resolve(t.Context(), x, false)
		require.NoError(t, err)
		synctest.Wait() // for the search for surplus shards
		cluster.do(func() { clear(cluster.calls) })
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				set, counts, err := top.RecentCounts(t.Context(), x, time.Second)
				if err != nil || set != state.Set || len(counts) != 2 {
					t.Error(set, counts, err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, 2, cluster.count("queue count"), "one reading for all")
		advance(time.Second + 1)
		_, _, err = top.RecentCounts(t.Context(), x, time.Second)
		require.NoError(t, err)
		require.Equal(t, 4, cluster.count("queue count"))

		nodes[0].setDown(true)
		_, _, err = top.RecentCounts(t.Context(), x, 0)
		require.NoError(t, err, "that fresh, even")
		advance(1)
		for range 2 {
			_, _, err = top.RecentCounts(t.Context(), x, 0)
			require.ErrorIs(t, err, ErrUnreachable)
		}
		nodes[0].setDown(false)
		_, _, err = top.RecentCounts(t.Context(), x, time.Hour)
		require.NoError(t, err, "a failure is not remembered")

		x.setState(&State{Mode: Sharded, Set: NewSet("x", []string{"a@h"}, 1)})
		_, counts, err = top.RecentCounts(t.Context(), x, time.Hour)
		require.NoError(t, err)
		require.Len(t, counts, 1, "counts of another set are none")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		advance(1)
		_, _, err = top.RecentCounts(ctx, x, 0)
		if err != nil { // or the reading was quicker
			require.ErrorIs(t, err, context.Canceled)
		}
	})
}

func TestCensus(t *testing.T) {
	top, cluster, nodes, _ := topology(t, 2, policy(t, "^x$", Definition{ShardsPerNode: 2}))
	x := exchangeOf(t, top, "x")
	state, counts, err := top.Census(t.Context(), x)
	require.NoError(t, err)
	require.Equal(t, Missing, state.Mode)
	require.Nil(t, counts)

	cluster.exchanges["x"] = ourX
	_, err = top.Resolve(t.Context(), x, true)
	require.NoError(t, err)
	cluster.deleteQueue(QueueName("x", "b@h", 1))
	state, counts, err = top.Census(t.Context(), x)
	require.NoError(t, err)
	require.Equal(t, []Count{{Exists: true}, {Exists: true}, {Exists: true}, {Exists: true}}, counts, "made again")
	require.Nil(t, state.Live)

	nodes[1].setDown(true)
	binds := cluster.count("bind")
	state, counts, err = top.Census(t.Context(), x)
	require.NoError(t, err)
	require.Equal(t, []Count{{Exists: true}, {Exists: true}, {}, {}}, counts)
	require.Equal(t, []int{0, 1}, state.Live)
	require.Equal(t, binds, cluster.count("bind"), "there is nothing to make on a node that is down")

	nodes[0].setDown(true)
	_, _, err = top.Census(t.Context(), x)
	require.ErrorIs(t, err, ErrUnreachable)
	nodes[0].setDown(false)
	cluster.deleteExchange("x")
	cluster.deleteQueue(QueueName("x", "a@h", 0))
	state, counts, err = top.Census(t.Context(), x)
	require.NoError(t, err)
	require.Equal(t, &State{Mode: Missing}, state, "found gone on the second look")
	require.Nil(t, counts)
}

// A burst of callers that each need counts from after their call leads to two
// readings, and a reading that began before is not used.
func TestCensusIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, cluster, _, _ := topology(t, 1, policy(t, "^x$", Definition{}))
		cluster.exchanges["x"] = ourX
		x := exchangeOf(t, top, "x")
		_, err := top.Resolve(t.Context(), x, true)
		require.NoError(t, err)
		synctest.Wait()
		queue := x.State().Set.At(0).Queue
		under, hold := make(chan struct{}), make(chan struct{})
		messages := func(n uint32) {
			cluster.do(func() {
				q := cluster.queues[queue]
				q.Messages = n
				cluster.queues[queue] = q
			})
		}
		cluster.do(func() {
			clear(cluster.calls)
			cluster.refuse = func(op, _ string) error {
				cluster.refuse = nil
				close(under)
				cluster.mu.Unlock()
				<-hold
				cluster.mu.Lock()
				return nil
			}
		})
		first := make(chan []Count, 1)
		go func() {
			counts, _ := top.Counts(t.Context(), x)
			first <- counts
		}()
		<-under
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				var counts []Count
				var err error
				if i%2 == 0 {
					_, counts, err = top.Census(t.Context(), x)
				} else {
					counts, err = top.Counts(t.Context(), x)
				}
				if err != nil || len(counts) != 1 || counts[0].Messages != 7 {
					t.Error(counts, err)
				}
			})
		}
		synctest.Wait()
		messages(7) // seen by those who came before it as well: their reading has not begun
		close(hold)
		wg.Wait()
		<-first
		require.Equal(t, 2, cluster.count("queue count"))

		before := cluster.count("queue count")
		for range 10 {
			_, counts, err := top.RecentCensus(t.Context(), x, time.Second)
			require.NoError(t, err)
			require.Equal(t, uint32(7), counts[0].Messages)
		}
		require.Equal(t, before, cluster.count("queue count"))
		messages(8)
		advance(time.Second + 1)
		_, counts, err := top.RecentCensus(t.Context(), x, time.Second)
		require.NoError(t, err)
		require.Equal(t, uint32(8), counts[0].Messages)
	})
}
