package integration

import (
	"fmt"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// TestConsumersAtOnce: 16 connections that consume at the same moment spread evenly, in every round.
func TestConsumersAtOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	declareSharded(t, open(t, p.URL), images)
	shards := e.probe(images, 4)
	for round := range 4 {
		t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) {
			channels := make([]*amqp.Channel, 16)
			for i := range channels {
				channels[i] = open(t, p.URL)
			}
			consumeAtOnce(t, channels, images)
			shards.waitConsumers(4, 4, 4, 4)
		})
		shards.waitConsumers(0, 0, 0, 0)
	}
}

// consumeAtOnce sends basic.consume on all channels together and returns when all have their consume-ok.
func consumeAtOnce(t *testing.T, channels []*amqp.Channel, queue string) {
	t.Helper()
	start := make(chan struct{})
	errs := make([]error, len(channels))
	var consuming sync.WaitGroup
	for i, ch := range channels {
		consuming.Go(func() {
			<-start
			_, errs[i] = ch.Consume(queue, "", false, false, false, false, nil)
		})
	}
	close(start)
	consuming.Wait()
	for i, err := range errs {
		require.NoError(t, err, "consumer %d", i)
	}
}

// TestConsumersOneChannel: several consumers of one channel share the shards too.
func TestConsumersOneChannel(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	ch := confirming(t, p.URL)
	declareSharded(t, ch, images)
	shards := e.probe(images, 4)
	inbox := make(chan amqp.Delivery, 200)
	for i := range 6 {
		deliveries, err := ch.Consume(images, fmt.Sprintf("consumer-%d", i), true, false, false, false, nil)
		require.NoError(t, err)
		go func() {
			for d := range deliveries {
				inbox <- d
			}
		}()
	}
	eventually(t, "6 consumers on 4 shards", func() string {
		got := shards.load().consumers
		for _, n := range got {
			if sum(got) != 6 || n < 1 || n > 2 {
				return fmt.Sprintf("consumers per shard are %v", got)
			}
		}
		return ""
	})
	publishKeys(t, ch, images, keys("key", 100))
	seen := map[string]bool{}
	for range 100 {
		d := wait(t, "a delivery", inbox)
		require.Contains(t, d.ConsumerTag, "consumer-", "the client's own consumer tag")
		seen[string(d.Body)] = true
	}
	require.Len(t, seen, 100)
	for i := range 6 {
		require.NoError(t, ch.Cancel(fmt.Sprintf("consumer-%d", i), false))
	}
	shards.waitConsumers(0, 0, 0, 0)
}

// TestConsumersComeAndGo: one consumer covers all shards; more take their share; those that stay take over what the
// others leave, however they leave; and nothing published meanwhile is lost.
func TestConsumersComeAndGo(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	publisher := confirming(t, p.URL)
	declareSharded(t, publisher, images)
	shards := e.probe(images, 4)

	first := consume(t, p.URL, images, 0)
	shards.waitConsumers(1, 1, 1, 1)
	var sent []string
	send := func(phase string) {
		batch := keys(phase, 100)
		publishKeys(t, publisher, images, batch)
		sent = append(sent, batch...)
	}
	send("alone")
	waitBodies(t, sent, first)

	second, third := consume(t, p.URL, images, 0), consume(t, p.URL, images, 10)
	for round := 0; len(second.received()) == 0 || len(third.received()) == 0; round++ {
		require.Less(t, round, 1000, "rounds until the second (%d messages) and the third (%d) of three consumers have their share",
			len(second.received()), len(third.received()))
		send(fmt.Sprintf("three-%d", round))
		waitBodies(t, sent, first, second, third)
	}
	shards.waitConsumers(1, 1, 1, 1)

	require.NoError(t, first.ch.Cancel(first.tag, false)) // leaves by basic.cancel
	<-first.done
	send("two")
	waitBodies(t, sent, first, second, third)
	shards.waitConsumers(1, 1, 1, 1)

	require.NoError(t, second.ch.Close()) // leaves by channel.close
	<-second.done
	send("one")
	waitBodies(t, sent, first, second, third)
	shards.waitConsumers(1, 1, 1, 1)

	third.leave(t) // leaves by connection.close
	shards.waitConsumers(0, 0, 0, 0)
	send("none")
	require.Equal(t, 100, sum(shards.load().messages))
	last := consume(t, p.URL, images, 1)
	waitBodies(t, sent, first, second, third, last)
}

// TestConsumerPrefetch: the prefetch limit holds for the client's consumer, over all the shards it is attached to.
func TestConsumerPrefetch(t *testing.T) {
	t.Parallel()
	for _, prefetch := range []int{1, 2, 3, 4, 7} {
		t.Run(fmt.Sprint(prefetch), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			images := e.name("images")
			p := e.proxy(map[string]int{images: 4})
			publisher := confirming(t, p.URL)
			declareSharded(t, publisher, images)
			publishKeys(t, publisher, images, keys("key", 120))
			requirePrefetchKept(t, open(t, p.URL), images, prefetch, 120)
		})
	}
}

// requirePrefetchKept consumes n messages by one consumer. It takes all it can get and acknowledges the oldest only when
// a round trip brings no more, so that the window is as full as the broker and the proxy make it.
func requirePrefetchKept(t *testing.T, ch *amqp.Channel, queue string, prefetch, n int) {
	t.Helper()
	require.NoError(t, ch.Qos(prefetch, 0, false))
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	require.NoError(t, err)
	var unacked []amqp.Delivery
	seen := map[string]bool{}
	take := func(d amqp.Delivery) {
		require.False(t, seen[string(d.Body)], "%s was delivered twice", d.Body)
		seen[string(d.Body)] = true
		unacked = append(unacked, d)
		require.LessOrEqual(t, len(unacked), prefetch, "unacknowledged at the consumer")
	}
	for len(seen) < n {
		if len(unacked) == 0 {
			take(wait(t, fmt.Sprintf("delivery number %d", len(seen)+1), deliveries))
		}
		require.NoError(t, ch.ExchangeDeclarePassive("amq.topic", "topic", true, false, false, false, nil))
		select {
		case d := <-deliveries:
			take(d)
		default:
			require.NoError(t, unacked[0].Ack(false))
			unacked = unacked[1:]
		}
	}
}
