package dispatch

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/certs/certtest"
	"github.com/shardmq/shardmq/config/secret"
	"github.com/shardmq/shardmq/frames"
)

// serving has a server at a loopback address do as serve says with each connection.
func serving(t *testing.T, config *tls.Config, serve func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address = l.Addr().String()
	if config != nil {
		l = tls.NewListener(l, config)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { defer conn.Close(); serve(conn) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); running.Wait() })
	return address
}

// shakesHands is a broker that lets everybody in, and tells what it was asked for.
func shakesHands(asked chan<- []byte) func(net.Conn) {
	return func(conn net.Conn) {
		r := bufio.NewReader(conn)
		read := func(n int) []byte {
			b := make([]byte, n)
			_, _ = io.ReadFull(r, b)
			return b
		}
		frame := func() []byte { // its payload
			head := read(7)
			size := int(head[3])<<24 | int(head[4])<<16 | int(head[5])<<8 | int(head[6])
			return read(size + 1)[:size]
		}
		var said []byte
		read(8)
		for _, m := range []frames.Method{
			&frames.ConnectionStart{VersionMinor: 9, Mechanisms: []byte("PLAIN"), Locales: []byte("en_US")},
			&frames.ConnectionTune{},
			nil, // tune-ok asks for nothing
			&frames.ConnectionOpenOk{},
		} {
			if m != nil {
				_, _ = conn.Write(frames.AppendMethod(nil, 0, m))
			}
			if m == nil || m.ID() != frames.ConnectionOpenOkID {
				said = append(said, frame()...)
			}
		}
		asked <- said
		frame() // close
		_, _ = conn.Write(frames.AppendMethod(nil, 0, &frames.ConnectionCloseOk{}))
		_, _ = io.Copy(io.Discard, r)
	}
}

func jobAt(url string) *Job {
	return &Job{Name: "mail", Server: Server{Name: "mail", URL: secret.String(url)}}
}

// TestDialServer: everything comes from the URL, and the configuration of TLS is left as it is.
func TestDialServer(t *testing.T) {
	ca := certtest.NewCA(t, "CA")
	node := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{ca.Issue(t, certtest.Asked{Name: "node", Hosts: []string{"127.0.0.1"}}).TLS(t)}}
	trusting := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca.Pool()}
	for scheme, config := range map[string]*tls.Config{"amqp": nil, "amqps": node} {
		t.Run(scheme, func(t *testing.T) {
			asked := make(chan []byte, 1)
			conn, err := dialServer(t.Context(), jobAt(scheme+"://me:p%2Fw@"+serving(t, config, shakesHands(asked))+"/v%2Fw"), trusting, "dispatch: mail")
			require.NoError(t, err)
			said := string(<-asked)
			for _, part := range []string{"\x00me\x00p/w", "\x0fconnection_nameS\x00\x00\x00\x0edispatch: mail", "\x03v/w", "en_US"} {
				require.Contains(t, said, part)
			}
			require.Equal(t, 131072, conn.Config.FrameSize, "of a broker without a limit")
			require.Equal(t, heartbeat, conn.Config.Heartbeat)
			require.Equal(t, config != nil, conn.ConnectionState().HandshakeComplete)
			require.Empty(t, trusting.ServerName)
			conn.close()
		})
	}
}

// TestServerRefusesCertificate: in TLS 1.3 the refusal comes behind the handshake, while the dispatcher begins to speak AMQP.
func TestServerRefusesCertificate(t *testing.T) {
	ca := certtest.NewCA(t, "CA")
	node := &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert,
		Certificates: []tls.Certificate{ca.Issue(t, certtest.Asked{Name: "node", Hosts: []string{"127.0.0.1"}}).TLS(t)}}
	job := jobAt("amqps://me:pw@" + serving(t, node, func(c net.Conn) {
		secure := c.(*tls.Conn)
		_ = secure.Handshake()
		_, _ = io.Copy(io.Discard, secure.NetConn()) // so that no reset overtakes the alert
	}))
	for range 50 {
		_, err := dialServer(t.Context(), job, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca.Pool()}, "x")
		require.ErrorContains(t, err, "it asks for a certificate, and job servers are shown none: let it do without (ssl_options.fail_if_no_peer_cert = false) (remote error: tls: certificate required)")
	}
	_, err := dialServer(t.Context(), job, nil, "x")
	require.ErrorContains(t, err, "unknown authority")
}

// TestDialServerGivesUp: when ctx ends, for the reason that it gives.
func TestDialServerGivesUp(t *testing.T) {
	why := errors.New("the job has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	job := jobAt("amqp://me:pw@" + serving(t, nil, func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 8))
		cancel(why) // instead of an answer
		_, _ = io.Copy(io.Discard, c)
	}))
	_, err := dialServer(ctx, job, nil, "x")
	require.ErrorIs(t, err, why)

	_, err = dialServer(t.Context(), jobAt("amqp://me:hunter2 @h"), nil, "x")
	require.EqualError(t, err, `connect to server "mail": its url cannot be read`)
}
