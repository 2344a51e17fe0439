package control

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards/coordination"
)

// The node of the proper queue goes down, or hangs, and comes back: another queue
// stands in, and what was stored there is what counts.
func TestTransportStandIn(t *testing.T) {
	for _, hung := range []bool{false, true} {
		t.Run(fmt.Sprintf("hung %t", hung), func(t *testing.T) {
			within(t, func(t *testing.T, h *hub) {
				a, b := h.voice("b:1", "a:1"), h.voice("b:1", "a:1")
				pass(time.Second)
				if b.leads {
					a, b = b, a
				}
				require.NoError(t, a.Store(t.Context(), []byte("1")))
				away := h.down
				if hung {
					away = h.hung
				}
				h.do(func() { away[coordination.StateQueue] = true; h.remove(coordination.StateQueue) })
				h.do(func() {
					h.queues[coordination.StateQueue] = &hubQueue{name: coordination.StateQueue}
					h.bindings[[2]string{coordination.StateExchange, coordination.StateQueue}] = []string{coordination.StateQueue}
				})
				h.put(coordination.StateQueue, "1")
				pass(10 * time.Second)
				require.NotEqual(t, a.leads, b.leads, "one of them leads")
				if b.leads {
					a, b = b, a
				}
				require.NoError(t, a.Store(t.Context(), []byte("2")))
				standIn := coordination.StateQueue + ".r@a"
				require.Equal(t, []string{"2"}, h.messages(standIn), "on the first node in name order")
				a.story()

				h.do(func() { delete(away, coordination.StateQueue); h.asked = nil })
				pass(moveUpEvery + guardEvery + requestTimeout)
				require.Equal(t, "deposed, elected 2", a.story(), "it has moved up")
				require.False(t, b.leads)
				require.Equal(t, []string{"ready 2"}, h.messages(standIn), "until a state is stored in the proper queue")
				require.NoError(t, a.Store(t.Context(), []byte("3")))
				pass(time.Second)
				require.Equal(t, []string{"3"}, h.messages(coordination.StateQueue))
				require.Equal(t, []string{"no queue"}, h.messages(standIn))
				pass(time.Minute)
				require.Empty(t, a.story())
				require.Equal(t, 2, h.count("delete "+standIn), "looked into, and deleted")
				a.close(t)
				pass(time.Second)
				require.True(t, b.leads)
				b.close(t)
			})
		})
	}
}

// A node that the others have lost can be reached, and is the first in name order:
// it is no place for a stand-in.
func TestTransportStandInApart(t *testing.T) {
	within(t, func(t *testing.T, h *hub) {
		h.down[coordination.StateQueue] = true
		h.apart["a:1"] = true
		var calls atomic.Int32
		tr := NewTransport(TransportOptions{Dial: h.dial, Nodes: func() []NodeAddress {
			nodes := []NodeAddress{{Address: "a:1"}, {Address: "b:1"}}
			if calls.Add(1) == 1 {
				return nodes[1:] // that is where it connects to
			}
			return nodes
		}})
		pass(10 * time.Second)
		require.Equal(t, coordination.Connected, (<-tr.Events()).Kind)
		require.Equal(t, coordination.Elected, (<-tr.Events()).Kind)
		require.NoError(t, tr.Store(t.Context(), []byte("1")))
		require.Equal(t, []string{"1"}, h.messages(coordination.StateQueue+".b:1"))
		pass(time.Minute)
		require.Empty(t, tr.Events())
		require.NoError(t, tr.Close())
	})
}

// Somebody leads on the proper queue already: the leader on the stand-in gives way.
func TestTransportOverruled(t *testing.T) {
	within(t, func(t *testing.T, h *hub) {
		h.down[coordination.StateQueue] = true
		a := h.voice()
		pass(3 * time.Second)
		require.Equal(t, "connected, elected ", a.story())
		other := &hubConn{h: h, out: make(chan []byte, 100)}
		h.do(func() {
			delete(h.down, coordination.StateQueue)
			h.queues[coordination.StateQueue] = &hubQueue{name: coordination.StateQueue, consumer: &hubChannel{c: other}}
		})
		pass(moveUpEvery + 2*guardEvery)
		require.Equal(t, "deposed", a.story())
		pass(time.Minute)
		require.Empty(t, a.story())
		a.close(t)
		h.do(func() { delete(h.queues, coordination.StateQueue) })
	})
}

// An operator deletes what is in the broker.
func TestTransportDeleted(t *testing.T) {
	for what, harm := range map[string]func(h *hub, id string){
		"the queue of the lead": func(h *hub, _ string) { h.remove(coordination.StateQueue) },
		"its binding": func(h *hub, _ string) {
			clear(h.bindings[[2]string{coordination.StateExchange, coordination.StateQueue}])
			delete(h.bindings, [2]string{coordination.StateExchange, coordination.StateQueue})
		},
		"its exchange":          func(h *hub, _ string) { delete(h.exchanges, coordination.StateExchange) },
		"the members' exchange": func(h *hub, _ string) { delete(h.exchanges, coordination.MembersExchange) },
		"their bindings":        func(h *hub, _ string) { delete(h.bindings, [2]string{coordination.MembersExchange, ""}) },
		"an inbox": func(h *hub, _ string) {
			for name, q := range h.queues {
				if q.owner != nil && q.consumer != nil {
					h.remove(name)
				}
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			within(t, func(t *testing.T, h *hub) {
				v := h.voice()
				pass(time.Second)
				require.NoError(t, v.Store(t.Context(), []byte("1")))
				h.do(func() { harm(h, v.ID()) })
				for range 20 { // as the leader does
					_ = v.Send(t.Context(), []byte("beat"))
					_ = v.Store(t.Context(), []byte("2"))
					pass(time.Second)
				}
				v.heard = nil
				require.NoError(t, v.Send(t.Context(), []byte("hello")))
				require.NoError(t, v.Store(t.Context(), []byte("3")))
				pass(time.Second)
				require.Equal(t, []string{"hello"}, v.heard)
				require.Equal(t, []string{"3"}, h.messages(coordination.StateQueue))
				v.close(t)
			})
		})
	}
}

