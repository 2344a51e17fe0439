package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
	"github.com/shardmq/shardmq/shards"
	"github.com/shardmq/shardmq/shards/control"
)

// topologyRig is a Topology on real nodes, and a plain client beside it.
type topologyRig struct {
	t   *testing.T
	url string
	top *shards.Topology
	ch  *amqp.Channel
}

// controlOf returns a control connection with the credentials and vhost of url.
func controlOf(t *testing.T, url, node string) *control.Client {
	t.Helper()
	u, err := amqp.ParseURI(url)
	require.NoError(t, err)
	return control.New(control.Options{
		Node: node, Address: fmt.Sprintf("%s:%d", u.Host, u.Port),
		Vhost: u.Vhost, Username: u.Username, Password: u.Password,
	})
}

// newTopology has one policy and one node, unless brokers are given.
func newTopology(t *testing.T, url, pattern string, def shards.Definition, brokers ...shards.Broker) *topologyRig {
	t.Helper()
	u, err := amqp.ParseURI(url)
	require.NoError(t, err)
	p, err := shards.NewPolicy("test", u.Vhost, pattern, 0, def)
	require.NoError(t, err)
	if len(brokers) == 0 {
		brokers = []shards.Broker{controlOf(t, url, "")}
	}
	top := shards.NewTopology(u.Vhost, shards.NewPolicies([]*shards.Policy{p}), brokers, nil)
	t.Cleanup(func() { require.NoError(t, top.Close()) })
	return &topologyRig{t: t, url: url, top: top, ch: open(t, url)}
}

func (r *topologyRig) exchange(name string) *shards.Exchange {
	r.t.Helper()
	route := r.top.Lookup([]byte(name))
	require.NotNil(r.t, route)
	return route.Exchange
}

// declare does what a proxy does for a client's exchange.declare.
func (r *topologyRig) declare(spec shards.ExchangeSpec) *shards.State {
	r.t.Helper()
	x := r.exchange(spec.Name)
	plan, err := r.top.PrepareDeclare(r.t.Context(), x, spec)
	require.NoError(r.t, err)
	var args amqp.Table
	if alternate := max(plan.AddAlternate, spec.AlternateExchange); alternate != "" {
		args = amqp.Table{"alternate-exchange": alternate}
	}
	require.NoError(r.t, r.ch.ExchangeDeclare(spec.Name, plan.Type, spec.Durable, spec.AutoDelete, spec.Internal, false, args))
	state, err := r.top.Resolve(r.t.Context(), x, true)
	require.NoError(r.t, err)
	return state
}

// where publishes one message with these BCC keys and returns the shards it is in.
func (r *topologyRig) where(x *shards.Exchange, key string, bcc ...any) []string {
	r.t.Helper()
	require.NoError(r.t, r.ch.Confirm(false))
	headers := amqp.Table{}
	if bcc != nil {
		headers["BCC"] = bcc
	}
	confirm, err := r.ch.PublishWithDeferredConfirm(x.Name, key, false, false, amqp.Publishing{Headers: headers})
	require.NoError(r.t, err)
	require.True(r.t, confirm.Wait())
	var got []string
	set := x.State().Set
	for i := range set.Len() {
		for {
			message, ok, err := r.ch.Get(set.At(i).Queue, true)
			require.NoError(r.t, err)
			if !ok {
				break
			}
			require.NotContains(r.t, message.Headers, "BCC")
			got = append(got, set.At(i).Queue)
		}
	}
	return got
}

