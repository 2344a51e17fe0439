package integration

import (
	"context"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// What the tests look at in the broker itself, past the proxy.

// node returns RabbitMQ's name of the test's broker. One that is not ours is asked the way the proxy asks.
func (e *env) node() string {
	if e.broker.Name != "" {
		return e.broker.Name
	}
	if e.nodeName == "" {
		c := controlOf(e.t, e.url, "")
		name, err := c.NodeName(context.Background()) // also when the test's context has ended, to clean up
		require.NoError(e.t, err)
		require.NoError(e.t, c.Close())
		e.nodeName = name
	}
	return e.nodeName
}

// shard returns the name of an exchange's queue with that index.
func (e *env) shard(exchange string, index int) string {
	return fmt.Sprintf("sharding: %s - %s - %d", exchange, e.node(), index)
}

// shards returns the names of all n shards in the order in which keys are mapped to them: sorted as bytes.
func (e *env) shards(exchange string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = e.shard(exchange, i)
	}
	slices.Sort(names)
	return names
}

// load is what each shard holds, in the order of shards.
type load struct{ messages, consumers []int }

// probe reads shards' counts over one connection of its own.
type probe struct {
	e      *env
	ch     *amqp.Channel
	shards []string
}

// probe returns a probe of the exchange's n shards.
func (e *env) probe(exchange string, n int) *probe {
	e.t.Helper()
	return &probe{e: e, ch: open(e.t, e.url), shards: e.shards(exchange, n)}
}

// load asks the broker. All shards must exist.
func (p *probe) load() load {
	p.e.t.Helper()
	var l load
	for _, name := range p.shards {
		q, err := p.ch.QueueDeclarePassive(name, false, false, false, false, nil)
		require.NoError(p.e.t, err, "shard %q", name)
		l.messages = append(l.messages, q.Messages)
		l.consumers = append(l.consumers, q.Consumers)
	}
	return l
}

// waitConsumers waits until each shard has exactly that many consumers.
func (p *probe) waitConsumers(want ...int) {
	p.e.t.Helper()
	eventually(p.e.t, fmt.Sprintf("consumers per shard %v", want), func() string {
		if got := p.load().consumers; !slices.Equal(got, want) {
			return fmt.Sprintf("they are %v", got)
		}
		return ""
	})
}

// waitMessages waits until the shards hold so many messages that nobody has fetched.
func (p *probe) waitMessages(want int) {
	p.e.t.Helper()
	eventually(p.e.t, fmt.Sprintf("%d messages in the shards", want), func() string {
		if got := p.load().messages; sum(got) != want {
			return fmt.Sprintf("they are %v", got)
		}
		return ""
	})
}

// drain takes all messages out of the exchange's shards at the broker: one list for each shard.
func (p *probe) drain() [][]amqp.Delivery {
	p.e.t.Helper()
	drained := make([][]amqp.Delivery, len(p.shards))
	for i, name := range p.shards {
		drained[i] = drain(p.e.t, p.ch, name)
	}
	return drained
}

// exists says whether the broker has a queue of that name.
func (e *env) exists(queue string) bool {
	conn := dial(e.t, e.url)
	ch, err := conn.Channel()
	require.NoError(e.t, err)
	_, err = ch.QueueDeclarePassive(queue, false, false, false, false, nil)
	return err == nil
}

func sum(numbers []int) int {
	total := 0
	for _, n := range numbers {
		total += n
	}
	return total
}
