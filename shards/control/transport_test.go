package control

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards"
	"github.com/shardmq/shardmq/shards/coordination"
)

func TestTransportLead(t *testing.T) {
	within(t, func(t *testing.T, h *hub) {
		a := h.voice()
		pass(time.Second)
		require.Equal(t, "connected, elected ", a.story())
		b := h.voice()
		pass(time.Second)
		require.Equal(t, "connected", b.story())
		require.Len(t, a.ID(), 16)
		require.NotEqual(t, a.ID(), b.ID())

		require.NoError(t, a.Store(t.Context(), []byte("1")))
		require.NoError(t, a.Store(t.Context(), []byte("2")))
		require.ErrorIs(t, b.Store(t.Context(), []byte("3")), coordination.ErrNotElected)
		synctest.Wait()
		require.Equal(t, []string{"2"}, h.messages(coordination.StateQueue))
		require.NoError(t, b.Send(t.Context(), []byte("hello")))
		pass(time.Millisecond)
		require.Equal(t, []string{"hello"}, a.heard)
		require.Equal(t, []string{"hello"}, b.heard)
		for _, id := range []string{a.ID(), b.ID()} {
			alive, err := b.Alive(t.Context(), id)
			require.NoError(t, err)
			require.True(t, alive)
		}

		h.do(func() { h.asked = nil })
		pass(time.Minute)
		require.NotContains(t, h.asked, "consume "+coordination.StateQueue, "the broker would log the refusal as an error")
		a.close(t)
		alive, err := b.Alive(t.Context(), a.ID())
		require.NoError(t, err)
		require.False(t, alive)
		pass(time.Second)
		require.Equal(t, "elected 2", b.story(), "replaced in less than a second")
		require.Equal(t, []string{"2"}, h.messages(coordination.StateQueue), "unacknowledged")
		b.close(t)
		require.Equal(t, []string{"ready 2"}, h.messages(coordination.StateQueue))
		require.ErrorIs(t, b.Send(t.Context(), nil), coordination.ErrTransportClosed)
		_, err = b.Alive(t.Context(), a.ID())
		require.ErrorIs(t, err, coordination.ErrTransportClosed)
	})
}

// Each resignation in a row makes for a longer pause.
func TestTransportResign(t *testing.T) {
	within(t, func(t *testing.T, h *hub) {
		v := h.voice()
		pass(time.Second)
		require.NoError(t, v.Store(t.Context(), []byte("1")))
		v.story()
		for _, pause := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			pause *= time.Second
			v.Resign()
			pass(pause * 3 / 4)
			require.Equal(t, "deposed", v.story(), "after less than %s", pause)
			pass(pause * 2 / 4)
			require.Equal(t, "elected 1", v.story(), "after %s", pause)
		}
		pass(steadyLead)
		v.Resign()
		pass(time.Second * 3 / 2)
		require.Equal(t, "deposed, elected 1", v.story())
		v.close(t)
		v.Resign()
	})
}

// The old state is acknowledged when the new one is safe, and not before.
func TestTransportStore(t *testing.T) {
	within(t, func(t *testing.T, h *hub) {
		v := h.voice()
		pass(time.Second)
		require.NoError(t, v.Store(t.Context(), []byte("1")))
		h.do(func() { h.mute = true })
		stored := make(chan error, 1)
		go func() { stored <- v.Store(t.Context(), []byte("2")) }()
		pass(storeTimeout / 2)
		require.Equal(t, []string{"1", "2"}, h.messages(coordination.StateQueue))
		require.Empty(t, stored)
		h.do(func() { h.confirms[0](); h.confirms = nil })
		require.NoError(t, <-stored)
		synctest.Wait()
		require.Equal(t, []string{"2"}, h.messages(coordination.StateQueue))

		// A caller that gives up does not end the lead; what it began is replaced by what succeeds.
		ctx, cancel := context.WithCancel(t.Context())
		go func() { stored <- v.Store(ctx, []byte("3")) }()
		pass(time.Second)
		cancel()
		require.ErrorIs(t, <-stored, context.Canceled)
		h.do(func() { h.mute = false })
		require.NoError(t, v.Store(t.Context(), []byte("4")))
		pass(time.Second)
		require.Equal(t, []string{"4"}, h.messages(coordination.StateQueue))
		require.Equal(t, "connected, elected ", v.story())

		// No confirm: the lead is in doubt.
		h.do(func() { h.mute = true })
		began := time.Now()
		require.ErrorContains(t, v.Store(t.Context(), []byte("5")), "no confirm")
		require.Equal(t, storeTimeout, time.Since(began))
		pass(time.Second)
		require.Equal(t, "deposed, elected 5", v.story())
		v.close(t)
	})
}

// A leader may have died with the new state stored and the old one not yet
// acknowledged.
func TestTransportTwoStates(t *testing.T) {
	for _, order := range [][]string{{"1", "2"}, {"2", "1"}, {"1", "3", "2"}, {"2", "2"}} {
		within(t, func(t *testing.T, h *hub) {
			a := h.voice()
			pass(time.Second)
			a.close(t)
			h.put(coordination.StateQueue, order...)
			b := h.voice()
			pass(time.Second)
			newest := "2"
			if len(order) == 3 {
				newest = "3"
			}
			require.Equal(t, "connected, elected "+newest, b.story())
			require.Equal(t, []string{newest}, h.messages(coordination.StateQueue), "the others are acknowledged")
			b.close(t)
		})
	}
}

