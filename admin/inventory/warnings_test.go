package inventory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/shards"
	"github.com/shardmq/shardmq/shards/coordination"
)

// What cannot be found out is said, and the rest is told all the same.
func TestListGoesOnWithoutWhatFails(t *testing.T) {
	boom := errors.New("boom")
	o := manyQueues().options(t, false)
	o.Listen = func(context.Context, time.Duration) (*View, error) { return nil, boom }
	o.Stats = func(context.Context) (map[string]Stats, error) {
		return map[string]Stats{"sharding: images - 3": {}}, boom
	}
	l, err := List(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, []string{"what proxies say is not known altogether: boom", "boom"}, l.Warnings)
	require.Len(t, l.Exchanges[0].Shards, 7)
	for _, s := range l.Exchanges[0].Shards {
		require.Nil(t, s.Unacked, "what proxies hold is not known")
		require.Nil(t, s.Publish)
	}
	for _, blind := range []bool{false, true} {
		o = twoSurplus().options(t, false)
		want := Deleted
		if o.Stats = func(context.Context) (map[string]Stats, error) { return map[string]Stats{}, nil }; blind {
			o.Stats, want = func(context.Context) (map[string]Stats, error) { return nil, boom }, Keep
		}
		p, err := prune(t.Context(), PruneOptions{Options: o, Yes: true, Force: true}, 0)
		require.NoError(t, err)
		require.Len(t, p.Verdicts, 2)
		for _, v := range p.Verdicts {
			require.Equal(t, want, v.Action, "what a client holds past the proxies would not be seen")
		}
	}

	o = manyQueues().options(t, true)
	l, err = List(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, []string{"node rabbit@b: " + shards.ErrUnreachable.Error()}, l.Warnings)
	require.Equal(t, nodeDown, find(t, l, "sharding: images - rabbit@b - 0").Problem)
}

func find(t *testing.T, l *Listing, queue string) *Shard {
	t.Helper()
	for i := range l.Exchanges {
		for j := range l.Exchanges[i].Shards {
			if s := &l.Exchanges[i].Shards[j]; s.Queue == queue {
				return s
			}
		}
	}
	require.Fail(t, "no such shard", queue)
	return nil
}

// A queue that does not answer, or is refused, hides none of the others, not even from the search; nor does one whose
// node is down pass for one that is gone.
func TestListTellsOneBadShardApart(t *testing.T) {
	c := manyQueues()
	c.queues["sharding: images - rabbit@a - 0"].fails = shards.ErrUnreachable
	c.queues["sharding: images - rabbit@a - 2"].fails = &shards.BrokerError{Code: 405, Text: "RESOURCE_LOCKED"}
	c.queues["sharding: images - 3"].dormant = true
	c.queues["sharding: images - rabbit@a - 5"] = &queue{fails: shards.ErrUnreachable} // nobody knows of it
	o := c.options(t, false)
	o.Listen = func(context.Context, time.Duration) (*View, error) { return resizing(), nil }
	l, err := List(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, silent, find(t, l, "sharding: images - rabbit@a - 0").Problem)
	require.Equal(t, "405 RESOURCE_LOCKED", find(t, l, "sharding: images - rabbit@a - 2").Problem)
	require.Equal(t, dormant, find(t, l, "sharding: images - 3").Problem)
	require.Empty(t, find(t, l, "sharding: images - rabbit@a - 17").Problem, "it was found")
	require.Equal(t, int64(1), *find(t, l, "sharding: images - rabbit@b - 0").Consumers)
	require.Equal(t, []string{"exchange images: not all of its shards may have been found: rabbit@a: it does not answer"}, l.Warnings)

	// None of them is removed, whatever is asked for.
	p, err := prune(t.Context(), PruneOptions{Options: o, Yes: true, Force: true}, 0)
	require.NoError(t, err)
	reasons := map[string]string{}
	for _, v := range p.Verdicts {
		if v.Action == Kept || v.Action == Keep {
			reasons[v.Queue] = v.Reason
		}
	}
	require.Equal(t, map[string]string{"sharding: images - rabbit@a - 2": "405 RESOURCE_LOCKED", "sharding: images - 3": dormant}, reasons)
}

// The leader may know nodes that this configuration does not.
func TestListNodesThatAreNotGiven(t *testing.T) {
	o := manyQueues().options(t, false)
	v := &View{}
	v.Add(&coordination.Message{Kind: coordination.StateKind, State: &coordination.State{Exchanges: map[string]*coordination.Entry{
		"images": {Layout: coordination.Layout{Set: []coordination.Shard{shardOf("images", "rabbit@z", 0)}}}}}})
	o.Listen = func(context.Context, time.Duration) (*View, error) { return v, nil }
	l, err := List(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, otherNode, find(t, l, "sharding: images - rabbit@z - 0").Problem)
}

