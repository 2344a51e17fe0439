package integration

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
	"github.com/shardmq/shardmq/shards/control"
	"github.com/shardmq/shardmq/shards/coordination"
)

func TestCoordinationTransport(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	all := voices(t, 3, e.vhost, e.broker)
	first := leader(t, all)
	require.True(t, first.is(func() bool { return first.state == "-" }), "there was nothing stored")
	hears(t, all, "hello")
	first.store("1")
	first.store("2")
	for _, v := range all {
		if v != first {
			require.ErrorIs(t, v.Store(t.Context(), []byte("3")), coordination.ErrNotElected)
		}
	}
	for _, a := range all {
		for _, b := range all {
			eventually(t, "knowing that a proxy is alive", func() string {
				if alive, err := a.Alive(t.Context(), b.ID()); err != nil || !alive {
					return fmt.Sprintf("alive: %t, error: %v", alive, err)
				}
				return ""
			})
		}
	}
	alive, err := first.Alive(t.Context(), "0123456789abcdef")
	require.NoError(t, err)
	require.False(t, alive)

	began := time.Now()
	first.kill()
	all = slices.DeleteFunc(all, func(v *voice) bool { return v == first })
	second := leader(t, all)
	t.Logf("replaced after %s", time.Since(began).Round(time.Millisecond))
	require.True(t, second.is(func() bool { return second.state == "2" }), "the state is the last one stored")
	eventually(t, "knowing that a proxy is dead", func() string {
		if alive, err := second.Alive(t.Context(), first.ID()); err != nil || alive {
			return fmt.Sprintf("alive: %t, error: %v", alive, err)
		}
		return ""
	})
	second.store("3")
	second.Resign()
	all = slices.DeleteFunc(all, func(v *voice) bool { return v == second })
	third := leader(t, all)
	require.True(t, third.is(func() bool { return third.state == "3" }))
	ch := open(t, e.url)
	q, err := ch.QueueDeclarePassive("shardmq.state", true, false, false, false, nil)
	require.NoError(t, err)
	require.Zero(t, q.Messages, "the state is unacknowledged with the leader")
	require.NoError(t, third.Close())
	eventually(t, "the second one's return", func() string {
		if second.is(func() bool { return !second.leads || second.state != "3" }) {
			return "it does not lead"
		}
		return ""
	})
	require.ErrorIs(t, third.Send(t.Context(), nil), coordination.ErrTransportClosed)
}

// TestCoordinationOneMessage: however many states were stored, one message is left.
func TestCoordinationOneMessage(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	v := voices(t, 1, e.vhost, e.broker)[0]
	leader(t, []*voice{v})
	for i := range 20 {
		v.store(fmt.Sprintf("%02d", i))
	}
	require.NoError(t, v.Close())
	ch := open(t, e.url)
	var m amqp.Delivery
	eventually(t, "the message's return to the queue", func() string {
		var ok bool
		var err error
		if m, ok, err = ch.Get("shardmq.state", false); err != nil || !ok {
			return fmt.Sprintf("got: %t, error: %v", ok, err)
		}
		return ""
	})
	require.Equal(t, "19", string(m.Body))
	require.EqualValues(t, amqp.Persistent, m.DeliveryMode)
	require.Zero(t, m.MessageCount, "there is no other one")
}

// TestCoordinationOperator deletes what coordination has in the broker.
func TestCoordinationOperator(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	all := voices(t, 2, e.vhost, e.broker)
	first := leader(t, all)
	first.store("1")
	hears(t, all, "before")
	ch := open(t, e.url)
	elected := func() (n int) {
		for _, v := range all {
			v.is(func() bool { n += v.elected; return true })
		}
		return n
	}
	for _, harm := range []func() error{
		func() error { _, err := ch.QueueDelete("shardmq.state", false, false, false); return err },
		func() error { return ch.ExchangeDelete("shardmq.state", false, false) },
	} {
		before := elected()
		require.NoError(t, harm())
		eventually(t, "another election", func() string {
			for _, v := range all { // only a store shows that the exchange is gone
				_ = v.Store(t.Context(), []byte("2"))
			}
			if elected() == before {
				return "there was none"
			}
			return ""
		})
		leader(t, all).store("3")
	}
	require.NoError(t, ch.ExchangeDelete("shardmq.members", false, false))
	hears(t, all, "after")
	leader(t, all).store("4")
}

// TestCoordinationAlarm: while the broker takes nothing in, the leader leads on, and everybody knows who is alive.
func TestCoordinationAlarm(t *testing.T) {
	t.Parallel()
	e := newNodeEnv(t, rig.NodeOptions{})
	all := voices(t, 2, e.vhost, e.broker)
	lead := leader(t, all)
	lead.store("1")
	hears(t, all, "before")
	e.ctl("set_vm_memory_high_watermark", "0.0001")
	for _, v := range all {
		eventually(t, "that sending fails", func() string {
			if err := v.Send(t.Context(), []byte("x")); !errors.Is(err, coordination.ErrBlocked) {
				return fmt.Sprint(err)
			}
			return ""
		})
	}
	require.ErrorIs(t, lead.Store(t.Context(), []byte("2")), coordination.ErrBlocked)
	for _, v := range all {
		for _, other := range all {
			alive, err := v.Alive(t.Context(), other.ID())
			require.NoError(t, err)
			require.True(t, alive)
		}
	}
	require.True(t, lead.is(func() bool { return lead.leads && lead.elected == 1 && lead.lost == 0 }), "it still leads")
	lead.kill()
	all = slices.DeleteFunc(all, func(v *voice) bool { return v == lead })
	next := leader(t, all)
	require.True(t, next.is(func() bool { return next.state == "1" }))
	e.ctl("set_vm_memory_high_watermark", "0.6")
	hears(t, all, "after")
	next.store("3")
	require.True(t, next.is(func() bool { return next.elected == 1 }))
}