// What a leader of before stored late, and is newer, is not ignored.
func TestTransportOutdone(t *testing.T) {
	within(t, func(t *testing.T, h *hub) {
		v := h.voice()
		pass(time.Second)
		require.NoError(t, v.Store(t.Context(), []byte("5")))
		h.put(coordination.StateQueue, "4")
		pass(time.Millisecond)
		require.Equal(t, "connected, elected ", v.story(), "an older one is")
		h.put(coordination.StateQueue, "6")
		pass(time.Second)
		require.Equal(t, "deposed, elected 6", v.story())
		require.NoError(t, v.Store(t.Context(), []byte("7")))
		pass(time.Millisecond)
		require.Equal(t, []string{"7"}, h.messages(coordination.StateQueue))
		v.close(t)
	})
}

func TestTransportBlocked(t *testing.T) {
	within(t, func(t *testing.T, h *hub) {
		v := h.voice()
		pass(time.Second)
		require.NoError(t, v.Store(t.Context(), []byte("1")))
		h.do(func() { h.mute = true })
		stored := make(chan error, 1)
		go func() { stored <- v.Store(t.Context(), []byte("2")) }()
		pass(time.Millisecond)
		h.block(true)
		require.ErrorIs(t, <-stored, coordination.ErrBlocked, "whoever waits is told at once")
		began := time.Now()
		require.ErrorIs(t, v.Send(t.Context(), []byte("x")), coordination.ErrBlocked)
		require.ErrorIs(t, v.Store(t.Context(), []byte("3")), coordination.ErrBlocked)
		require.Zero(t, time.Since(began))
		pass(time.Minute)
		alive, err := v.Alive(t.Context(), "nobody")
		require.NoError(t, err)
		require.False(t, alive)
		h.do(func() { h.mute = false })
		h.block(false)
		pass(time.Millisecond)
		require.NoError(t, v.Send(t.Context(), []byte("y")))
		require.NoError(t, v.Store(t.Context(), []byte("4")))
		pass(time.Millisecond)
		require.Equal(t, []string{"4"}, h.messages(coordination.StateQueue))
		require.Equal(t, "connected, elected ", v.story(), "it has led all the time")
		v.close(t)
	})
}

// A broker that reads nothing, and does not say why, holds nobody up for long,
// and what is sent does not pile up.
func TestTransportStalled(t *testing.T) {
	within(t, func(t *testing.T, h *hub) {
		v := h.voice()
		pass(time.Millisecond)
		stalled := make(chan struct{})
		h.do(func() { h.stalled = stalled })
		require.NoError(t, v.Send(t.Context(), []byte("the last that is read")))
		began := time.Now()
		require.ErrorIs(t, v.Send(t.Context(), []byte("half written")), errSlow)
		require.Equal(t, requestTimeout, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, v.Send(ctx, []byte("dropped")), context.DeadlineExceeded)
		h.do(func() { h.stalled = nil })
		close(stalled)
		require.NoError(t, v.Send(t.Context(), []byte("later")))
		pass(time.Millisecond)
		require.Equal(t, []string{"the last that is read", "half written", "later"}, v.heard)
		v.close(t)
	})
}

func TestDutiful(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		began := time.Now()
		_, err := dutiful{a}.Write([]byte("x"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, writeTimeout, time.Since(began))
		require.NoError(t, errors.Join(a.Close(), b.Close()))
	})
}

func TestTransportRights(t *testing.T) {
	within(t, func(t *testing.T, h *hub) {
		h.refused = true
		v := h.voice()
		pass(time.Second)
		require.Equal(t, "disconnected", v.story())
		require.ErrorIs(t, v.Err(), coordination.ErrNoRights)
		for _, err := range []error{v.Send(t.Context(), nil), v.Store(t.Context(), nil)} {
			require.ErrorIs(t, err, coordination.ErrNoRights)
			require.ErrorIs(t, err, coordination.ErrNotConnected)
			var refused *shards.BrokerError
			require.ErrorAs(t, err, &refused)
		}
		pass(10 * noRightsMax)
		require.Len(t, v.warnings, 1)
		require.Contains(t, v.warnings[0], `configure, write, read on ^shardmq\.`)
		h.do(func() { h.refused = false })
		pass(noRightsMax * 3 / 2)
		require.Equal(t, "connected, elected ", v.story())
		require.NoError(t, v.Err())

		// Rights that are taken away for a moment are missed for a moment.
		h.do(func() { h.refused = true })
		h.cut()
		pass(2 * time.Second)
		require.Contains(t, v.story(), "disconnected")
		require.ErrorIs(t, v.Err(), coordination.ErrNoRights)
		h.do(func() { h.refused = false })
		pass(noRightsDelay * 3 / 2)
		require.Equal(t, "connected, elected ", v.story())
		v.close(t)
	})
}