// Shards of a fixed total say where they are: the classic ones where they were placed, as the leader's plan has it, and
// replicated ones, as far as the management API tells, where their leader is.
func TestListNodesOfAFixedTotal(t *testing.T) {
	c := &cluster{queues: map[string]*queue{}}
	fixed := func(exchange string, nodes ...string) *coordination.Entry {
		e := &coordination.Entry{}
		for i, node := range nodes {
			name := shards.QueueNameFixed(exchange, i)
			c.queues[name] = &queue{}
			e.Set = append(e.Set, coordination.Shard{Queue: name, Node: node, Index: i})
		}
		return e
	}
	v := &View{}
	v.Add(&coordination.Message{Kind: coordination.StateKind, State: &coordination.State{Exchanges: map[string]*coordination.Entry{
		"images": fixed("images", "rabbit@b", "rabbit@a"), "audit": fixed("audit", "", "")}}})
	o := c.options(t, false)
	o.Policies = policies(t, policy(t, "audit", shards.Definition{Shards: 2, QueueArguments: map[string]any{"x-queue-type": "quorum"}}))
	o.Exchanges = []string{"audit", "images", "audit"}
	o.Listen = func(context.Context, time.Duration) (*View, error) { return v, nil }
	at := func() map[string]string {
		l, err := List(t.Context(), o)
		require.NoError(t, err)
		require.Len(t, l.Exchanges, 2, "named twice, listed once")
		nodes := map[string]string{}
		for queue := range c.queues {
			nodes[queue] = find(t, l, queue).Node
		}
		return nodes
	}
	require.Equal(t, map[string]string{
		"sharding: images - 0": "rabbit@b", "sharding: images - 1": "rabbit@a", "sharding: audit - 0": "", "sharding: audit - 1": "",
	}, at())
	o.Stats = func(context.Context) (map[string]Stats, error) {
		return map[string]Stats{
			"sharding: audit - 0":  {Type: "quorum", Node: "rabbit@a"},
			"sharding: audit - 1":  {Type: "quorum", Node: "rabbit@c"},
			"sharding: images - 0": {Type: "classic", Node: "rabbit@c"}, // moved by an operator
		}, nil
	}
	require.Equal(t, map[string]string{
		"sharding: images - 0": "rabbit@c", "sharding: images - 1": "rabbit@a", "sharding: audit - 0": "rabbit@a", "sharding: audit - 1": "rabbit@c",
	}, at())
	require.NotContains(t, c.asked, "rabbit@a sharding: images - 0", "its own node is asked about it")
	require.Contains(t, c.asked, "rabbit@b sharding: images - 0")
}

// Exchanges may be named anything. What AMQP has no room for is not asked for, and what belongs to another exchange is
// left to that.
func TestOddExchangeNames(t *testing.T) {
	long := strings.Repeat("é", 120) + "x" // so that the first ten shards have names that fit, on no node
	c := &cluster{queues: map[string]*queue{
		"sharding: images - rabbit@a - 0": {}, // and as such of exchange "images - rabbit@a", had that a fixed total
		"sharding: a/b%2F\x1b[2J\n - 0":   {}, "sharding: \"quo\\ted\" - rabbit@a - 0": {}, "sharding:  - 0": {},
		"sharding: " + long + " - 9": {},
	}}
	o := c.options(t, false)
	o.Exchanges = []string{"images - rabbit@a", "a/b%2F\x1b[2J\n", `"quo\ted"`, "", long, strings.Repeat("x", 300)}
	l, err := List(t.Context(), o)
	require.NoError(t, err)
	require.Empty(t, l.Warnings)
	require.Len(t, l.Exchanges, len(o.Exchanges))
	var counts []int
	for _, x := range l.Exchanges {
		counts = append(counts, len(x.Shards))
	}
	require.Equal(t, []int{0, 1, 1, 1, 1, 0}, counts)
	var table bytes.Buffer
	require.NoError(t, WriteTable(&table, []*Listing{l}))
	require.NotContains(t, table.String(), "\x1b")
	require.Contains(t, table.String(), `a/b%2F\x1b[2J\n (vhost /): 1 shard, 1 of them surplus; no policy`)
	require.Contains(t, table.String(), "\n\"\" (vhost /): 1 shard")
	require.Contains(t, table.String(), "\n"+`sharding: a/b%2F\x1b[2J\n - 0  -   `)
	require.Contains(t, table.String(), `sharding: "quo\ted" - rabbit@a - 0  rabbit@a`)

	name := strings.Repeat("x", 232) // a proxy takes it, but on these nodes its shards would have names that are too long
	o.Exchanges, o.Policies = []string{name}, shards.NewPolicies([]*shards.Policy{policy(t, ".*", shards.Definition{ShardsPerNode: 1})})
	l, err = List(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, errTooLong.Error(), find(t, l, shards.QueueName(name, "rabbit@a", 0)).Problem)

	p, err := prune(t.Context(), PruneOptions{Options: Options{Vhost: "/", Policies: policies(t), Brokers: o.Brokers, Exchanges: []string{"images - rabbit@a"}}, Yes: true}, 0)
	require.NoError(t, err)
	require.Empty(t, p.Verdicts)
	require.Empty(t, c.deleted)
}

