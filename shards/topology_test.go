package shards

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// topology returns a topology of vhost / on the nodes a@h, b@h, ... of a new
// cluster.
func topology(t *testing.T, nodes int, policies ...*Policy) (*Topology, *fakeCluster, []*fakeBroker, *recorder) {
	t.Helper()
	cluster, logs := newFakeCluster(), &recorder{}
	var fakes []*fakeBroker
	var brokers []Broker
	for i := range nodes {
		b := cluster.node(string(rune('a'+i)) + "@h")
		fakes, brokers = append(fakes, b), append(brokers, b)
	}
	top := NewTopology("/", NewPolicies(policies), brokers, logs)
	t.Cleanup(func() {
		require.NoError(t, top.Close())
		for _, b := range fakes {
			require.True(t, b.closed)
		}
	})
	return top, cluster, fakes, logs
}

func policy(t *testing.T, pattern string, def Definition) *Policy {
	t.Helper()
	if def.Shards == 0 {
		def.ShardsPerNode = max(def.ShardsPerNode, 1)
	}
	p, err := NewPolicy(pattern, "/", pattern, 0, def)
	require.NoError(t, err)
	return p
}

func exchangeOf(t *testing.T, top *Topology, name string) *Exchange {
	t.Helper()
	route := top.Lookup([]byte(name))
	require.NotNil(t, route)
	require.NotNil(t, route.Exchange)
	return route.Exchange
}

func TestResolveMissing(t *testing.T) {
	top, cluster, _, _ := topology(t, 1, policy(t, "^images$", Definition{}))
	state, err := top.Resolve(t.Context(), exchangeOf(t, top, "images"), false)
	require.NoError(t, err)
	require.Equal(t, Missing, state.Mode)
	require.Empty(t, cluster.exchanges, "a look must not create anything")
	require.Empty(t, cluster.queues)
}

// TestResolveShapes resolves each kind of exchange in each combination of its
// properties, and wants the exchange itself unchanged.
func TestResolveShapes(t *testing.T) {
	for _, tt := range []struct {
		kind, alternate string
		marker          bool
		def             Definition
		want            Mode
		key             string // binding key of the shard, unless Sharded
	}{
		{kind: "direct", alternate: "x.unsharded", want: Sharded},
		{kind: "direct", alternate: "own", marker: true, want: Sharded},
		{kind: "direct", marker: true, want: Sharded},
		{kind: "direct", want: Plain, def: Definition{RoutingKey: "rk"}, key: "rk"},
		{kind: "direct", alternate: "own", want: Plain},
		{kind: "direct", def: Definition{ExchangeType: ModulusHash}, want: Sharded},
		{kind: "x-modulus-hash", want: Native, def: Definition{RoutingKey: "rk"}},
		{kind: "topic", marker: true, want: Plain, def: Definition{RoutingKey: "a.#"}, key: "a.#"},
		{kind: "fanout", def: Definition{ExchangeType: ModulusHash}, want: Plain},
	} {
		for bits := range 8 {
			t.Run(fmt.Sprintf("%s_%s_%v_%d", tt.kind, tt.alternate, tt.marker, bits), func(t *testing.T) {
				top, cluster, _, _ := topology(t, 1, policy(t, "^x$", tt.def))
				spec := ExchangeSpec{
					Name: "x", Type: tt.kind, AlternateExchange: tt.alternate,
					Durable: bits&1 != 0, AutoDelete: bits&2 != 0, Internal: bits&4 != 0,
				}
				cluster.exchanges["x"] = spec
				if tt.marker {
					cluster.exchanges["x.unsharded"] = ExchangeSpec{Name: "x.unsharded", Type: "fanout", Durable: true}
				}
				state, err := top.Resolve(t.Context(), exchangeOf(t, top, "x"), false)
				require.NoError(t, err)
				require.Equal(t, tt.want, state.Mode)
				require.Equal(t, tt.kind, state.Type)
				require.Equal(t, spec, cluster.exchanges["x"])
				queue := QueueName("x", "a@h", 0)
				require.Contains(t, cluster.queues, queue)
				if tt.want == Sharded {
					require.Equal(t, map[string]bool{state.Set.Key(0, 1): true}, cluster.keys("x", queue))
					require.Equal(t, map[string]bool{"": true}, cluster.keys("x.unsharded", queue))
				} else {
					require.Equal(t, map[string]bool{tt.key: true}, cluster.keys("x", queue))
				}
			})
		}
	}
}

