package amqpopen

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/certs/certtest"
	"github.com/shardmq/shardmq/frames"
)

// broker answers each frame of a client with the next of those given, and then ends the connection, unless that is all there is to say.
func broker(t *testing.T, socket net.Conn, answers ...frames.Method) {
	var serving sync.WaitGroup
	serving.Go(func() {
		defer socket.Close()
		r := bufio.NewReader(socket)
		if _, err := io.ReadFull(r, make([]byte, 8)); err != nil {
			return
		}
		for _, m := range answers {
			if _, err := socket.Write(method(m)); err != nil {
				return
			}
			if m == openOK {
				_, _ = io.Copy(io.Discard, r)
			} else if _, err := r.ReadByte(); err != nil {
				return
			} else {
				_, _ = r.Discard(r.Buffered())
			}
		}
	})
	t.Cleanup(func() { _ = socket.Close(); serving.Wait() })
}

// pair is a connection over loopback.
func pair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	near, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	far, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = near.Close(); _ = far.Close() })
	return near, far
}

// TestBrokersRefusal: what the broker itself has said comes as it was.
func TestBrokersRefusal(t *testing.T) {
	const text = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN."
	near, far := pair(t)
	broker(t, far, start, &frames.ConnectionClose{ReplyCode: 403, ReplyText: text})
	_, err := Open(near, config)
	said, ok := err.(*amqp.Error) //nolint:errorlint // it is not wrapped
	require.True(t, ok, "%#v", err)
	require.Equal(t, &amqp.Error{Code: 403, Reason: text, Server: true, Recover: true}, said)
	_, err = near.Write([]byte{0})
	require.ErrorIs(t, err, net.ErrClosed)
}

// TestHungUp: a broker that says nothing is told from one that refuses a login so.
func TestHungUp(t *testing.T) {
	near, far := pair(t)
	broker(t, far)
	_, err := Open(near, config)
	require.ErrorIs(t, err, io.EOF)
	require.ErrorAs(t, err, new(*SocketError))

	near, far = pair(t)
	broker(t, far, start)
	_, err = Open(near, config)
	require.Equal(t, amqp.ErrCredentials, err)
}

// TestNoBroker: who answers in another protocol is known by the first octet, whatever amqp091-go makes of it.
func TestNoBroker(t *testing.T) {
	for answer, want := range map[string]error{"\x15\x03\x03\x00\x02\x02\x0a": ErrSpeaksTLS, "\x15": ErrSpeaksTLS, "HTTP/1.1 400 Bad Request\r\n": ErrNotAMQP, "\x00": ErrNotAMQP} {
		near, far := pair(t) // which stays open
		_, err := far.Write([]byte(answer))
		require.NoError(t, err)
		_, err = Open(near, config)
		require.ErrorIs(t, err, want)
		require.EqualError(t, err, want.Error())
		require.ErrorAs(t, err, new(*SocketError))
	}
}

// TestSilence: a deadline of the socket that passes is no refusal of a password.
func TestSilence(t *testing.T) {
	near, far := pair(t)
	var serving sync.WaitGroup
	serving.Go(func() {
		_, _ = far.Write(method(start))
		r := bufio.NewReader(far)
		_, _ = io.ReadFull(r, make([]byte, 9)) // the protocol header, and start-ok has begun
		_ = near.SetReadDeadline(time.Unix(1, 0))
		_, _ = io.Copy(io.Discard, r)
	})
	defer serving.Wait()
	_, err := Open(near, config)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// TestOpens: the connection is as amqp091-go makes it.
func TestOpens(t *testing.T) {
	ca := certtest.NewCA(t, "CA")
	listening := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{ca.Issue(t, certtest.Asked{Name: "node", Hosts: []string{"127.0.0.1"}}).TLS(t)}}
	for name, secure := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			near, far := pair(t)
			address := near.LocalAddr()
			if secure {
				near, far = tls.Client(near, &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: ca.Pool(), ServerName: "127.0.0.1"}), tls.Server(far, listening)
			}
			broker(t, far, start, tune, openOK)
			conn, err := Open(near, config)
			require.NoError(t, err)
			require.Equal(t, 8192, conn.Config.FrameSize)
			require.Equal(t, address, conn.LocalAddr())
			require.Equal(t, secure, conn.ConnectionState().HandshakeComplete)
			lost := conn.NotifyClose(make(chan *amqp.Error, 1))
			_ = far.Close()
			require.Equal(t, amqp.FrameError, (<-lost).Code)
		})
	}
}

// deadlines counts what heartbeats need.
type deadlines struct {
	net.Conn
	set chan time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	select {
	case d.set <- at:
	default:
	}
	return d.Conn.SetReadDeadline(at)
}

// TestHeartbeats: amqp091-go finds the method it needs to notice that the broker is silent.
func TestHeartbeats(t *testing.T) {
	near, far := pair(t)
	d := &deadlines{Conn: near, set: make(chan time.Time, 1)}
	broker(t, far, start, tune, openOK)
	conn, err := Open(d, config)
	require.NoError(t, err)
	require.True(t, (<-d.set).After(time.Now()), "which is set once a frame has come")
	_ = conn.CloseDeadline(time.Now())
}

// TestCertificateRefused: in TLS 1.3 the client's handshake is over before the server refuses it.
func TestCertificateRefused(t *testing.T) {
	ca := certtest.NewCA(t, "CA")
	asking := &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert,
		Certificates: []tls.Certificate{ca.Issue(t, certtest.Asked{Name: "node", Hosts: []string{"127.0.0.1"}}).TLS(t)}}
	for name, meanwhile := range map[string]func(alerted <-chan struct{}){
		"at once":         func(<-chan struct{}) {},
		"behind an alert": func(alerted <-chan struct{}) { <-alerted },
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				near, far := pair(t)
				alerted := make(chan struct{})
				var serving sync.WaitGroup
				serving.Go(func() {
					server := tls.Server(far, asking)
					_ = server.Handshake()
					close(alerted)
					_, _ = io.Copy(io.Discard, far) // so that nothing is lost for a reset
				})
				client := tls.Client(near, &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: ca.Pool(), ServerName: "127.0.0.1"})
				require.NoError(t, client.Handshake())
				meanwhile(alerted)
				_, err := Open(client, config)
				require.EqualError(t, err, "remote error: tls: certificate required")
				alert, ok := errors.AsType[*net.OpError](err)
				require.True(t, ok)
				require.Equal(t, "remote error", alert.Op)
				_ = near.Close()
				serving.Wait()
			}
		})
	}
}
