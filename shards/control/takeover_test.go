package control

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards/coordination"
)

// A leader on a stand-in died with the newest state; the next one is elected on
// the proper queue.
func TestTransportTakesOver(t *testing.T) {
	within(t, func(t *testing.T, h *hub) {
		a := h.voice()
		pass(time.Second)
		require.NoError(t, a.Store(t.Context(), []byte("1")))
		a.close(t)
		standIn := coordination.StateQueue + ".r@a"
		h.do(func() { h.queues[standIn] = &hubQueue{name: standIn} })
		h.put(standIn, "2")
		b := h.voice()
		pass(time.Second)
		require.Equal(t, "connected, elected 2", b.story())
		require.Equal(t, []string{"ready 2"}, h.messages(standIn))
		require.NoError(t, b.Store(t.Context(), []byte("3")))
		pass(time.Second)
		require.Equal(t, []string{"no queue"}, h.messages(standIn))
		b.close(t)
	})
}

// Somebody else still leads on a stand-in when the proper queue gets its leader,
// which cannot see that state: it looks again.
func TestTransportStandInInUse(t *testing.T) {
	for state, story := range map[string]string{"1": "", "3": "deposed, elected 3"} {
		within(t, func(t *testing.T, h *hub) {
			a := h.voice()
			pass(time.Second)
			require.NoError(t, a.Store(t.Context(), []byte("2")))
			a.close(t)
			standIn := coordination.StateQueue + ".r@a"
			led := &hubQueue{name: standIn, consumer: &hubChannel{}, alone: true}
			h.do(func() { h.queues[standIn] = led })
			b := h.voice()
			pass(guardEvery * 3 / 2)
			require.Equal(t, "connected, elected 2", b.story())
			h.do(func() { led.consumer = nil }) // which gives back what it held
			h.put(standIn, state)
			pass(4 * guardEvery)
			require.Equal(t, story, b.story())
			require.NoError(t, b.Store(t.Context(), []byte("4")))
			pass(time.Second)
			require.Equal(t, []string{"no queue"}, h.messages(standIn))
			b.close(t)
		})
	}
}

// led is a stand-in that somebody leads on who is not there.
func (h *hub) led(name string) *hubQueue {
	q := &hubQueue{name: name, consumer: &hubChannel{}, alone: true}
	h.do(func() { h.queues[name] = q })
	return q
}

// count tells how often something was asked.
func (h *hub) count(request string) (n int) {
	h.do(func() {
		for _, asked := range h.asked {
			if asked == request {
				n++
			}
		}
	})
	return n
}

// A stand-in that does not answer may hold the newest state all the same.
func TestTransportStandInSilent(t *testing.T) {
	standIn := coordination.StateQueue + ".r@a"
	for what, away := range map[string]func(h *hub) map[string]bool{
		"it hangs":         func(h *hub) map[string]bool { return h.hung },
		"its node is down": func(h *hub) map[string]bool { return h.down },
	} {
		for _, at := range []string{"the first look", "the second"} {
			t.Run(what+" at "+at, func(t *testing.T) {
				within(t, func(t *testing.T, h *hub) {
					a := h.voice()
					pass(time.Second)
					require.NoError(t, a.Store(t.Context(), []byte("2")))
					a.close(t)
					led := h.led(standIn)
					if at == "the first look" {
						h.do(func() { away(h)[standIn] = true })
					}
					b := h.voice()
					pass(time.Second)
					require.Equal(t, "connected, elected 2", b.story())
					h.do(func() { away(h)[standIn] = true; led.consumer = nil })
					h.put(standIn, "3")
					pass(3 * guardEvery)
					require.Empty(t, b.story())
					h.do(func() { delete(away(h), standIn) })
					pass(8 * guardEvery)
					require.Equal(t, "deposed, elected 3", b.story())
					b.close(t)
				})
			})
		}
	}
}

// One that hangs takes no time from the others.
func TestTransportStandInsApart(t *testing.T) {
	within(t, func(t *testing.T, h *hub) {
		nodes := []string{"a:1", "b:1", "c:1"}
		b := h.led(coordination.StateQueue + ".r@b")
		for _, name := range []string{".r@a", ".r@c"} {
			h.led(coordination.StateQueue + name)
		}
		v := h.voice(nodes...)
		pass(time.Second)
		require.Equal(t, "connected, elected ", v.story())
		require.NoError(t, v.Store(t.Context(), []byte("2")))
		h.do(func() {
			h.hung[coordination.StateQueue+".r@a"], h.hung[coordination.StateQueue+".r@c"] = true, true
			b.consumer = nil
		})
		h.put(b.name, "3")
		pass(2 * guardEvery)
		require.Equal(t, "deposed, elected 3", v.story())
		v.close(t)
	})
}

// While one looks into a stand-in, or the broker is not done with that, the next one
// to look must not take it for empty.
func TestTransportStandInLookedInto(t *testing.T) {
	standIn := coordination.StateQueue + ".r@a"
	for _, lingers := range []time.Duration{takeOverTimeout / 2, 2 * takeOverTimeout} {
		t.Run(lingers.String(), func(t *testing.T) {
			within(t, func(t *testing.T, h *hub) {
				a := h.voice()
				pass(time.Second)
				require.NoError(t, a.Store(t.Context(), []byte("2")))
				a.close(t)
				led := h.led(standIn)
				b := h.voice()
				pass(guardEvery / 2)
				require.Equal(t, "connected, elected 2", b.story())
				h.do(func() { led.consumer, h.lingers = nil, lingers })
				h.put(standIn, "3")
				for range 10 * guardEvery / time.Second {
					pass(time.Second)
					held := h.messages(standIn)
					require.Len(t, held, 1)
					require.Contains(t, held[0], "3")
				}
				h.do(func() { h.lingers = 0 })
				pass(10 * guardEvery)
				require.Equal(t, "deposed, elected 3", b.story())
				b.close(t)
			})
		})
	}
}

// A look at a queue in use is an error in the broker's log.
func TestTransportLooksLessOften(t *testing.T) {
	within(t, func(t *testing.T, h *hub) {
		led := h.led(coordination.StateQueue + ".r@a")
		v := h.voice()
		pass(10 * time.Minute)
		require.Equal(t, "connected, elected ", v.story())
		require.Less(t, h.count("delete "+led.name), 20)
		h.do(func() { led.consumer = nil })
		pass(lookAgainMax + guardEvery)
		require.Equal(t, []string{"no queue"}, h.messages(led.name), "but it does")
		v.close(t)
	})
}

// Another user's message in a stand-in is no state.
func TestTransportStandInForeign(t *testing.T) {
	within(t, func(t *testing.T, h *hub) {
		standIn := coordination.StateQueue + ".r@a"
		h.do(func() { h.queues[standIn] = &hubQueue{name: standIn} })
		h.putAs("mallory", standIn, "9")
		h.put(standIn, "1")
		v := h.voice()
		pass(time.Second)
		require.Equal(t, "connected, elected 1", v.story())
		v.close(t)
	})
}
