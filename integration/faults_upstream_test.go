package integration

import (
	"net"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/integration/rig"
)

// TestUpstreamUnreachable: clients are told with a text while the broker cannot be reached, whether its address refuses
// connections or swallows them; and once it can be, the proxy serves again by itself.
func TestUpstreamUnreachable(t *testing.T) {
	t.Parallel()
	for name, block := range map[string]func(*link){
		"refuses":  (*link).cut,
		"swallows": func(l *link) { l.hold(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			images := e.name("images")
			l := newLink(t, e.broker.Addr)
			block(l)
			config := e.config(l.addr, e.policy(images, 4, ""))
			p := e.start(rig.ProxyOptions{Upstream: e.url, Config: config})
			for client, said := range connectErrors(t, p.URL) {
				require.Contains(t, said, "cannot reach the broker", "what %s says", client)
			}
			if name == "refuses" {
				l.restore()
			}
			l.hold(false)
			ch := eventuallyOpen(t, p.URL)
			declareSharded(t, ch, images)
			require.NoError(t, ch.Confirm(false))
			publishKeys(t, ch, images, keys("key", 40))
			require.Equal(t, 40, sum(e.probe(images, 4).load().messages))
		})
	}
}

// eventuallyOpen connects as soon as that works.
func eventuallyOpen(t *testing.T, url string) *amqp.Channel {
	t.Helper()
	var conn *amqp.Connection
	eventually(t, "a connection", func() (wrong string) {
		var err error
		if conn, err = amqp.Dial(url); err != nil {
			return err.Error()
		}
		return ""
	})
	t.Cleanup(func() { _ = conn.Close() })
	return channel(t, conn)
}

// TestUpstreamLost: when the broker's side of a connection goes away, the client gets 320 and can come back.
func TestUpstreamLost(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	l := newLink(t, e.broker.Addr)
	p := e.start(rig.ProxyOptions{Upstream: withHost(t, e.url, l.addr), Shards: map[string]int{images: 4}})
	conn := dial(t, p.URL)
	declareSharded(t, channel(t, conn), images)
	c := consume(t, p.URL, images, 0)
	e.probe(images, 4).waitConsumers(1, 1, 1, 1)
	ends := []<-chan *amqp.Error{conn.NotifyClose(make(chan *amqp.Error, 1)), c.conn.NotifyClose(make(chan *amqp.Error, 1))}
	l.cut()
	for _, end := range ends {
		require.Equal(t, amqp.ConnectionForced, closed(t, end).Code)
	}
	l.restore()
	ch := eventuallyOpen(t, p.URL)
	require.NoError(t, ch.Confirm(false))
	again := consume(t, p.URL, images, 0)
	publishKeys(t, ch, images, keys("key", 40))
	waitBodies(t, keys("key", 40), again)
}

// TestBrokerClosesConnection: what an operator says to a connection reaches the client.
func TestBrokerClosesConnection(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	p := e.proxy(nil)
	url, user := withUserOf(t, e, p.URL)
	conn := dial(t, url)
	end := conn.NotifyClose(make(chan *amqp.Error, 1))
	e.closeConnectionsOf(user)
	err := closed(t, end)
	require.Equal(t, amqp.ConnectionForced, err.Code)
	require.Contains(t, err.Reason, "time for tea")
}

// withUserOf makes a user of the test's own, with all rights in its vhost.
func withUserOf(t *testing.T, e *env, url string) (address, user string) {
	t.Helper()
	user = "closing-" + strings.Trim(e.vhost, "/")
	e.ctl("add_user", user, "secret")
	e.ctl("set_permissions", "-p", e.vhost, user, ".*", ".*", ".*")
	return withUser(t, url, user, "secret"), user
}

// TestClientVanishes: when a client's connection breaks, in the middle of a message too, the broker's side is closed,
// consumers leave the shards and unacknowledged messages come back.
func TestClientVanishes(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.proxy(map[string]int{images: 4})
	publisher := confirming(t, p.URL)
	declareSharded(t, publisher, images)
	publishKeys(t, publisher, images, keys("key", 40))
	shards := e.probe(images, 4)
	r := rawOpen(t, p.URL)
	r.write(method(1, &frames.BasicConsume{Queue: images}))
	r.expect(1, &frames.BasicConsumeOk{})
	shards.waitMessages(0)
	shards.waitConsumers(1, 1, 1, 1)
	r.write(method(1, &frames.BasicPublish{Exchange: images, RoutingKey: "half"}), headerFrame(1, 1000, 0, nil), bodyFrame(1, "half"))
	require.NoError(t, r.conn.(*net.TCPConn).SetLinger(0))
	require.NoError(t, r.conn.Close())
	shards.waitConsumers(0, 0, 0, 0)
	shards.waitMessages(40)
}