func TestResolveDeclaresShardsOnTheirNodes(t *testing.T) {
	top, cluster, _, logs := topology(t, 2, policy(t, "^x$", Definition{ShardsPerNode: 3}))
	cluster.exchanges["x"] = ExchangeSpec{Name: "x", Type: "direct", Durable: true, AlternateExchange: "x.unsharded"}
	adopted := fakeQueue{node: "b@h", spec: QueueSpec{Arguments: map[string]any{"x-max-priority": 5}}, Count: Count{Exists: true}}
	cluster.queues[QueueName("x", "b@h", 1)] = adopted
	state, err := top.Resolve(t.Context(), exchangeOf(t, top, "x"), false)
	require.NoError(t, err)
	require.Equal(t, 6, state.Set.Len())
	for i := range 6 {
		shard := state.Set.At(i)
		q := cluster.queues[shard.Queue]
		require.Equal(t, shard.Node, q.node)
		if shard.Queue == QueueName("x", "b@h", 1) {
			require.Equal(t, adopted, q)
			continue
		}
		require.Equal(t, QueueSpec{shard.Queue, true, map[string]any{"x-queue-type": "classic"}}, q.spec)
	}
	require.Len(t, cluster.bindings, 7, "6 shards and one catch-all")
	again, err := top.Resolve(t.Context(), exchangeOf(t, top, "x"), true)
	require.NoError(t, err)
	require.Same(t, state.Set, again.Set, "the same shards are the same set")
	require.Equal(t, 1, logs.count("exchange state"), "no news, no log line")
}

func TestResolveWithANodeDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, cluster, nodes, _ := topology(t, 2, policy(t, "^x$", Definition{ShardsPerNode: 2}))
		cluster.exchanges["x"] = ExchangeSpec{Name: "x", Type: "direct", AlternateExchange: "x.unsharded"}
		nodes[0].setDown(true)
		top.Start(t.Context())
		synctest.Wait()
		state := exchangeOf(t, top, "x").State()
		require.Equal(t, Sharded, state.Mode)
		require.Equal(t, 4, state.Set.Len(), "placement does not depend on who is up")
		require.Len(t, cluster.queues, 2)
		require.NotEmpty(t, cluster.keys("x.unsharded", QueueName("x", "b@h", 0)), "the catch-all goes to a live shard")
		counts, err := top.Counts(t.Context(), exchangeOf(t, top, "x"))
		require.NoError(t, err)
		require.Equal(t, []Count{{}, {}, {Exists: true}, {Exists: true}}, counts)

		nodes[0].setDown(false)
		advance(retryMost + time.Second)
		synctest.Wait()
		require.Len(t, cluster.queues, 4, "the node's shards follow when it is back")
		require.Empty(t, cluster.keys("x.unsharded", QueueName("x", "b@h", 0)), "and nothing is delivered twice")
		require.NotEmpty(t, cluster.keys("x.unsharded", QueueName("x", "a@h", 0)))
	})
}

func TestStartWaitsForTheBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, cluster, nodes, _ := topology(t, 1, policy(t, "^x$", Definition{}), policy(t, "^y$", Definition{}), policy(t, "z", Definition{}))
		for _, name := range []string{"x", "z"} {
			cluster.exchanges[name] = ExchangeSpec{Name: name, Type: "direct", AlternateExchange: name + ".unsharded"}
		}
		nodes[0].setDown(true)
		top.Start(t.Context())
		synctest.Wait()
		require.Equal(t, Unknown, exchangeOf(t, top, "x").State().Mode)
		nodes[0].setDown(false)
		advance(retryMost)
		synctest.Wait()
		require.Equal(t, Sharded, exchangeOf(t, top, "x").State().Mode)
		require.Equal(t, Missing, exchangeOf(t, top, "y").State().Mode)
		require.Equal(t, Unknown, exchangeOf(t, top, "z").State().Mode, "patterns are resolved at first use")
	})
}

func TestResolveRemembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, cluster, _, _ := topology(t, 1, policy(t, "^x$", Definition{}))
		x := exchangeOf(t, top, "x")
		mode := func(force bool) Mode {
			state, err := top.Resolve(t.Context(), x, force)
			require.NoError(t, err)
			return state.Mode
		}
		require.Equal(t, Missing, mode(false))
		require.Equal(t, Missing, mode(false))
		require.Equal(t, 1, cluster.count("exchange exists"))
		cluster.exchanges["x"] = ExchangeSpec{Name: "x", Type: "topic"}
		require.Equal(t, Missing, mode(false))
		advance(missingFor)
		require.Equal(t, Plain, mode(false))
		delete(cluster.exchanges, "x")
		advance(time.Hour)
		require.Equal(t, Plain, mode(false))
		require.Equal(t, Missing, mode(true))

		cluster.refuse = func(string, string) error { return &BrokerError{Code: 403, Text: "ACCESS_REFUSED"} }
		before := cluster.count("exchange exists")
		_, err := top.Resolve(t.Context(), x, true)
		var refused *BrokerError
		require.ErrorAs(t, err, &refused)
		_, err = top.Resolve(t.Context(), x, false)
		require.ErrorAs(t, err, &refused)
		require.Equal(t, before+1, cluster.count("exchange exists"))
		cluster.refuse = nil
		advance(missingFor)
		require.Equal(t, Missing, mode(false))
	})
}

func TestResolveSharesARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, cluster, _, _ := topology(t, 1, policy(t, "^x$", Definition{}))
		x := exchangeOf(t, top, "x")
		cluster.hold = make(chan struct{})
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { _, _ = top.Resolve(t.Context(), x, false) })
		}
		synctest.Wait()
		// The exchange appears while the run is looking: whoever made it must not
		// be told that it is missing.
		for range 20 {
			wg.Go(func() {
				state, err := top.Resolve(t.Context(), x, true)
				if err != nil || state.Mode != Plain {
					t.Errorf("forced Resolve: %v, %v", state, err)
				}
			})
		}
		synctest.Wait()
		require.Len(t, cluster.held, 1)
		cluster.do(func() {
			cluster.exchanges["x"] = ExchangeSpec{Name: "x", Type: "topic"}
			close(cluster.hold)
			cluster.hold = nil
		})
		wg.Wait()
		require.LessOrEqual(t, cluster.count("exchange exists"), 2)
	})
}

func TestResolveReturnsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, cluster, _, _ := topology(t, 1, policy(t, "^x$", Definition{}))
		cluster.hold = make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := top.Resolve(ctx, exchangeOf(t, top, "x"), false)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		close(cluster.hold)
	})
}

func TestResolveAfterClose(t *testing.T) {
	cluster := newFakeCluster()
	top := NewTopology("/", NewPolicies([]*Policy{policy(t, "^x$", Definition{})}), []Broker{cluster.node("a@h")}, nil)
	require.NoError(t, top.Close())
	_, err := top.Resolve(t.Context(), exchangeOf(t, top, "x"), false)
	require.ErrorIs(t, err, ErrTopologyClosed)
}

