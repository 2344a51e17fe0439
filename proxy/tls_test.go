package proxy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/certs"
	"github.com/shardmq/shardmq/config/certs/certtest"
	"github.com/shardmq/shardmq/frames"
)

// serverTLS is a TLS configuration for the host 127.0.0.1, whose certificate ca signs.
func serverTLS(t testing.TB, ca *certtest.CA, more func(*certs.ServerOptions)) *certs.Live {
	t.Helper()
	o := certs.ServerOptions{}
	o.Cert, o.Key = ca.Issue(t, certtest.Asked{Name: "server", Hosts: []string{"127.0.0.1"}}).Write(t, t.TempDir(), "server")
	if more != nil {
		more(&o)
	}
	l, found := certs.LoadServer(o)
	require.Empty(t, found)
	return certs.NewLive(l)
}

// trusting is a TLS configuration that trusts ca.
func trusting(t testing.TB, ca *certtest.CA, more func(*certs.ClientOptions)) *certs.Live {
	t.Helper()
	o := certs.ClientOptions{CA: certtest.WriteFile(t, t.TempDir(), "ca.pem", ca.PEM)}
	if more != nil {
		more(&o)
	}
	l, found := certs.LoadClient(o)
	require.False(t, found.Fatal(), "%v", found)
	return certs.NewLive(l)
}

// startSecureRig is startRig with TLS on both sides.
func startSecureRig(t *testing.T, change func(*Options)) *rig {
	t.Helper()
	front, back := certtest.NewCA(t, "front"), certtest.NewCA(t, "back")
	r := startRig(t, func(o *Options) {
		o.Listeners[0].TLS = serverTLS(t, front, nil)
		o.Nodes[0].TLS, o.UpstreamTLS = true, trusting(t, back, nil)
		if change != nil {
			change(o)
		}
	})
	r.broker.secure = serverTLS(t, back, nil).Server()
	r.secure = trusting(t, front, nil).Client("127.0.0.1")
	return r
}

func TestBackPressureOverTLS(t *testing.T) {
	t.Run("slow reader", func(t *testing.T) { slowReader(t, startSecureRig(t, nil)) })
	t.Run("slow broker", func(t *testing.T) { slowBroker(t, startSecureRig(t, nil)) })
	t.Run("writing without reading", func(t *testing.T) { writingWithoutReading(t, startSecureRig(t, nil)) })
}

// A message passes whole, however the records are cut up by the network.
func TestRecordsInPieces(t *testing.T) {
	r := startSecureRig(t, nil)
	r.wrap = func(c net.Conn) net.Conn { return &octets{c} }
	client, broker := r.openChannel(0)
	message := publish(1, "x", pattern(3000))
	client.write(message)
	require.Equal(t, message, broker.read(len(message)))
	roundTrip(client, broker)
}

// octets is a connection that sends each octet by itself.
type octets struct{ net.Conn }

