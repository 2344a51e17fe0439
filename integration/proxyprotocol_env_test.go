package integration

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/integration/rig"
)

const believedHeader = "PROXY TCP4 192.0.2.7 192.0.2.8 1234 5672\r\n"

// proxied is a test's broker that insists on PROXY protocol headers, reached through proxies that send them.
type proxied struct {
	*env
	user string // with all rights, from anywhere: RabbitMQ 4.3 keeps guest to clients on localhost
}

func newProxied(t *testing.T, o rig.NodeOptions) *proxied {
	t.Helper()
	o.ProxyProtocol = true
	e := &proxied{env: newNodeEnv(t, o), user: "somebody"}
	e.addUsers("secret", e.user)
	return e
}

// addUsers adds users with all rights in the test's vhost, by one run of rabbitmqctl.
func (e *env) addUsers(password string, users ...string) {
	e.t.Helper()
	e.ctl("eval", fmt.Sprintf(`[begin ok = rabbit_auth_backend_internal:add_user(U, <<%q>>, <<"rig">>),
		ok = rabbit_auth_backend_internal:set_permissions(U, <<%q>>, <<".*">>, <<".*">>, <<".*">>, <<"rig">>) end || U <- [<<%s>>]].`,
		password, e.vhost, `"`+strings.Join(users, `">>, <<"`)+`"`))
}

// through starts a proxy that believes everybody and sends that version to the broker. Its listeners: one that may be
// sent a header, and those of more (YAML).
func (e *proxied) through(version, address, upstream, more string) *rig.Proxy {
	e.t.Helper()
	return e.start(rig.ProxyOptions{Listeners: 1 + strings.Count(more, "address:"), Config: fmt.Sprintf(`listeners:
  - address: "127.0.0.1:0"
    proxy-protocol: {trusted: [127.0.0.0/8], required: false}
%supstream:
  nodes: [{address: %q}]
  proxy-protocol: %s
%spolicies:
%sadmin: {address: "127.0.0.1:0"}
`, more, address, version, upstream, e.policy("images", 2, ""))})
}

// url is where a proxy's listener is reached by the user.
func (e *proxied) at(address string) string {
	return "amqp://" + e.user + ":secret@" + address + "/%2F"
}

// behind connects with a header in front of everything.
func behind(t *testing.T, header, url string, c amqp.Config) *amqp.Connection {
	t.Helper()
	c.Dial = func(network, address string) (net.Conn, error) {
		conn, err := net.Dial(network, address)
		if err == nil {
			_, err = conn.Write([]byte(header))
		}
		return conn, err
	}
	conn, err := amqp.DialConfig(url, c)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// shows waits until the broker shows a connection with these fields (those of rabbitmqctl list_connections).
func (e *env) shows(fields []string, want ...string) {
	e.t.Helper()
	eventually(e.t, fmt.Sprintf("a connection with %q", want), func() string {
		out, err := e.broker.Ctl(e.t.Context(), append([]string{"list_connections", "--no-table-headers"}, fields...)...)
		if err != nil {
			return err.Error()
		}
		for line := range strings.Lines(out) {
			if slices.Equal(strings.Split(strings.TrimRight(line, "\n"), "\t"), want) {
				return ""
			}
		}
		return out
	})
}

// certified is a TLS configuration that trusts a CA, with a certificate if there is one.
func certified(ca []byte, certs ...tls.Certificate) *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &tls.Config{RootCAs: pool, Certificates: certs, MinVersion: tls.VersionTLS12}
}
