package integration

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/certs/certtest"
	"github.com/shardmq/shardmq/frames"
)

// externally logs in by certificate.
var externally = []amqp.Authentication{&amqp.ExternalAuth{}}

// loggedIn logs in by certificate, under a name that the broker shows, and waits until it shows that the user is the right one.
func (e *identified) loggedIn(url, name string, config amqp.Config, want string) {
	e.t.Helper()
	config.SASL, config.Properties = externally, amqp.Table{"connection_name": name}
	conn, err := amqp.DialConfig(url, config)
	require.NoError(e.t, err)
	eventually(e.t, name+" as "+want, func() string {
		out, err := e.broker.Ctl(e.t.Context(), "list_connections", "user", "auth_mechanism", "client_properties")
		if err != nil {
			return err.Error()
		}
		if regexp.MustCompile(fmt.Sprintf(`(?m)^%s\tEXTERNAL\t.*"connection_name","%s"`, want, name)).MatchString(out) {
			return ""
		}
		return out
	})
	require.NoError(e.t, conn.Close())
}

// authenticated reports whether the broker's log tells of a user's login.
func (e *identified) authenticated(user string) bool {
	return strings.Contains(e.broker.LogTail(100_000), "ser '"+user+"' authenticated")
}

// awaitLogin waits until the broker's log, which lags behind a little, has got that far.
func (e *identified) awaitLogin(user string) {
	e.t.Helper()
	eventually(e.t, user+"'s login in the broker's log", func() string {
		if e.authenticated(user) {
			return ""
		}
		return "it is not there"
	})
}

// TestExternal: a client whose certificate names an identity logs in as that, and so does everybody on a listener that has one.
func TestExternal(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		e := newIdentified(t, version)
		p := e.through("amqps://" + e.broker.TLSAddr)
		overTLS := "amqps://" + p.Addrs[mutual] + "/"
		for _, user := range []string{"app1", "app2"} {
			require.Contains(t, e.raw(p, mutual, user).offered(), "EXTERNAL")
			e.loggedIn(overTLS, "TLS as "+user, amqp.Config{TLSClientConfig: certified(e.front.PEM, e.client(user)...)}, user)
		}
		require.Contains(t, e.raw(p, sidecar, "").offered(), "EXTERNAL")
		e.loggedIn("amqp://"+p.Addrs[sidecar]+"/", "sidecar", amqp.Config{}, "app1")
		require.Equal(t, "app1\n", python(t, "external.py", "amqp://"+p.Addrs[sidecar]+"/%2F"))
		dial(t, "amqp://guest:guest@"+p.Addrs[sidecar]+"/") // a password does as well

		e.back.Issue(t, certtest.Asked{Name: "app2"}).Write(t, e.dir, "app1")
		logged(t, p, "certificate of identity replaced", `"identity":"app1"`, `"certificate":"app2"`)
		e.loggedIn("amqp://"+p.Addrs[sidecar]+"/", "replaced", amqp.Config{}, "app2")
	})
}

// TestExternalIsNotForEverybody: where the proxy has nothing of the client's to show, EXTERNAL is not offered, and a client that asks for it
// all the same does not become the proxy.
func TestExternalIsNotForEverybody(t *testing.T) {
	onVersions(t, func(t *testing.T, version string) {
		e := newIdentified(t, version)
		p := e.through("amqps://" + e.broker.TLSAddr)
		for name, tc := range map[string]struct {
			listener    int
			certificate string
		}{"no certificate": {mutual, ""}, "somebody else": {mutual, "app3"}, "the proxy's name": {mutual, "proxy"}, "no TLS": {plain, ""}} {
			offered := e.raw(p, tc.listener, tc.certificate).offered()
			require.ElementsMatch(t, []string{"PLAIN", "AMQPLAIN", "RABBIT-CR-DEMO"}, offered, name)

			r := e.raw(p, tc.listener, tc.certificate)
			r.offered()
			r.write(loginBy("EXTERNAL", "", true))
			var closed frames.ConnectionClose
			r.expect(0, &closed)
			require.EqualValues(t, 403, closed.ReplyCode, name)
			require.Contains(t, closed.ReplyText, "ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL")
			r.write(loginBy("EXTERNAL", "", true), method(0, &frames.ConnectionCloseOk{}))
			_, err := r.next()
			require.ErrorIs(t, err, io.EOF)

			r = e.raw(p, tc.listener, tc.certificate) // all in one packet, and not wanting to be told
			r.write(frames.ProtocolHeader[:], loginBy("EXTERNAL", "", false), method(0, &frames.ConnectionTuneOk{ChannelMax: 1, FrameMax: 8192}),
				method(0, &frames.ConnectionOpen{VirtualHost: "/"}))
			f, err := r.next()
			if err == nil { // the broker's start had come already
				require.Equal(t, frames.ConnectionStartID, f.Method(), name)
				_, err = r.next()
			}
			require.ErrorIs(t, err, io.EOF, name)
		}
		logged(t, p, "shardmq has no certificate of this client's to show to the broker", "connection ended")
		dial(t, "amqp://guest:guest@"+p.Addrs[plain]+"/") // the others go on
		e.awaitLogin("guest")
		require.False(t, e.authenticated("proxy"))

		// It would have worked: the broker lets in who shows the proxy's certificate.
		conn, err := amqp.DialConfig("amqps://"+e.broker.TLSAddr+"/", amqp.Config{SASL: externally, TLSClientConfig: certified(e.back.PEM, e.own.TLS(t))})
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		e.awaitLogin("proxy")
	})
}

// TestExternalNeedsTLSToTheBroker: an identity that the broker cannot see is none, whatever the listener says.
func TestExternalNeedsTLSToTheBroker(t *testing.T) {
	t.Parallel()
	e := newIdentified(t, "")
	p := e.through("amqp://" + e.broker.Addr)
	for _, listener := range []int{mutual, sidecar, plain} {
		r := e.raw(p, listener, "app1")
		require.NotContains(t, r.offered(), "EXTERNAL")
		r.write(loginBy("EXTERNAL", "", true))
		_, err := r.next()
		require.ErrorIs(t, err, io.EOF, "as the broker does without a proxy")
	}
}