func TestTopologySharded(t *testing.T) {
	for _, kind := range []string{"literal", "pattern"} {
		for _, alternate := range []string{"", "own"} {
			t.Run(kind+alternate, func(t *testing.T) {
				e := newEnv(t)
				name := "topo-" + kind + alternate + e.suffix
				pattern := "^" + name + "$"
				if kind == "pattern" {
					pattern = "^" + name
				}
				r := newTopology(t, e.url, pattern, shards.Definition{ShardsPerNode: 12})
				state := r.declare(shards.ExchangeSpec{Name: name, Type: shards.ModulusHash, Durable: true, AlternateExchange: alternate})
				require.Equal(t, shards.Sharded, state.Mode)
				require.Equal(t, 12, state.Set.Len())
				x := r.exchange(name)
				for i := range state.Set.Len() {
					require.Equal(t, []string{state.Set.At(i).Queue}, r.where(x, "key", state.Set.Key(i, 1)))
				}
				if alternate == "" {
					require.Equal(t, []string{state.Set.At(0).Queue}, r.where(x, "key"), "the catch-all")
				}
				require.NoError(t, r.top.BindWords(t.Context(), x, 3))
				require.Equal(t, []string{state.Set.At(3).Queue}, r.where(x, "a.b.c", state.Set.Key(3, 3)))

				again := r.declare(shards.ExchangeSpec{Name: name, Type: shards.ModulusHash, Durable: true, AlternateExchange: alternate})
				require.Same(t, state.Set, again.Set)
				require.True(t, again.HasWords(3))
				counts, err := r.top.Counts(t.Context(), x)
				require.NoError(t, err)
				require.Len(t, counts, 12)
				for _, count := range counts {
					require.Equal(t, shards.Count{Exists: true}, count)
				}

				require.NoError(t, r.ch.ExchangeDelete(name, false, false))
				r.top.Forget(t.Context(), x)
				state, err = r.top.Resolve(t.Context(), x, false)
				require.NoError(t, err)
				require.Equal(t, shards.Missing, state.Mode)
				b := controlOf(t, e.url, "")
				defer func() { require.NoError(t, b.Close()) }()
				exists, err := b.ExchangeExists(t.Context(), shards.Unsharded(name))
				require.NoError(t, err)
				require.False(t, exists)
			})
		}
	}
}

func TestTopologyAdoptsShards(t *testing.T) {
	e := newEnv(t)
	name := "topo-adopt" + e.suffix
	r := newTopology(t, e.url, "^"+name+"$", shards.Definition{ShardsPerNode: 100})
	b := controlOf(t, e.url, "")
	defer func() { require.NoError(t, b.Close()) }()
	node, err := b.NodeName(t.Context())
	require.NoError(t, err)
	queue := shards.QueueName(name, node, 42)
	_, err = r.ch.QueueDeclare(queue, false, false, false, false, amqp.Table{"x-max-priority": 7, "x-dead-letter-exchange": "17"})
	require.NoError(t, err)
	require.NoError(t, r.ch.Publish("", queue, false, false, amqp.Publishing{Body: []byte("backlog")}))
	state := r.declare(shards.ExchangeSpec{Name: name, Type: shards.ModulusHash})
	i, ok := state.Set.Index(queue)
	require.True(t, ok)
	require.Eventually(t, func() bool {
		counts, err := r.top.Counts(t.Context(), r.exchange(name))
		return err == nil && counts[i].Messages == 1
	}, patience, 10*time.Millisecond)
}

