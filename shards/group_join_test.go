package shards

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func requireInExclusiveUse(t *testing.T, err error) {
	t.Helper()
	var refused *BrokerError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, uint16(403), refused.Code)
	require.Equal(t, "ACCESS_REFUSED - queue 'images' in vhost '/' in exclusive use", refused.Text)
}

func TestGroupExclusive(t *testing.T) {
	for _, mode := range []ConsumerMode{Balanced, One} {
		t.Run(mode.String(), func(t *testing.T) {
			g, f := newTestGroup(t, 2, 2)
			exclusive := JoinSpec{Exclusive: true, Mode: mode}
			owner := (&fakeClient{broker: f}).join(t, g, exclusive)
			require.Len(t, owner.shards(), 4)
			requireInExclusiveUse(t, new(fakeClient).tryJoin(g, JoinSpec{Mode: mode}))
			requireInExclusiveUse(t, new(fakeClient).tryJoin(g, exclusive))
			owner.leave()

			other := (&fakeClient{broker: f}).join(t, g, JoinSpec{Mode: mode})
			requireInExclusiveUse(t, new(fakeClient).tryJoin(g, exclusive))
			other.leave()

			queue := g.x.State().Set.At(1).Queue
			f.add(queue, 1)
			requireInExclusiveUse(t, new(fakeClient).tryJoin(g, exclusive))
			f.add(queue, -1)
			(&fakeClient{broker: f}).join(t, g, exclusive).leave()
			require.Zero(t, g.Len())
		})
	}
}

func TestGroupExclusiveNeedsCounts(t *testing.T) {
	g, f := newTestGroup(t, 1, 2)
	down := errors.New("node is down")
	f.fail(down)
	require.ErrorIs(t, new(fakeClient).tryJoin(g, JoinSpec{Exclusive: true}), down)
	// The failed attempt shuts nobody out.
	c := (&fakeClient{broker: f}).join(t, g, JoinSpec{})
	require.Len(t, c.shards(), 2)
}

// Of several exclusive consumers at once one gets in.
func TestGroupExclusiveBurst(t *testing.T) {
	g, f := newTestGroup(t, 1, 4)
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = (&fakeClient{broker: f}).tryJoin(g, JoinSpec{Exclusive: true}) })
	}
	wg.Wait()
	in := 0
	for _, err := range errs {
		if err == nil {
			in++
			continue
		}
		requireInExclusiveUse(t, err)
	}
	require.Equal(t, 1, in)
	require.Equal(t, 1, g.Len())
}

// A join that is reading counts when an exclusive one gets in is refused.
func TestGroupExclusiveOvertakes(t *testing.T) {
	g, f := newTestGroup(t, 1, 2)
	reading, proceed := make(chan struct{}), make(chan struct{})
	counts := g.seat.counts
	var begun atomic.Bool
	g.seat.counts = func(ctx context.Context) ([]Count, error) {
		if !begun.Swap(true) {
			close(reading)
			<-proceed
		}
		return counts(ctx)
	}
	joined := make(chan error)
	go func() { joined <- new(fakeClient).tryJoin(g, JoinSpec{Mode: One}) }()
	<-reading
	owner := (&fakeClient{broker: f}).join(t, g, JoinSpec{Exclusive: true})
	close(proceed)
	requireInExclusiveUse(t, <-joined)
	require.Len(t, owner.shards(), 2)
}

func TestGroupWithoutShards(t *testing.T) {
	x := newExchange("images", "/", nil)
	g := newGroup(x, seat{})
	_, _, err := g.Join(t.Context(), JoinSpec{})
	var missing *BrokerError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, uint16(404), missing.Code)
	require.Equal(t, "NOT_FOUND - no queue 'images' in vhost '/'", missing.Text)
}

func TestGroupJoinCancelled(t *testing.T) {
	g, _ := newTestGroup(t, 1, 1)
	ctx, cancel := context.WithCancel(t.Context())
	g.seat.counts = func(ctx context.Context) ([]Count, error) {
		cancel()
		return nil, ctx.Err()
	}
	_, _, err := g.Join(ctx, JoinSpec{Mode: One})
	require.ErrorIs(t, err, context.Canceled)
	_, _, err = g.Join(ctx, JoinSpec{})
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, g.Len())
}

func TestGroupGoesOnWithoutCounts(t *testing.T) {
	g, f := newTestGroup(t, 1, 2)
	f.fail(errors.New("node is down"))
	joinAll(t, g, f, 6, false, JoinSpec{Mode: One})
	require.Equal(t, []int{3, 3}, f.perShard())
}

// A counts source that panics ends its own join only.
func TestGroupCountsPanic(t *testing.T) {
	g, f := newTestGroup(t, 1, 2)
	counts := g.seat.counts
	g.seat.counts = func(context.Context) ([]Count, error) { panic("broken") }
	require.Panics(t, func() { _, _, _ = g.Join(t.Context(), JoinSpec{Mode: One}) })
	g.seat.counts = counts
	require.Len(t, (&fakeClient{broker: f}).join(t, g, JoinSpec{Mode: One}).shards(), 1)
}

// Notify runs with no lock held: it may call whatever it likes.
func TestGroupNotifyMayCallBack(t *testing.T) {
	g, _ := newTestGroup(t, 1, 4)
	var told []Target
	var first *Member
	first, target, err := g.Join(t.Context(), JoinSpec{Notify: func(target Target) {
		told = append(told, target)
		first.Attached(target.Shards[0], 1)
		if g.Len() == 2 {
			first.Leave()
		}
	}})
	require.NoError(t, err)
	require.Len(t, target.Shards, 4)
	second, _, err := g.Join(t.Context(), JoinSpec{})
	require.NoError(t, err)
	require.Len(t, told, 1)
	require.Greater(t, told[0].Version, target.Version)
	require.Equal(t, 1, g.Len())
	second.Leave()
	second.Leave()
	require.Zero(t, g.Len())
}

