package shards

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// From the moment an exchange is there, what is published to it is confirmed: its
// catch-all has to lead to a shard by then.
func TestCatchAllIsThereFirst(t *testing.T) {
	for _, pattern := range []string{"^x$", "x"} {
		for _, alternate := range []string{"", "own"} {
			top, cluster, _, _ := topology(t, 2, policy(t, pattern, Definition{ShardsPerNode: 2}))
			checked := false
			cluster.refuse = func(op, name string) error {
				if op == "declare exchange" && name == "x" && !checked {
					checked = true
					require.Contains(t, cluster.exchanges, "x.unsharded")
					require.Len(t, cluster.queues, 4)
					require.True(t, cluster.bindings[[3]string{"x.unsharded", "", QueueName("x", "a@h", 0)}])
				}
				return nil
			}
			x := exchangeOf(t, top, "x")
			spec := ExchangeSpec{Name: "x", Type: ModulusHash, AlternateExchange: alternate}
			plan, err := top.PrepareDeclare(t.Context(), x, spec)
			require.NoError(t, err)
			if pattern == "^x$" {
				require.True(t, checked)
				require.Equal(t, Sharded, x.State().Mode, "nobody's publishes pass as for a missing exchange")
			}
			requireDeclares(t, top, cluster, x, spec, plan)
			require.True(t, checked)
			require.Equal(t, Sharded, x.State().Mode)
		}
	}
}

// Publishes that come while an exchange is being declared wait for what it will be.
func TestPublishesWaitForADeclare(t *testing.T) {
	for _, version := range []string{"3.10.8", "4.3.6"} {
		synctest.Test(t, func(t *testing.T) {
			top, cluster, _, _ := topology(t, 1, policy(t, "^x$", Definition{}))
			cluster.version = version
			x := exchangeOf(t, top, "x")
			_, err := top.Resolve(t.Context(), x, false)
			require.NoError(t, err)
			require.Equal(t, Missing, x.State().Mode)

			created := make(chan struct{})
			hold := make(chan struct{})
			cluster.do(func() {
				cluster.refuse = func(op, _ string) error {
					if op == "bind" && cluster.exchanges["x"].Name != "" {
						cluster.refuse = nil
						close(created)
						cluster.mu.Unlock()
						<-hold
						cluster.mu.Lock()
					}
					return nil
				}
			})
			done := make(chan error, 1)
			go func() {
				_, err := top.PrepareDeclare(t.Context(), x, ExchangeSpec{Name: "x", Type: ModulusHash})
				done <- err
			}()
			<-created // the exchange is there, and not bound
			require.Equal(t, Unknown, x.State().Mode)
			seen := make(chan *State, 1)
			go func() {
				state, _ := top.Resolve(t.Context(), x, false)
				seen <- state
			}()
			synctest.Wait()
			require.Empty(t, seen)
			close(hold)
			require.NoError(t, <-done)
			state := <-seen
			require.NotNil(t, state.Set)
			require.NotEqual(t, Missing, state.Mode)
		})
	}
}

// What was made for an exchange that its client then may not declare goes again.
func TestAbandon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top, cluster, _, _ := topology(t, 1, policy(t, "x", Definition{ShardsPerNode: 3}))
		top.Start(t.Context())
		adopted, used := QueueName("x", "a@h", 1), QueueName("x", "a@h", 2) // the one was there before, the other gets a message
		cluster.do(func() {
			cluster.queues[adopted] = fakeQueue{spec: shardSpec(adopted, &Definition{}), Count: Count{Exists: true}}
		})
		x := exchangeOf(t, top, "x")
		_, err := top.PrepareDeclare(t.Context(), x, ExchangeSpec{Name: "x", Type: ModulusHash})
		require.NoError(t, err)
		other := QueueName("x", "a@h", 0)
		cluster.requireQueues(t, other, adopted, used)
		cluster.do(func() {
			q := cluster.queues[used]
			q.Messages = 1
			cluster.queues[used] = q
		})
		_, err = top.Resolve(t.Context(), x, true)
		require.NoError(t, err)
		require.True(t, cluster.hasExchange("x.unsharded"), "the client's declare may be under way")
		pass(2 * abandonAfter)
		require.False(t, cluster.hasExchange("x.unsharded"))
		cluster.requireQueues(t, adopted, used)
	})
}

func TestAbandonRefused(t *testing.T) {
	for _, op := range []string{"declare exchange", "declare queue", "bind"} {
		for _, marker := range []bool{false, true} {
			top, cluster, _, _ := topology(t, 1, policy(t, "^x$", Definition{ShardsPerNode: 2}))
			if marker {
				cluster.exchanges["x.unsharded"] = ExchangeSpec{Name: "x.unsharded", Type: "fanout", Durable: true}
			}
			cluster.refuse = func(o, name string) error {
				if o == op && (op != "declare exchange" || name == "x") {
					return &BrokerError{Code: 403, Text: "ACCESS_REFUSED"}
				}
				return nil
			}
			_, err := top.PrepareDeclare(t.Context(), exchangeOf(t, top, "x"), ExchangeSpec{Name: "x", Type: ModulusHash})
			var refused *BrokerError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, uint16(403), refused.Code)
			require.Empty(t, cluster.queues)
			require.NotContains(t, cluster.exchanges, "x")
			_, there := cluster.exchanges["x.unsharded"]
			require.Equal(t, marker, there)
		}
	}
}
