package integration

import (
	"strconv"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

type consumedByPika struct {
	Each         []int
	MostUnacked  []int `json:"most_unacked"`
	Problems     []string
	ProblemCount int `json:"problem_count"`
}

// TestPika is what a pika user does with a sharded exchange, from declaring it to purging the pseudo-queue.
func TestPika(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	shards := e.probePublished(t, p.URL, images)

	t.Run("two consumers get all 1,000 as published", func(t *testing.T) {
		var got consumedByPika
		// With a prefetch: without one, whoever comes first may get the whole backlog before the other is there.
		pika(t, &got, "consume", p.URL, images, "1000", "2", "20")
		require.Zero(t, got.ProblemCount, "%v", got.Problems)
		require.Len(t, got.Each, 2)
		require.Positive(t, got.Each[0], "messages at the first of two consumers: %v", got.Each)
		require.Positive(t, got.Each[1], "messages at the second of two consumers: %v", got.Each)
		shards.waitConsumers(0, 0, 0, 0)
	})
	t.Run("every key stays on its shard", func(t *testing.T) {
		for range 2 {
			pikaPublish(t, p.URL, images, 1000)
		}
		requireKeysStay(t, shards.drain(), 2)
	})
	t.Run("queue_declare returns the own name and the sum", func(t *testing.T) {
		pikaPublish(t, p.URL, images, 300)
		var got struct {
			Answers []struct {
				Queue               string
				Messages, Consumers int
			}
		}
		pika(t, &got, "declare", p.URL, images)
		require.Len(t, got.Answers, 2)
		for _, a := range got.Answers {
			require.Equal(t, images, a.Queue)
			require.Equal(t, 300, a.Messages)
			require.Zero(t, a.Consumers)
		}
	})
	t.Run("basic_get drains all shards", func(t *testing.T) {
		var got struct {
			Count, Distinct int
			Left            []int
		}
		pika(t, &got, "get", p.URL, images)
		require.Equal(t, 300, got.Count)
		require.Equal(t, 300, got.Distinct)
		for i, left := range got.Left {
			require.Equal(t, 299-i, left, "message_count of get number %d", i+1)
		}
		require.Zero(t, sum(shards.load().messages))
	})
	t.Run("purge returns the sum", func(t *testing.T) {
		pikaPublish(t, p.URL, images, 200)
		var got struct{ Purged int }
		pika(t, &got, "purge", p.URL, images)
		require.Equal(t, 200, got.Purged)
		require.Zero(t, sum(shards.load().messages))
	})
}

// probePublished has pika declare the exchange and publish 1,000 keys with confirms, and checks that they are spread.
func (e *env) probePublished(t *testing.T, url, exchange string) *probe {
	t.Helper()
	pikaPublish(t, url, exchange, 1000)
	shards := e.probe(exchange, 4)
	messages := shards.load().messages
	require.Equal(t, 1000, sum(messages), "messages in the shards: %v", messages)
	for i, n := range messages {
		require.Greater(t, n, 150, "shard %d has %d of 1000: %v", i, n, messages)
	}
	return shards
}

func pikaPublish(t *testing.T, url, exchange string, n int) {
	t.Helper()
	var got struct{ Confirmed int }
	pika(t, &got, "publish", url, exchange, strconv.Itoa(n))
	require.Equal(t, n, got.Confirmed)
}

// requireKeysStay checks that each body is in one shard only, so many times, and that one key has one shard.
func requireKeysStay(t *testing.T, shards [][]amqp.Delivery, times int) {
	t.Helper()
	shardOf, seen := map[string]int{}, map[string]int{}
	for i, messages := range shards {
		require.NotEmpty(t, messages, "shard %d", i)
		for _, m := range messages {
			if before, known := shardOf[m.RoutingKey]; known {
				require.Equal(t, before, i, "key %q is in two shards", m.RoutingKey)
			}
			shardOf[m.RoutingKey] = i
			seen[string(m.Body)]++
			require.NotContains(t, m.Headers, "BCC")
		}
	}
	for body, n := range seen {
		require.Equal(t, times, n, "%s", body)
	}
}

// TestPikaPrefetchOne: with fewer consumers than shards, prefetch_count=1 and manual acks, every shard is served and
// no consumer ever has two messages unacknowledged.
func TestPikaPrefetchOne(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	pikaPublish(t, p.URL, images, 200)
	var got consumedByPika
	pika(t, &got, "consume", p.URL, images, "200", "2", "1")
	require.Zero(t, got.ProblemCount, "%v", got.Problems)
	require.Equal(t, []int{1, 1}, got.MostUnacked, "most messages unacknowledged at each consumer")
}

// TestPikaShortcut: an empty queue name means the last declared queue, also when that is a pseudo-queue.
func TestPikaShortcut(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	declareSharded(t, open(t, p.URL), images)
	var got struct {
		Keys, Purged int
		Expected     bool
	}
	pika(t, &got, "shortcut", p.URL, images)
	require.Equal(t, 40, got.Keys)
	require.True(t, got.Expected, "the keys are not those that were published")
	require.Equal(t, 7, got.Purged)
}
