package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/dispatch"
	"github.com/shardmq/shardmq/dispatch/target"
	"github.com/shardmq/shardmq/integration/rig"
)

// TestDispatchRetryQueueWithoutLeader: a quorum queue that takes nothing, as RabbitMQ 3.10 has them for good where a node is
// killed just after one was declared, does not keep jobs from being done: they wait in that of another delay. What is in
// it is done once it has a leader again.
func TestDispatchRetryQueueWithoutLeader(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"", "4.3"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			e := newNodeEnv(t, rig.NodeOptions{Version: version})
			name := e.name("mail")
			ask := &endpoint{do: func(_ context.Context, m *target.Message) target.Outcome {
				if m.Attempt == 1 {
					return outcome(target.Again, target.Status5xx)
				}
				return outcome(target.Done, target.OK)
			}}
			job := dispatchJob(e, name)
			job.Executors = 4
			job.Declare.Arguments = amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}
			p, _ := runPool(t, job, ask)
			ch := confirming(t, e.url)
			reach(t, p, "connected", func(st dispatch.Status) bool { return st.Executors == 4 })
			publish(t, ch, name+"_router", "", text("the first"))
			reach(t, p, "one is done", func(st dispatch.Status) bool { return st.Done == 1 })

			stopped, err := e.broker.Eval(t.Context(), fmt.Sprintf(
				`[ra:stop_server(quorum_queues, amqqueue:get_pid(Q)) || Q <- rabbit_amqqueue:list(<<"/">>), nomatch =/= string:find(element(4, amqqueue:get_name(Q)), <<"%s.retry.">>)]`, name))
			require.NoError(t, err)
			require.Contains(t, stopped, "ok")
			for i := range 40 {
				publish(t, ch, name+"_router", "", text(fmt.Sprint(i)))
			}
			reach(t, p, "all are done", func(st dispatch.Status) bool { return st.Done == 41 })
		})
	}
}