func TestResolveRefused(t *testing.T) {
	for _, op := range []string{"exchange exists", "declare exchange", "queue count", "declare queue", "bind"} {
		top, cluster, _, _ := topology(t, 1, policy(t, "^x$", Definition{}))
		cluster.exchanges["x"] = ExchangeSpec{Name: "x", Type: "direct", AlternateExchange: "x.unsharded"}
		refusal := &BrokerError{Code: 403, Text: "ACCESS_REFUSED", Right: "configure"}
		cluster.refuse = func(o, _ string) error {
			if o == op {
				return refusal
			}
			return nil
		}
		_, err := top.Resolve(t.Context(), exchangeOf(t, top, "x"), false)
		require.ErrorIs(t, err, refusal, op)
		require.Equal(t, Unknown, exchangeOf(t, top, "x").State().Mode)
	}
}

func TestRealQueue(t *testing.T) {
	for _, tt := range []struct {
		name  string
		count error
		want  bool
	}{
		{name: "there", want: true},
		{name: "exclusive", count: &BrokerError{Code: 405, Text: "RESOURCE_LOCKED"}, want: true},
		{name: "none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			top, cluster, _, logs := topology(t, 1, policy(t, "^x$", Definition{}))
			cluster.exchanges["x"] = ExchangeSpec{Name: "x", Type: "topic"}
			if tt.name == "there" {
				cluster.queues["x"] = fakeQueue{Count: Count{Exists: true}}
			}
			cluster.refuse = func(op, name string) error {
				if op == "queue count" && name == "x" && tt.count != nil {
					return tt.count
				}
				return nil
			}
			for range 2 {
				state, err := top.Resolve(t.Context(), exchangeOf(t, top, "x"), true)
				require.NoError(t, err)
				require.Equal(t, tt.want, state.RealQueue)
			}
			want := 0
			if tt.want {
				want = 1
			}
			require.Equal(t, want, logs.count("a queue has the name"))
		})
	}
}

func TestBindWords(t *testing.T) {
	top, cluster, _, _ := topology(t, 2, policy(t, "^x$", Definition{ShardsPerNode: 2}))
	x := exchangeOf(t, top, "x")
	require.NoError(t, top.BindWords(t.Context(), x, 3), "nothing to bind while there is no exchange")
	cluster.exchanges["x"] = ExchangeSpec{Name: "x", Type: "direct", AlternateExchange: "x.unsharded"}
	_, err := top.Resolve(t.Context(), x, false)
	require.NoError(t, err)
	require.NoError(t, top.BindWords(t.Context(), x, 3))
	require.NoError(t, top.BindWords(t.Context(), x, 99))
	binds := cluster.count("bind")
	require.NoError(t, top.BindWords(t.Context(), x, MaxWords))
	require.Equal(t, binds, cluster.count("bind"))
	require.Equal(t, uint32(1|1<<2|1<<15), x.State().Words)
	wantKeys := func() {
		t.Helper()
		set := x.State().Set
		for i := range set.Len() {
			require.Equal(t, map[string]bool{set.Key(i, 1): true, set.Key(i, 3): true, set.Key(i, 16): true},
				cluster.keys("x", set.At(i).Queue))
		}
	}
	wantKeys()

	// Deleted and declared anew, behind our back: all counts in use are bound again.
	cluster.do(func() { clear(cluster.bindings) })
	_, err = top.Resolve(t.Context(), x, true)
	require.NoError(t, err)
	wantKeys()

	cluster.refuse = func(string, string) error { return errors.New("boom") }
	require.Error(t, top.BindWords(t.Context(), x, 4))
	require.False(t, x.State().HasWords(4), "the state says what is bound, not what was tried")
}

func TestGroupIsOnePerExchange(t *testing.T) {
	top, _, _, _ := topology(t, 1, policy(t, "^x$", Definition{}))
	x := exchangeOf(t, top, "x")
	require.Same(t, top.Group(x), top.Group(x))
}

func TestVersionAtLeast(t *testing.T) {
	for version, want := range map[string]bool{
		"4.3.0": true, "4.3": true, "4.10.1": true, "5.0.0": true, "4.3.0-rc.1": true,
		"4.2.9": false, "3.13.7": false, "": false, "4": false, "x.y": false,
	} {
		require.Equal(t, want, versionAtLeast(version, 4, 3), version)
	}
}