// TestCoordinationRestart: the state outlives the broker.
func TestCoordinationRestart(t *testing.T) {
	t.Parallel()
	e := newNodeEnv(t, rig.NodeOptions{})
	all := voices(t, 2, e.vhost, e.broker)
	leader(t, all).store("1")
	require.NoError(t, e.broker.Kill())
	eventually(t, "noticing the loss", func() string {
		for _, v := range all {
			if v.is(func() bool { return v.on || v.leads }) {
				return v.ID() + " has not"
			}
			if err := v.Send(t.Context(), nil); !errors.Is(err, coordination.ErrNotConnected) {
				return fmt.Sprint(err)
			}
		}
		return ""
	})
	require.NoError(t, e.broker.Restart(t.Context()))
	lead := leader(t, all)
	require.True(t, lead.is(func() bool { return lead.state == "1" }), "what was confirmed is there")
	hears(t, all, "after")
	lead.store("2")
}

// TestCoordinationRights: the rights that the documentation names are enough, and what happens without them.
func TestCoordinationRights(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	for user, rights := range map[string]string{"just": `^shardmq\.`, "lacking": "^$"} {
		user = user + e.vhost
		e.ctl("add_user", user, "pw")
		e.ctl("set_permissions", "-p", e.vhost, user, rights, rights, rights)
	}
	o := control.TransportOptions{Vhost: e.vhost, Password: "pw", Nodes: addresses([]*rig.Node{e.broker})}
	o.Username = "just" + e.vhost
	just := newVoice(t, o)
	leader(t, []*voice{just}).store("1")
	hears(t, []*voice{just}, "hello")

	o.Username = "lacking" + e.vhost
	lacking := newVoice(t, o)
	eventually(t, "being told", func() string {
		if lacking.is(func() bool { return lacking.lost == 0 }) {
			return "not yet"
		}
		return ""
	})
	require.ErrorIs(t, lacking.Err(), coordination.ErrNoRights)
	require.ErrorIs(t, lacking.Send(t.Context(), nil), coordination.ErrNoRights)
	require.ErrorIs(t, lacking.Send(t.Context(), nil), coordination.ErrNotConnected)
	require.True(t, lacking.is(func() bool { return len(lacking.lines) == 1 }), "one warning")

	// The right is taken away later.
	// A channel goes by what the broker has looked up for it before.
	e.ctl("set_permissions", "-p", e.vhost, "just"+e.vhost, "^$", "^$", "^$")
	just.cut()
	eventually(t, "losing the right", func() string {
		if err := just.Send(t.Context(), nil); !errors.Is(err, coordination.ErrNoRights) {
			return fmt.Sprint(err)
		}
		return ""
	})
	require.False(t, just.is(func() bool { return just.leads }))
}

// TestCoordinationHomeDown kills, then pauses, the node that the state is on: another queue stands in for it, and
// what was decided meanwhile is what counts when it is back.
func TestCoordinationHomeDown(t *testing.T) {
	t.Parallel()
	e, nodes := cluster(t, true)
	home := nodes[len(nodes)-1]
	_, err := open(t, home.URL+"/"+e.vhost).QueueDeclare("shardmq.state", true, false, false, false, amqp.Table{"x-queue-type": "classic"})
	require.NoError(t, err)
	all := voices(t, 3, e.vhost, nodes...)
	leader(t, all).store("1")
	for i, fault := range []struct {
		what      string
		hit, heal func() error
	}{
		{"killed", home.Kill, func() error { return home.Restart(t.Context()) }},
		{"paused", home.Pause, home.Resume},
	} {
		began := time.Now()
		require.NoError(t, fault.hit())
		standIn := fmt.Sprintf("%d", 2*i+2)
		eventually(t, "a leader on another node", func() string {
			for _, v := range all {
				if v.is(func() bool { return v.leads && v.standsIn() }) {
					return ""
				}
			}
			return "there is none"
		})
		awaitRunning(t, nodes[0], len(nodes)-1)
		t.Logf("%s: led from another node after %s", fault.what, time.Since(began).Round(time.Millisecond))
		storeSoon(t, all, standIn)
		hears(t, all, fault.what)
		require.NoError(t, fault.heal())
		rejoin(t, nodes)
		eventually(t, "a leader on the proper queue", func() string {
			for _, v := range all {
				if v.is(func() bool { return v.leads && !v.standsIn() && v.state == standIn }) {
					return ""
				}
			}
			return "there is none"
		})
		leader(t, all)
		storeSoon(t, all, fmt.Sprintf("%d", 2*i+3))
		hears(t, all, fault.what+" and back")
		eventually(t, "that no other queue is left", func() string {
			return e.standIns(nodes)
		})
	}
}