// TestTopologyProbe looks at exchanges of every kind and wants them unchanged.
func TestTopologyProbe(t *testing.T) {
	node, err := rig.StartNode(t.Context(), rig.NodeOptions{Plugins: []string{"rabbitmq_sharding"}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Stop()) })
	r := newTopology(t, node.URL, "^probe", shards.Definition{ShardsPerNode: 1, RoutingKey: "rk"})
	b := controlOf(t, node.URL, "")
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	learned, err := b.NodeName(t.Context())
	require.NoError(t, err)
	require.Equal(t, node.Name, learned)
	for n, tt := range []struct {
		kind, alternate string
		want            shards.Mode
	}{
		{"direct", "", shards.Plain},
		{"direct", "own", shards.Plain},
		{"direct", "ours", shards.Sharded},
		{"topic", "", shards.Plain},
		{"fanout", "own", shards.Plain},
		{"headers", "", shards.Plain},
		{"x-modulus-hash", "", shards.Native},
	} {
		for bits := range 8 {
			name := fmt.Sprintf("probe-%d-%d", n, bits)
			var args amqp.Table
			switch tt.alternate {
			case "own":
				args = amqp.Table{"alternate-exchange": "own"}
			case "ours":
				args = amqp.Table{"alternate-exchange": shards.Unsharded(name)}
			}
			declare := func() error {
				return r.ch.ExchangeDeclare(name, tt.kind, bits&1 != 0, bits&2 != 0, bits&4 != 0, false, args)
			}
			require.NoError(t, declare())
			state, err := r.top.Resolve(t.Context(), r.exchange(name), false)
			require.NoError(t, err)
			require.Equal(t, tt.want, state.Mode, "%s %d", tt.kind, bits)
			require.Equal(t, tt.kind, state.Type)
			require.NoError(t, declare(), "it is still the same")
			plan, err := r.top.PrepareDeclare(t.Context(), r.exchange(name), shards.ExchangeSpec{Name: name, Type: shards.ModulusHash})
			if tt.want != shards.Plain {
				require.NoError(t, err)
				require.Equal(t, tt.kind, plan.Type)
				continue
			}
			var refused *shards.BrokerError
			require.ErrorAs(t, err, &refused)
			real := r.refusal(func(ch *amqp.Channel) error {
				return ch.ExchangeDeclare(name, shards.ModulusHash, false, false, false, false, nil)
			})
			require.Equal(t, real.Reason, refused.Text, "as the broker itself words it")
			require.Equal(t, real.Code, int(refused.Code))
		}
	}
	state, err := r.top.Resolve(t.Context(), r.exchange("probe-none"), false)
	require.NoError(t, err)
	require.Equal(t, shards.Missing, state.Mode)
	out, err := node.Ctl(t.Context(), "list_exchanges", "name")
	require.NoError(t, err)
	require.NotContains(t, out, "probe-none")
}

// refusal returns the error of a request on a channel of its own.
func (r *topologyRig) refusal(fn func(*amqp.Channel) error) *amqp.Error {
	r.t.Helper()
	var refused *amqp.Error
	require.ErrorAs(r.t, fn(open(r.t, r.url)), &refused)
	return refused
}

// TestTopologyRights takes one right after the other away from the control user.
func TestTopologyRights(t *testing.T) {
	node, err := rig.StartNode(t.Context(), rig.NodeOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Stop()) })
	ctl := func(args ...string) {
		t.Helper()
		_, err := node.Ctl(t.Context(), args...)
		require.NoError(t, err)
	}
	ctl("add_user", "some", "secret")
	u, err := amqp.ParseURI(node.URL)
	require.NoError(t, err)
	u.Username, u.Password = "some", "secret"
	for n, tt := range []struct {
		configure, write, read string
		right                  string // EXCHANGE and QUEUE stand for the names
	}{
		{"^$", ".*", ".*", "configure and read on exchange 'EXCHANGE'"},
		{"^r", ".*", ".*", "configure on queue 'QUEUE'"},
		{".*", "^r", ".*", "write on queue 'QUEUE'"},
		{".*", ".*", "^$", "read on exchange 'EXCHANGE'"},
		{".*", ".*", ".*", ""},
	} {
		name := fmt.Sprintf("rights%d", n)
		ctl("set_permissions", "some", tt.configure, tt.write, tt.read)
		r := newTopology(t, node.URL, "^"+name+"$", shards.Definition{ShardsPerNode: 1}, controlOf(t, u.String(), node.Name))
		require.NoError(t, r.ch.ExchangeDeclare(name, "direct", true, false, false, false,
			amqp.Table{"alternate-exchange": shards.Unsharded(name)}))
		_, err := r.top.Resolve(t.Context(), r.exchange(name), false)
		if tt.right == "" {
			require.NoError(t, err)
			continue
		}
		var refused *shards.BrokerError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, uint16(403), refused.Code)
		names := strings.NewReplacer("EXCHANGE", name, "QUEUE", shards.QueueName(name, node.Name, 0))
		require.Equal(t, names.Replace(tt.right), refused.Right)
	}
}

