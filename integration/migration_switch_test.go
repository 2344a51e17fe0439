package integration

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// switchOver takes an exchange from the plugin to shardmq, by the steps of docs/migrating-from-the-plugin.md: delete it
// through the proxy, clear the plugin's policy, declare it again through the proxy. While there is no exchange it calls the
// given functions.
func (e *env) switchOver(proxyURL string, meanwhile ...func()) {
	e.t.Helper()
	ch := open(e.t, proxyURL)
	require.NoError(e.t, ch.ExchangeDelete("images", false, false))
	e.ctl("clear_policy", "images")
	for _, do := range meanwhile {
		do()
	}
	declareSharded(e.t, ch, "images")
}

// TestMigrationSwitch: the plugin is taken away while clients publish and consume through the proxy. Publishes in the
// moment without an exchange are refused, never lost; consumers see nothing of it.
func TestMigrationSwitch(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		e := newPluginEnv(t, version, 4)
		s := newStream(t)
		s.send(e.url, 2)
		p := e.adopt(4)
		one := consume(t, p.URL, "images", 10)
		stop := s.keepSending(p.URL)
		receivesMore(t, one)

		e.switchOver(p.URL, func() {
			eventually(t, "a publish that is refused", func() string { return atLeast(int(s.refused.Load()), 1) })
		})
		require.Equal(t, "direct", e.exchangeType())
		receivesMore(t, one)
		e.plugins("disable", "rabbitmq_sharding")
		receivesMore(t, one)

		sent, _ := stop()
		require.Positive(t, sent)
		s.requireAll(one)
		requireOrder(t, one.received())
		one.leave(t)
		requirePlacedAsByPlugin(t, e, p.URL)
	}, "", "4.0")
}

// TestMigrationSwitchOfMany: the other proxies find out by themselves when the exchange is switched over through one.
func TestMigrationSwitchOfMany(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		e := newPluginEnv(t, version, 4)
		s := newStream(t)
		s.send(e.url, 2)
		p, other := e.adopt(4), e.adopt(4)
		consumers := []*consumer{consume(t, p.URL, "images", 10), consume(t, other.URL, "images", 10)}
		stop := s.keepSending(other.URL)
		receivesMore(t, consumers[0])
		receivesMore(t, consumers[1])

		e.switchOver(p.URL)
		eventually(t, "the other proxy's looking again", func() string {
			if !strings.Contains(other.Logs(), `"mode":"sharded"`) {
				return "it has not"
			}
			return ""
		})
		e.plugins("disable", "rabbitmq_sharding")
		receivesMore(t, consumers[0])
		receivesMore(t, consumers[1])
		sent, _ := stop()
		require.Positive(t, sent)
		s.requireAll(consumers...)
		for _, c := range consumers {
			c.finish(t)
		}
		requirePlacedAsByPlugin(t, e, other.URL)
	}, "", "4.0")
}

// TestMigrationPluginGone: the plugin was disabled before anything else was done. What it leaves behind refuses all
// publishes; the proxy takes it over with the backlog, and every key keeps its shard and its order.
func TestMigrationPluginGone(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		e := newPluginEnv(t, version, 4)
		s := newStream(t)
		s.send(e.url, 3)
		shards := e.probe("images", 4)
		backlog := shards.load().messages
		e.plugins("disable", "rabbitmq_sharding")

		p := e.adopt(4)
		require.Equal(t, modulusHash, e.exchangeType())
		ch := confirming(t, p.URL)
		closing := ch.NotifyClose(make(chan *amqp.Error, 1))
		require.Error(t, s.sendOne(ch, "key"))
		refused := closed(t, closing)
		require.Equal(t, amqp.PreconditionFailed, refused.Code)
		require.Contains(t, refused.Reason, "exchange type x-modulus-hash not found")
		e.switchOver(p.URL)
		require.Equal(t, "direct", e.exchangeType())

		s.send(p.URL, 3)
		for i, n := range shards.load().messages {
			require.Equal(t, 2*backlog[i], n, "messages on shard %d: as many of each key as before", i)
		}
		one := consume(t, p.URL, "images", 10)
		s.requireAll(one)
		requireOrder(t, one.received())
	}, "", "4.0")
}

// TestMigrationNative: from 4.3 on RabbitMQ itself has the exchange type. The plugin can go at any time.
func TestMigrationNative(t *testing.T) {
	t.Parallel()
	e := newPluginEnv(t, "4.3", 4)
	s := newStream(t)
	s.send(e.url, 2)
	p := e.adopt(4)
	one := consume(t, p.URL, "images", 10)
	stop := s.keepSending(p.URL)
	receivesMore(t, one)
	e.plugins("disable", "rabbitmq_sharding")
	e.ctl("clear_policy", "images")
	receivesMore(t, one)

	sent, refused := stop()
	require.Positive(t, sent)
	require.Zero(t, refused)
	require.Equal(t, modulusHash, e.exchangeType())
	s.requireAll(one)
	requireOrder(t, one.received())
	one.leave(t)
	requirePlacedAsByPlugin(t, e, p.URL)
}

// TestMigrationBack: from shardmq to the plugin. What the proxy placed is consumed by the plugin's consumers.
func TestMigrationBack(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		e := newNodeEnv(t, pluginNode(version))
		e.plugins("disable", "rabbitmq_sharding")
		p := e.adopt(4)
		declareSharded(t, open(t, p.URL), "images")
		s := newStream(t)
		s.send(p.URL, 3)
		shards := e.probe("images", 4)
		backlog := shards.load().messages
		require.Equal(t, len(s.sent), sum(backlog))

		e.plugins("enable", "rabbitmq_sharding")
		if e.exchangeType() != modulusHash { // it is from 4.3 on
			require.NoError(t, open(t, p.URL).ExchangeDelete("images", false, false))
			e.pluginShards(4)
			declareSharded(t, open(t, e.url), "images")
		} else {
			e.pluginShards(4)
		}
		require.Equal(t, modulusHash, e.exchangeType())
		err := open(t, e.url).ExchangeDeclarePassive("images.unsharded", "fanout", true, false, false, false, nil)
		require.ErrorContains(t, err, "404")

		s.send(e.url, 3)
		s.send(p.URL, 3) // the proxy serves what there is now
		for i, n := range shards.load().messages {
			require.Equal(t, 3*backlog[i], n, "messages on shard %d: as many of each key as before", i)
		}
		var consumers []*consumer
		for range 4 {
			consumers = append(consumers, consume(t, e.url, "images", 10))
		}
		s.requireAll(consumers...)
		for _, c := range consumers {
			requireOrder(t, c.received())
		}
	})
}