// The node ends, or goes silent without ending: the next one is connected to, and
// the lead is gone with the connection.
func TestTransportNodeLost(t *testing.T) {
	within(t, func(t *testing.T, h *hub) {
		v := h.voice("a:1", "b:1")
		pass(time.Second)
		before := v.node()
		require.Equal(t, "connected, elected ", v.story())
		h.cut()
		pass(time.Millisecond)
		require.Equal(t, "deposed, disconnected", v.story())
		require.ErrorIs(t, v.Send(t.Context(), nil), coordination.ErrNotConnected)
		pass(time.Second)
		require.Equal(t, "connected, elected ", v.story())
		require.NotEqual(t, before, v.node())

		pass(time.Minute)
		h.do(func() { h.silent = true })
		pass(2 * heartbeat)
		require.Equal(t, "deposed, disconnected", v.story(), "two heartbeats were missed")
		h.do(func() { h.silent = false })
		h.cut()
		pass(2*maxDelay + DefaultConnectTimeout)
		require.Contains(t, v.story(), "connected, elected ")
		v.close(t)
	})
}

func (v *voice) node() string {
	s, _, err := v.current()
	if err != nil {
		return err.Error()
	}
	return s.in.node.Address
}

// The queue that tells of a proxy belongs to a connection that the broker has not
// given up yet: messages come all the same, and it is had as soon as that is gone.
func TestTransportMarkLocked(t *testing.T) {
	within(t, func(t *testing.T, h *hub) {
		var v *voice
		var mark string
		h.do(func() { // before it can dial
			v = h.voice()
			mark = coordination.MemberQueue + v.ID()
			h.queues[mark] = &hubQueue{name: mark, owner: &hubConn{h: h}}
		})
		pass(time.Second)
		require.NoError(t, v.Send(t.Context(), []byte("hello")))
		pass(time.Second)
		require.Equal(t, []string{"hello"}, v.heard)
		for _, within := range []time.Duration{markAgain, markEvery} { // the second time it is an operator who deletes it
			h.do(func() { delete(h.queues, mark) })
			pass(within + time.Second)
			require.Empty(t, h.messages(mark), "it is there")
		}
		v.close(t)
	})
}

// A reader that does not read loses messages, and nothing else.
func TestTransportSlowReader(t *testing.T) {
	within(t, func(t *testing.T, h *hub) {
		tr := NewTransport(TransportOptions{Dial: h.dial, Nodes: func() []NodeAddress { return []NodeAddress{{Address: "a:1"}} }})
		pass(time.Second)
		for range 3 * eventsKept {
			require.NoError(t, tr.Send(t.Context(), []byte("x")))
		}
		pass(time.Second)
		tr.Resign()
		pass(time.Second)
		var kinds []coordination.EventKind
		for len(kinds) < eventsKept+1 {
			e := <-tr.Events()
			kinds = append(kinds, e.Kind)
		}
		require.Equal(t, []coordination.EventKind{coordination.Connected, coordination.Elected}, kinds[:2])
		require.Equal(t, coordination.Deposed, kinds[eventsKept])
		require.NoError(t, tr.Close())
		for range tr.Events() { // it is closed, so this ends
		}
	})
}

// Nor does what waits for it grow without bounds.
func TestTransportBoundsWhatWaits(t *testing.T) {
	tr := &Transport{events: make(chan coordination.Event, eventsKept)}
	tr.deliver(make([]byte, coordination.MaxMessage+1))
	require.Empty(t, tr.events, "nobody would take it")
	large := make([]byte, coordination.MaxMessage)
	for range 2 {
		for range 10 {
			tr.deliver(large)
		}
		require.Len(t, tr.events, inboxOctets/coordination.MaxMessage)
		for len(tr.events) > 0 {
			<-tr.events
		}
	}
}

func TestTransportNobody(t *testing.T) {
	within(t, func(t *testing.T, h *hub) {
		dialled := 0
		refuse := func(context.Context, string, string) (net.Conn, error) { dialled++; return nil, net.ErrClosed }
		for _, nodes := range [][]NodeAddress{nil, {{Address: "a:1"}, {Address: "b:1"}}} {
			dialled = 0
			tr := NewTransport(TransportOptions{Dial: refuse, Nodes: func() []NodeAddress { return nodes }})
			pass(time.Minute)
			require.Equal(t, coordination.Disconnected, (<-tr.Events()).Kind)
			require.Empty(t, tr.Events(), "it is told once")
			require.ErrorIs(t, tr.Send(t.Context(), nil), coordination.ErrNotConnected)
			if nodes == nil {
				require.ErrorIs(t, tr.Err(), errNoNodes)
			} else {
				require.ErrorIs(t, tr.Err(), net.ErrClosed)
				require.Less(t, dialled, 60, "with pauses in between")
			}
			require.NoError(t, tr.Close())
		}
	})
}