// Time is synctest's: sleeping takes none.
func TestGroupReadsCountsOnlyWhenTheyMatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, f := newTestGroup(t, 1, 2)
		joinAll(t, g, f, 4, false, JoinSpec{})
		require.Zero(t, f.readCount(), "plans do not go by them")

		f.add(g.x.State().Set.At(0).Queue, 3)
		third := (&fakeClient{broker: f, manual: true}).join(t, g, JoinSpec{Mode: One})
		require.Equal(t, 1, f.readCount())
		require.Equal(t, g.x.State().Set.At(1).Queue, third.shards()[0])

		joinAll(t, g, f, 2, true, JoinSpec{Mode: One})
		require.Equal(t, 1, f.readCount(), "the third is in flight: what is known is used")
		require.Equal(t, []uint32{3, 0}, g.lastExternal())

		time.Sleep(externalMaxAge)
		joinAll(t, g, f, 1, true, JoinSpec{Mode: One})
		require.Equal(t, 2, f.readCount(), "too old to be relied on")
		require.Equal(t, []uint32{3, 0}, g.lastExternal())
	})
}

// What left but is still attached is in flight too.
func TestGroupLeavingIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, f := newTestGroup(t, 1, 2)
		c := (&fakeClient{broker: f}).join(t, g, JoinSpec{Mode: One})
		require.Equal(t, 1, f.readCount())
		c.member.Leave()
		d := (&fakeClient{broker: f}).join(t, g, JoinSpec{Mode: One})
		require.Equal(t, 1, f.readCount())
		require.Equal(t, c.shards(), d.shards(), "it is not counted any more")
		c.member.Attached(c.shards()[0], -1)
		(&fakeClient{broker: f}).join(t, g, JoinSpec{Mode: One})
		require.Equal(t, 2, f.readCount())
	})
}

// An attachment that begins or ends while the counts are read may or may not be
// in them.
func TestGroupMovesDuringRead(t *testing.T) {
	g, f := newTestGroup(t, 1, 1)
	f.add(g.x.State().Set.At(0).Queue, 2)
	g.refreshExternal(t.Context())
	require.Equal(t, []uint32{2}, g.lastExternal())

	c := (&fakeClient{broker: f, manual: true}).join(t, g, JoinSpec{})
	counts, during := g.seat.counts, c.work
	g.seat.counts = func(ctx context.Context) ([]Count, error) {
		defer during()
		return counts(ctx)
	}
	g.mu.Lock()
	g.external.known = false // so that it is read although c is in flight
	g.mu.Unlock()
	g.refreshExternal(t.Context())
	require.Equal(t, []int{3}, f.perShard())
	require.Equal(t, []uint32{2}, g.lastExternal())

	during = c.leave
	g.refreshExternal(t.Context())
	require.Equal(t, []int{2}, f.perShard())
	require.Equal(t, []uint32{2}, g.lastExternal())
}

// lastExternal returns the known external counts in set order.
func (g *Group) lastExternal() []uint32 {
	g.mu.Lock()
	defer g.mu.Unlock()
	set := g.x.State().Set
	last := make([]uint32, set.Len())
	for i := range last {
		last[i] = g.external.last[set.At(i).Queue]
	}
	return last
}

func TestGroupTellsOwnFromExternal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, f := newTestGroup(t, 1, 1)
		queue := g.x.State().Set.At(0).Queue
		read := func(want uint32, why string) {
			t.Helper()
			time.Sleep(externalMaxAge)
			g.refreshExternal(t.Context())
			require.Equal(t, []uint32{want}, g.lastExternal(), why)
		}
		f.add(queue, 2)
		read(2, "nobody here")
		c := (&fakeClient{broker: f, manual: true}).join(t, g, JoinSpec{})
		read(2, "asked for, not attached")
		f.add(queue, 1)
		read(2, "attached, not reported")
		c.member.Attached(queue, 1)
		read(2, "reported")
		f.add(queue, 1)
		read(3, "another one came")
		f.add(queue, -2)
		read(1, "two others went")

		c.member.Leave()
		read(1, "left, still attached")
		f.add(queue, -1)
		read(1, "detached, not reported")
		f.add(queue, 4)
		read(4, "at least four are not ours")
		time.Sleep(leavingMaxAge)
		read(5, "forgotten unreported")
		c.member.Attached(queue, -1)
		c.member.Attached(queue, -1)
		read(5, "reports that come late or twice do no harm")
	})
}

// A consumer at another proxy that has nothing at the broker now keeps an exclusive
// one out as any other does.
func TestGroupExclusiveElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newProxies(t, 2, Definition{ShardsPerNode: 1})
		defer ps.close()
		here, there := ps.all[0], ps.all[1]
		waits := &fakeClient{broker: ps.counts, manual: true}
		require.NoError(t, waits.tryJoin(there.g, JoinSpec{}))
		synctest.Wait()
		require.Equal(t, []int{0}, ps.counts.perShard())
		requireInExclusiveUse(t, new(fakeClient).tryJoin(here.g, JoinSpec{Exclusive: true}))
		waits.leave()
		owner := &fakeClient{broker: ps.counts}
		within(t, 5*time.Second, func() bool { return owner.tryJoin(here.g, JoinSpec{Exclusive: true}) == nil }, "nobody is there")
		owner.leave()
	})
}