func (c *octets) Write(b []byte) (int, error) {
	for i := range b {
		if _, err := c.Conn.Write(b[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}

// The end of a connection is told in TLS as well: nobody else can have cut it.
func TestCloseNotify(t *testing.T) {
	for name, end := range map[string]func(r *rig, client, broker *peer){
		"broker has closed": func(_ *rig, client, broker *peer) {
			client.send(0, &frames.ConnectionClose{ReplyCode: 200})
			expect(broker, &frames.ConnectionClose{})
			broker.send(0, &frames.ConnectionCloseOk{})
			require.NoError(broker.t, broker.Close())
			expect(client, &frames.ConnectionCloseOk{})
		},
		"cut": func(r *rig, _, _ *peer) {
			s := r.session()
			require.Eventually(r.t, func() bool { // else the write that still runs is what is cut
				s.mu.Lock()
				defer s.mu.Unlock()
				return !s.down.busy
			}, time.Minute, time.Millisecond)
			s.cut(errDrained)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := startSecureRig(t, nil)
			r.secure.MaxVersion = tls.VersionTLS12 // there an alert is seen to be one
			var seen *recorder
			r.wrap = func(c net.Conn) net.Conn { seen = &recorder{Conn: c}; return seen }
			client, broker := r.openChannel(0)
			end(r, client, broker)
			client.eof()
			require.EqualValues(t, tlsAlertRecord, seen.last(), "close_notify")
		})
	}
}

// recorder keeps what is read.
type recorder struct {
	net.Conn
	read bytes.Buffer
}

func (c *recorder) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read.Write(b[:n])
	return n, err
}

// last is the type of the last record.
func (c *recorder) last() (kind byte) {
	for b := c.read.Bytes(); len(b) >= 5; b = b[5+int(b[3])<<8+int(b[4]):] {
		kind = b[0]
	}
	return kind
}

// A client that half-closes has everything it has sent delivered.
func TestHalfCloseOverTLS(t *testing.T) {
	r := startSecureRig(t, nil)
	client, broker := r.openChannel(0)
	message := publish(1, "x", pattern(100_000))
	client.write(message)
	client.closeWrite()
	require.Equal(t, message, broker.read(len(message)))
	broker.eof()
	require.NoError(t, broker.Close())
	require.Contains(t, r.cause(), "EOF")
}

// Connections to a port with TLS that never speak it: probes are not logged, everything else is, and says what it is.
func TestPlainToTLS(t *testing.T) {
	r := startSecureRig(t, nil)
	require.NoError(t, dialPeer(t, r.addr).Close())
	require.NoError(t, r.handshaken().Close(), "nothing but the handshake")
	for _, c := range []struct{ said, want string }{
		{"AMQP\x00\x00\x09\x01", "no TLS: the connection begins with \"AMQP\\x00\" (plain AMQP on a TLS listener)"},
		{"GET / HTTP/1.1\r\n\r\n", "no TLS: the connection begins with \"GET /\" (HTTP)"},
		{"PROXY TCP4 127.0.0.1 127.0.0.1 1 1\r\n", "no TLS: the connection begins with \"PROXY\""},
	} {
		p := dialPeer(t, r.addr)
		p.write([]byte(c.said))
		_, err := io.ReadAll(p.Conn)
		if err != nil {
			require.ErrorContains(t, err, "reset")
		}
		require.Eventually(t, func() bool {
			for _, e := range r.logs.FilterMessage("connection ended").All() {
				if text, _ := e.ContextMap()["error"].(string); len(text) >= len(c.want) && text[:len(c.want)] == c.want {
					return true
				}
			}
			return false
		}, time.Minute, time.Millisecond, c.want)
	}
	r.ended(3)
}

// handshaken is a client that has spoken TLS and nothing else.
func (r *rig) handshaken() *peer {
	r.t.Helper()
	p := r.dial()
	require.NoError(r.t, p.Conn.(*tls.Conn).Handshake())
	return p
}

// A client that stalls in the handshake is cut in time, and keeps nobody out meanwhile.
func TestStalledTLSHandshake(t *testing.T) {
	r := startSecureRig(t, func(o *Options) { o.HandshakeTimeout = 500 * time.Millisecond })
	stalled := dialPeer(t, r.addr)
	stalled.write([]byte{0x16, 3, 1})
	require.NoError(t, r.handshaken().Close(), "another one gets through")
	_, err := stalled.Conn.Read(make([]byte, 1))
	require.Error(t, err)
	require.Equal(t, "TLS: "+errHandshake.Error(), r.cause())
}

// What a node's certificate, or the proxy's, may be wrong with.
func TestDialOverTLS(t *testing.T) {
	ca, other := certtest.NewCA(t, "CA"), certtest.NewCA(t, "other")
	caFile := certtest.WriteFile(t, t.TempDir(), "ca.pem", ca.PEM)
	asking := func(o *certs.ServerOptions) { o.ClientCA = caFile }
	usual := serverTLS(t, ca, nil).Server()
	expired := &tls.Config{MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12, // and of an old version
		Certificates: []tls.Certificate{ca.Issue(t, certtest.Asked{Name: "old", Hosts: []string{"127.0.0.1"}, Expired: true}).TLS(t)}}
	shows := func(by *certtest.CA) func(*certs.ClientOptions) {
		return func(o *certs.ClientOptions) {
			o.Cert, o.Key = by.Issue(t, certtest.Asked{Name: "proxy"}).Write(t, t.TempDir(), "proxy")
		}
	}
	stale := func(o *certs.ClientOptions) {
		o.Cert, o.Key = ca.Issue(t, certtest.Asked{Name: "proxy", Expired: true}).Write(t, t.TempDir(), "proxy")
	}
	silent := answering(t, "")
	silent.TLS = true
	hung := newServer(Options{Nodes: []Node{silent}, DialTimeout: 50 * time.Millisecond})
	_, _, err := hung.dial(t.Context(), upstreamAs{})
	require.ErrorContains(t, err, "no answer to the TLS handshake: context deadline exceeded")
	for name, c := range map[string]struct {
		node *tls.Config // nil: plain AMQP
		us   *certs.Live // nil: plain AMQP
		want string      // "": reached
	}{
		"good":               {serverTLS(t, ca, asking).Server(), trusting(t, ca, shows(ca)), ""},
		"CA":                 {usual, trusting(t, other, nil), "its certificate is signed by nobody that is trusted: name the CA's file in upstream.tls.ca"},
		"name":               {usual, trusting(t, ca, func(o *certs.ClientOptions) { o.ServerName = "a.test" }), "its certificate is for another name: set upstream.tls.server-name"},
		"expired":            {expired, trusting(t, ca, nil), "its certificate has expired or is not valid yet"},
		"no certificate":     {serverTLS(t, ca, asking).Server(), trusting(t, ca, nil), "it asks for a certificate: set upstream.tls.cert and upstream.tls.key"},
		"bad certificate":    {serverTLS(t, ca, asking).Server(), trusting(t, ca, shows(other)), "it trusts other CAs than that of the proxy's certificate: see upstream.tls.cert"},
		"expired itself":     {serverTLS(t, ca, asking).Server(), trusting(t, ca, stale), "it refuses the proxy's certificate: see upstream.tls.cert"},
		"version":            {expired, trusting(t, ca, func(o *certs.ClientOptions) { o.MinVersion = tls.VersionTLS13 }), "it does not speak this version of TLS"},
		"not TLS":            {nil, trusting(t, ca, nil), "it does not speak TLS on this port: give its port for TLS"},
		"TLS where plain is": {usual, nil, "it speaks TLS on this port: give amqps://"},
	} {
		t.Run(name, func(t *testing.T) {
			n := answering(t, "AMQP\x00\x00\x09\x01")
			switch {
			case c.us == nil:
				n = answering(t, "\x15\x03\x01\x00\x02\x02\x46") // as RabbitMQ does
			case c.node != nil:
				n = answeringTLS(t, c.node)
			}
			n.TLS = c.us != nil
			s := newServer(Options{Nodes: []Node{n}, UpstreamTLS: c.us})
			if c.want == "" {
				reached(t, s)
				return
			}
			_, _, err := s.dial(t.Context(), upstreamAs{})
			require.ErrorContains(t, err, c.want)
			var none *dialError
			require.True(t, errors.As(err, &none))
		})
	}
}

// answeringTLS is a node that says x over TLS, or an alert.
func answeringTLS(t *testing.T, config *tls.Config) Node {
	t.Helper()
	b := listenBroker(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn := <-b.conns
		c := tls.Server(conn, config)
		if c.Handshake() == nil {
			_, _ = c.Write([]byte("x"))
		}
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	}()
	t.Cleanup(func() { <-done })
	return Node{Address: b.addr()}
}