func TestTopologyConnectRefused(t *testing.T) {
	e := newEnv(t)
	for name, tt := range map[string]struct {
		change func(*amqp.URI)
		code   uint16
	}{
		"password": {func(u *amqp.URI) { u.Password = "wrong" }, 403},
		"vhost":    {func(u *amqp.URI) { u.Vhost = "no-such-vhost" }, 530},
	} {
		t.Run(name, func(t *testing.T) {
			u, err := amqp.ParseURI(e.url)
			require.NoError(t, err)
			tt.change(&u)
			b := controlOf(t, u.String(), "")
			defer func() { require.NoError(t, b.Close()) }()
			_, err = b.Version(t.Context())
			var refused *shards.BrokerError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, tt.code, refused.Code)
		})
	}
}

// TestTopologyOutage pauses, kills and restarts the broker.
func TestTopologyOutage(t *testing.T) {
	node, err := rig.StartNode(t.Context(), rig.NodeOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Stop()) })
	r := newTopology(t, node.URL, "^out$", shards.Definition{ShardsPerNode: 4})
	state := r.declare(shards.ExchangeSpec{Name: "out", Type: shards.ModulusHash, Durable: true})
	x := r.exchange("out")

	require.NoError(t, node.Pause())
	_, err = r.top.Counts(t.Context(), x)
	require.ErrorIs(t, err, shards.ErrUnreachable)
	require.NoError(t, node.Resume())
	require.Eventually(t, func() bool { _, err := r.top.Counts(t.Context(), x); return err == nil }, patience, 10*time.Millisecond)

	require.NoError(t, node.Kill())
	_, err = r.top.Resolve(t.Context(), x, true)
	require.ErrorIs(t, err, shards.ErrUnreachable)
	require.Equal(t, shards.Sharded, x.State().Mode, "what is known stays known")
	require.NoError(t, node.Restart(t.Context()))
	again, err := r.top.Resolve(t.Context(), x, true)
	require.NoError(t, err)
	require.Same(t, state.Set, again.Set)
}

func TestTopologyCluster(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	one, two := startPair(ctx, t)

	r := newTopology(t, one.URL, "^clu$", shards.Definition{ShardsPerNode: 2},
		controlOf(t, one.URL, one.Name), controlOf(t, two.URL, two.Name))
	state := r.declare(shards.ExchangeSpec{Name: "clu", Type: shards.ModulusHash, Durable: true})
	x := r.exchange("clu")
	require.Equal(t, 4, state.Set.Len())
	out, err := one.Ctl(ctx, "list_queues", "--silent", "name", "pid")
	require.NoError(t, err)
	for i := range state.Set.Len() {
		shard := state.Set.At(i)
		require.Regexp(t, shards.QueueName("clu", shard.Node, shard.Index)+`\s+<`+shard.Node, out, "on its own node")
		require.Equal(t, []string{shard.Queue}, r.where(x, "k", state.Set.Key(i, 1)))
	}
	require.Equal(t, []string{state.Set.At(0).Queue}, r.where(x, "k"))

	require.NoError(t, two.Kill())
	require.Eventually(t, func() bool {
		again, err := r.top.Resolve(ctx, x, true)
		return err == nil && again.Set == state.Set
	}, patience, 100*time.Millisecond, "a node down changes no placement")
	counts, err := r.top.Counts(ctx, x)
	require.NoError(t, err)
	for i, count := range counts {
		require.Equal(t, state.Set.At(i).Node == one.Name, count.Exists)
	}
}
