package integration

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

// user makes a broker user of the test's own, with these rights in its vhost, and returns the URL with it.
func (e *env) user(url, configure, write, read string) string {
	e.t.Helper()
	name := "user-of-" + e.vhost
	e.ctl("add_user", name, "secret")
	e.ctl("set_permissions", "-p", e.vhost, name, configure, write, read)
	return withUser(e.t, url, name, "secret")
}

// TestControlUserRights: where the proxy's own user may not set up a sharded exchange, the client's channel gets the
// broker's answer and the log says which right is missing. Everything else goes on.
func TestControlUserRights(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		configure, write, read string
		answer                 string   // in the client's text
		right                  []string // in the log
	}{
		"may configure no queue":    {"^images", ".*", ".*", "access to queue 'sharding: images", []string{"configure", "queue 'sharding: images"}},
		"may configure nothing":     {"^$", ".*", ".*", "access to queue 'sharding: images", []string{"configure", "queue 'sharding: images"}},
		"may write to no queue":     {".*", "^images", ".*", "access to queue 'sharding: images", []string{"write", "queue 'sharding: images"}},
		"may read from no exchange": {".*", ".*", "^sharding: ", "access to exchange 'images", []string{"read", "exchange 'images"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newCtlEnv(t)
			p := e.start(rig.ProxyOptions{
				Upstream: e.user(e.url, test.configure, test.write, test.read), Shards: map[string]int{"images": 4},
			})
			conn := dial(t, withUser(t, p.URL, "guest", "guest"))
			err := channel(t, conn).ExchangeDeclare("images", modulusHash, true, false, false, false, nil)
			var refused *amqp.Error
			require.ErrorAs(t, err, &refused)
			require.Equal(t, amqp.AccessRefused, refused.Code)
			require.Contains(t, refused.Reason, test.answer)
			logged(t, p, test.right...)
			require.NoError(t, declare(channel(t, conn), "mine", false, nil), "the connection goes on")
		})
	}
}

// TestControlCredentials: wrong credentials of the proxy's own end no client's connection.
func TestControlCredentials(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	images := e.name("images")
	p := e.start(rig.ProxyOptions{Upstream: withUser(t, e.url, "guest", "no-such-password"), Shards: map[string]int{images: 4}})
	conn := dial(t, withUser(t, p.URL, "guest", "guest"))
	err := channel(t, conn).ExchangeDeclare(images, modulusHash, true, false, false, false, nil)
	var refused *amqp.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, amqp.AccessRefused, refused.Code)
	require.Contains(t, refused.Reason, "ACCESS_REFUSED")
	logged(t, p, "login of user 'guest'", "ACCESS_REFUSED")
	require.NotContains(t, p.Logs(), "no-such-password", "passwords are not logged")
	require.NoError(t, declare(channel(t, conn), e.name("mine"), false, nil), "the connection goes on")
}

// TestClientRights: the client's own rights on the shards count, as with the plugin.
func TestClientRights(t *testing.T) {
	t.Parallel()
	e := newCtlEnv(t)
	p := e.proxy(map[string]int{"images": 4})
	publisher := confirming(t, p.URL)
	declareSharded(t, publisher, "images")
	publishKeys(t, publisher, "images", keys("key", 20))

	conn := dial(t, e.user(p.URL, "^$", "^images$", "^images$"))
	requireShardRefused := func(err error) {
		t.Helper()
		var refused *amqp.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, amqp.AccessRefused, refused.Code)
		require.Contains(t, refused.Reason, "access to queue 'sharding: images")
	}
	_, err := channel(t, conn).Consume("images", "", false, false, false, false, nil)
	requireShardRefused(err)
	_, _, err = channel(t, conn).Get("images", true)
	requireShardRefused(err)
	ch := channel(t, conn)
	require.NoError(t, ch.Confirm(false))
	publishKeys(t, ch, "images", keys("allowed", 20))
	require.Equal(t, 40, sum(e.probe("images", 4).load().messages))
	require.NoError(t, ch.ExchangeDeclarePassive("images", modulusHash, true, false, false, false, nil))

	e.ctl("set_permissions", "-p", e.vhost, "user-of-"+e.vhost, "^$", "^images$", "^(images|sharding: images - .*)$")
	c := consume(t, withUser(t, p.URL, "user-of-"+e.vhost, "secret"), "images", 0)
	waitBodies(t, append(keys("key", 20), keys("allowed", 20)...), c)
}
