package integration

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

// TestChallenge: a mechanism of several steps passes, and what it ends with.
func TestChallenge(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		e := newIdentified(t, version)
		p := e.through("amqp://" + e.broker.Addr)
		for at, url := range map[string]string{"broker": e.broker.URL, "proxy": "amqp://" + p.Addrs[plain]} {
			for answer, user := range map[string]bool{"My password is guest": true, "My password is wrong": false} {
				r := rawTCP(t, url)
				require.Contains(t, r.offered(), "RABBIT-CR-DEMO", at)
				r.write(loginBy("RABBIT-CR-DEMO", "guest", true))
				var secure frames.ConnectionSecure
				r.expect(0, &secure)
				require.Equal(t, "Please tell me your password", string(secure.Challenge), at)
				r.write(method(0, &frames.ConnectionSecureOk{Response: []byte(answer)}))
				if user {
					r.expect(0, &frames.ConnectionTune{})
					continue
				}
				var closed frames.ConnectionClose
				r.expect(0, &closed)
				require.Equal(t, "ACCESS_REFUSED - Login was refused using authentication mechanism RABBIT-CR-DEMO. For details see the broker logfile.",
					closed.ReplyText, at)
			}
		}
	})
}

// TestMechanismsOfClients: libraries log in by each mechanism they have.
func TestMechanismsOfClients(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.proxy(nil)
	for _, mechanism := range []amqp.Authentication{&amqp.PlainAuth{Username: "guest", Password: "guest"}, &amqp.AMQPlainAuth{Username: "guest", Password: "guest"}} {
		conn, err := amqp.DialConfig(p.URL, amqp.Config{SASL: []amqp.Authentication{mechanism}})
		require.NoError(t, err, mechanism.Mechanism())
		require.NoError(t, conn.Close())
		_, err = amqp.DialConfig(withUser(t, p.URL, "guest", "wrong"), amqp.Config{})
		require.ErrorContains(t, err, "403")
	}
}
