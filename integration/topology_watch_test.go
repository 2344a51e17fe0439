package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
	"github.com/shardmq/shardmq/shards"
)

// awaitAlarm waits until the node has raised a memory alarm.
func awaitAlarm(t *testing.T, node *rig.Node) {
	t.Helper()
	eventuallyEvery(t, 100*time.Millisecond, "a memory alarm", func() string {
		out, err := node.Ctl(t.Context(), "eval", "rabbit_alarm:get_alarms().")
		if err != nil || !strings.Contains(out, "memory") {
			return fmt.Sprint(out, err)
		}
		return ""
	})
}

// TestTopologyAlarm: with a memory alarm the control connection comes up all the
// same when it knows the node's name. When it has to learn that it waits: a guess
// could make a second set of shards.
func TestTopologyAlarm(t *testing.T) {
	node, err := rig.StartNode(t.Context(), rig.NodeOptions{Name: "rabbit"}) // a likely name
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Stop()) })
	require.NoError(t, open(t, node.URL).ExchangeDeclare("alarm", "direct", true, false, false, false,
		amqp.Table{"alternate-exchange": shards.Unsharded("alarm")}))
	_, err = node.Ctl(t.Context(), "set_cluster_name", "elsewhere") // which a guess would go by
	require.NoError(t, err)
	_, err = node.Ctl(t.Context(), "set_vm_memory_high_watermark", "0.000001")
	require.NoError(t, err)
	awaitAlarm(t, node)
	definition := shards.Definition{ShardsPerNode: 4}
	named := newTopology(t, node.URL, "^alarm$", definition, controlOf(t, node.URL, node.Name))
	state, err := named.top.Resolve(t.Context(), named.exchange("alarm"), false)
	require.NoError(t, err)
	require.Equal(t, shards.Sharded, state.Mode)
	require.Equal(t, node.Name, state.Set.At(0).Node)

	// A broker may take what a connection publishes before that has heard of the alarm: then the name is right.
	unnamed := newTopology(t, node.URL, "^alarm$", definition, controlOf(t, node.URL, ""))
	require.Eventually(t, func() bool {
		state, err = unnamed.top.Resolve(t.Context(), unnamed.exchange("alarm"), true)
		if err == nil {
			require.Equal(t, node.Name, state.Set.At(0).Node)
			unnamed = newTopology(t, node.URL, "^alarm$", definition, controlOf(t, node.URL, ""))
		}
		return err != nil
	}, patience, time.Millisecond)
	require.ErrorIs(t, err, shards.ErrUnreachable)
	_, err = node.Ctl(t.Context(), "set_vm_memory_high_watermark", "0.4")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		state, err = unnamed.top.Resolve(t.Context(), unnamed.exchange("alarm"), true)
		return err == nil
	}, patience, 100*time.Millisecond)
	require.Equal(t, node.Name, state.Set.At(0).Node)
}

// TestTopologyWatch deletes things at the broker behind the topology's back.
func TestTopologyWatch(t *testing.T) {
	e := newEnv(t)
	name := "watch" + e.suffix
	r := newTopology(t, e.url, "^"+name+"$", shards.Definition{ShardsPerNode: 4})
	spec := shards.ExchangeSpec{Name: name, Type: shards.ModulusHash, Durable: true}
	state := r.declare(spec)
	x := r.exchange(name)
	require.NoError(t, r.top.BindWords(t.Context(), x, 2))
	r.top.Start(t.Context())
	_, err := r.ch.QueueDelete(state.Set.At(0).Queue, false, false, false)
	require.NoError(t, err)
	other := open(t, e.url)
	require.Eventually(t, func() bool {
		q, err := other.QueueDeclarePassive(state.Set.At(0).Queue, true, false, false, false, nil)
		if err != nil {
			other = open(t, e.url)
		}
		return err == nil && q.Name != "" && x.State().Live == nil
	}, patience, 100*time.Millisecond)
	_, err = r.top.Resolve(t.Context(), x, true) // waits for the set-up under way
	require.NoError(t, err)
	require.Equal(t, []string{state.Set.At(0).Queue}, r.where(x, "a.b", state.Set.Key(0, 2)))
	require.Equal(t, []string{state.Set.At(0).Queue}, r.where(x, "a.b"), "the catch-all")

	require.NoError(t, r.ch.ExchangeDelete(name, false, false))
	require.Eventually(t, func() bool { return x.State().Mode == shards.Missing }, patience, 100*time.Millisecond)
	require.NoError(t, r.ch.ExchangeDeclare(name, "direct", true, false, false, false,
		amqp.Table{"alternate-exchange": shards.Unsharded(name)}))
	require.Eventually(t, func() bool { return x.State().Mode == shards.Sharded }, patience, 100*time.Millisecond)
	require.Equal(t, []string{state.Set.At(2).Queue}, r.where(x, "a.b", state.Set.Key(2, 2)))
}
