package integration

import (
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/certs/certtest"
	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/integration/rig"
)

// identified is a test's broker that lets users in by the common name of their certificates, and the certificates of everybody. One CA signs what
// broker and proxy show each other, among them the identities, another one what the proxy's listener and clients do: so what a client has of
// its own is worth nothing at the broker.
type identified struct {
	*env
	dir         string
	back, front *certtest.CA
	own         *certtest.Pair // the proxy's
}

// The broker's users, by certificate alone. "proxy" is the proxy itself, and must be nobody's.
var byCertificate = []string{"app1", "app2", "proxy"}

func newIdentified(t *testing.T, version string) *identified {
	t.Helper()
	dir := t.TempDir()
	e := &identified{dir: dir, back: certtest.NewCA(t, "back CA"), front: certtest.NewCA(t, "front CA")}
	certtest.WriteFile(t, dir, "front-ca.pem", e.front.PEM)
	ca := certtest.WriteFile(t, dir, "back-ca.pem", e.back.PEM)
	cert, key := e.back.Issue(t, certtest.Asked{Name: "broker", Hosts: []string{"127.0.0.1"}}).Write(t, dir, "broker")
	e.front.Issue(t, certtest.Asked{Name: "listener", Hosts: []string{"127.0.0.1"}}).Write(t, dir, "listener")
	for _, user := range byCertificate {
		e.own = e.back.Issue(t, certtest.Asked{Name: user}) // the last one is the proxy's
		e.own.Write(t, dir, user)
	}
	e.env = newNodeEnv(t, rig.NodeOptions{Version: version, Plugins: []string{"rabbitmq_auth_mechanism_ssl"},
		TLS: &rig.NodeTLS{CA: ca, Cert: cert, Key: key, ClientCerts: true},
		Config: "ssl_cert_login_from = common_name\nauth_mechanisms.1 = PLAIN\nauth_mechanisms.2 = AMQPLAIN\nauth_mechanisms.3 = EXTERNAL\n" +
			"auth_mechanisms.4 = RABBIT-CR-DEMO\n"})
	e.addUsers("nobody-knows", byCertificate...)
	return e
}

func (e *identified) file(name string) string { return filepath.Join(e.dir, name) }

// The listeners of identified.through, in their order.
const (
	mutual  = iota // mutual TLS, where a certificate may be left out
	sidecar        // plain, with identity app1
	plain          // plain
)

// through starts a proxy that has a certificate of its own, and identities for app1, by the common name of a client's certificate, and app2, by
// its subject.
func (e *identified) through(node string) *rig.Proxy {
	e.t.Helper()
	identity := func(name, whose string) string {
		return fmt.Sprintf("      - {name: %s, %s, cert: %q, key: %q}\n", name, whose, e.file(name+".pem"), e.file(name+".key"))
	}
	return e.start(rig.ProxyOptions{Listeners: 3, Config: fmt.Sprintf(`listeners:
  - address: "127.0.0.1:0"
    tls: {cert: %q, key: %q, client-ca: %q, client-auth: optional}
  - {address: "127.0.0.1:0", identity: app1}
  - address: "127.0.0.1:0"
upstream:
  nodes: [{address: %q}]
  tls:
    ca: %q
    cert: %q
    key: %q
    identities:
%s`, e.file("listener.pem"), e.file("listener.key"), e.file("front-ca.pem"), node, e.file("back-ca.pem"), e.file("proxy.pem"), e.file("proxy.key"),
		identity("app1", "common-name: app1")+identity("app2", `subject: "CN=app2"`))})
}

// client is a certificate of a client's own; "" for none.
func (e *identified) client(name string) []tls.Certificate {
	if name == "" {
		return nil
	}
	return []tls.Certificate{e.front.Issue(e.t, certtest.Asked{Name: name}).TLS(e.t)}
}

// raw connects to one of the proxy's listeners, with the certificate of that name where TLS is spoken.
func (e *identified) raw(p *rig.Proxy, listener int, certificate string) *raw {
	e.t.Helper()
	var conn net.Conn
	var err error
	if listener == mutual {
		conn, err = tls.Dial("tcp", p.Addrs[listener], certified(e.front.PEM, e.client(certificate)...))
	} else {
		conn, err = net.Dial("tcp", p.Addrs[listener])
	}
	require.NoError(e.t, err)
	e.t.Cleanup(func() { _ = conn.Close() })
	return &raw{t: e.t, conn: conn}
}

// offered is what a listener offers a client.
func (r *raw) offered() []string {
	r.t.Helper()
	r.write(frames.ProtocolHeader[:])
	var start frames.ConnectionStart
	r.expect(0, &start)
	return strings.Fields(string(start.Mechanisms))
}

// loginBy is a start-ok with a mechanism; a client that announces authentication_failure_close wants to be told why it is refused.
func loginBy(mechanism, response string, announce bool) []byte {
	m := &frames.ConnectionStartOk{Mechanism: mechanism, Response: []byte(response), Locale: "en_US"}
	if announce {
		m.ClientProperties = frames.AppendTable(nil, "capabilities", frames.AppendBool(nil, "authentication_failure_close", true))
	}
	return method(0, m)
}