func TestWriteWarnings(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, WriteWarnings(&out, "v\n", []string{"a", "b\x00"}))
	require.Equal(t, "shardmq: warning: vhost v\\n: a\nshardmq: warning: vhost v\\n: b\\x00\n", out.String())
	require.Error(t, WriteWarnings(broken{}, "v", []string{"a"}))
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken") }

// Messages that cannot be read are left out, and said to be: something may be missing then. What another user sends is
// left out as well, but as it is by the proxies, so that nothing is missing.
func TestViewLeavesOutWhatItCannotRead(t *testing.T) {
	good := coordination.Message{V: 1, Kind: coordination.ReportKind, From: "p"}
	body := func(m coordination.Message) []byte {
		var b bytes.Buffer
		require.NoError(t, WriteJSON(&b, m))
		return b.Bytes()
	}
	newer, odd, other, foreign := good, good, good, good
	newer.V, other.Kind, foreign.From = 2, "prune", "q"
	odd.Exchanges = map[string]coordination.ExchangeReport{"x": {Found: []coordination.Shard{{Queue: "orders"}}}}
	for name, c := range map[string]struct {
		body    []byte
		user    string
		partial bool
		want    string
	}{
		"good":         {body: body(good), user: "u"},
		"later kinds":  {body: body(other), user: "u"},
		"garbage":      {body: []byte("hello"), user: "u", partial: true, want: "exchange 'shardmq.members': 2 messages left out that cannot be read: decode coordination message: invalid character 'h'"},
		"nothing":      {user: "u", partial: true, want: "unexpected end of JSON input"},
		"newer":        {body: body(newer), user: "u", partial: true, want: "message of another version of the protocol: 2"},
		"other queues": {body: body(odd), user: "u", partial: true, want: "shards of other names than the exchange's have"},
		"other user":   {body: body(foreign), user: "mallory", want: "2 messages left out that another user has sent: proxies of one virtual host have to use the same control user"},
		"no user":      {body: []byte("hello"), want: "another user"},
	} {
		t.Run(name, func(t *testing.T) {
			v := &View{}
			v.take(amqp.Delivery{UserId: "u", Body: body(good)}, "u")
			for range 2 {
				v.take(amqp.Delivery{UserId: c.user, Body: c.body}, "u")
			}
			require.Equal(t, 1, v.Proxies())
			require.Equal(t, c.partial, v.Partial)
			if c.want == "" {
				require.Empty(t, v.Warnings())
				return
			}
			require.Len(t, v.Warnings(), 1)
			require.Contains(t, v.Warnings()[0], c.want)
		})
	}
}

// The same of what is stored: the newest state that can be read is gone by.
func TestViewLeavesOutStatesItCannotRead(t *testing.T) {
	v := &View{}
	store := func(user, text string) { v.takeStored(amqp.Delivery{UserId: user, Body: []byte(text)}, "u") }
	store("u", `{"v":1,"state":{"term":3}}`)
	store("u", "garbage")
	store("u", `{"v":2,"state":{"term":4}}`)
	store("u", `{"v":1,"state":{"term":5,"exchanges":{"x":{"generation":1,"set":[{"queue":"orders"}]}}}}`)
	store("u", `{"v":1,"state":{"term":5,"exchanges":{"x":{"generation":1,"set":[{"queue":"sharding: x - 0"}],"old":[{"queue":"orders","phase":"bound"}]}}}}`)
	store("mallory", `{"v":1,"state":{"term":6}}`)
	require.EqualValues(t, 3, v.State.Term)
	require.True(t, v.Partial)
	require.Len(t, v.Warnings(), 4)
	require.Contains(t, v.Warnings()[2], "queue 'shardmq.state': 2 messages left out that cannot be read: shards of other names")
}

func TestWarningsAreBounded(t *testing.T) {
	v := &View{}
	for i := range 1000 {
		v.unread(fmt.Sprint(i), errors.New("boom"))
	}
	require.Len(t, v.Warnings(), oddityKinds)
}
