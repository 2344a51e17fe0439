package integration

import (
	"fmt"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/certs/certtest"
	"github.com/shardmq/shardmq/integration/rig"
)

// secured is a test's broker with a listener that asks for certificates, and the certificates of everybody, each in a file of dir.
//
// Two CAs know nothing of each other: one signs what the broker and the proxy as its client show each other, one what the
// proxy's listener and clients do.
type secured struct {
	*env
	dir          string
	back, front  *certtest.CA
	policies     string
	clientsTrust string // file: the CA of the proxy's listener
}

func newSecured(t *testing.T, version string) *secured {
	t.Helper()
	dir := t.TempDir()
	s := &secured{dir: dir, back: certtest.NewCA(t, "back CA"), front: certtest.NewCA(t, "front CA"), policies: "  []\n"}
	s.clientsTrust = certtest.WriteFile(t, dir, "front-ca.pem", s.front.PEM)
	ca := certtest.WriteFile(t, dir, "back-ca.pem", s.back.PEM)
	cert, key := s.back.Issue(t, certtest.Asked{Name: "broker", Hosts: []string{"127.0.0.1", "broker.test"}}).Write(t, dir, "broker")
	s.back.Issue(t, certtest.Asked{Name: "proxy"}).Write(t, dir, "proxy")
	s.front.Issue(t, certtest.Asked{Name: "listener", Hosts: []string{"127.0.0.1"}}).Write(t, dir, "listener")
	s.front.Issue(t, certtest.Asked{Name: "client"}).Write(t, dir, "client")
	s.env = newNodeEnv(t, rig.NodeOptions{Version: version, TLS: &rig.NodeTLS{CA: ca, Cert: cert, Key: key, ClientCerts: true}})
	return s
}

func (s *secured) file(name string) string { return filepath.Join(s.dir, name) }

// config is for a proxy with a TLS listener that wants certificates, a plain one, and the broker over TLS; tls replaces how that is spoken.
func (s *secured) config(tls string) string {
	if tls == "" {
		tls = fmt.Sprintf("{ca: %q, cert: %q, key: %q}", s.file("back-ca.pem"), s.file("proxy.pem"), s.file("proxy.key"))
	}
	return fmt.Sprintf(`listeners:
  - address: "127.0.0.1:0"
    tls: {cert: %q, key: %q, client-ca: %q}
  - address: "127.0.0.1:0"
upstream:
  nodes:
    - {address: "amqps://%s"}
  dial-timeout: 5s
  tls: %s
policies:
%s`, s.file("listener.pem"), s.file("listener.key"), s.clientsTrust, s.broker.TLSAddr, tls, s.policies)
}

// through starts a proxy.
func (s *secured) through(config string) *rig.Proxy {
	s.t.Helper()
	return s.start(rig.ProxyOptions{Config: config, Listeners: 2})
}

// overTLS is the URL of the proxy's first listener for amqp091-go, with the certificate of that name, "" for none.
func (s *secured) overTLS(p *rig.Proxy, cert string) string {
	q := url.Values{"cacertfile": {s.clientsTrust}}
	if cert != "" {
		q.Set("certfile", s.file(cert+".pem"))
		q.Set("keyfile", s.file(cert+".key"))
	}
	return "amqps://guest:guest@" + p.Addrs[0] + "/%2F?" + q.Encode()
}

// pikaOverTLS is the same for pika.
func (s *secured) pikaOverTLS(p *rig.Proxy) string {
	options := fmt.Sprintf("{'cafile': %q, 'certfile': %q, 'keyfile': %q, 'cert_reqs': 2}", s.clientsTrust, s.file("client.pem"), s.file("client.key"))
	return "amqps://guest:guest@" + p.Addrs[0] + "/%2F?ssl_options=" + url.QueryEscape(options)
}

func (s *secured) plain(p *rig.Proxy) string { return "amqp://guest:guest@" + p.Addrs[1] + "/%2F" }

// works sends a message through a connection of its own and gets it back.
func works(t *testing.T, url string) {
	t.Helper()
	ch := confirming(t, url)
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	require.NoError(t, err)
	publish(t, ch, "", q.Name, text("there and back"))
	d, ok, err := ch.Get(q.Name, true)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "there and back", string(d.Body))
}
