package dispatch

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/config/amqpopen"
	"github.com/shardmq/shardmq/config/certs/certtest"
	"github.com/shardmq/shardmq/frames"
)

// refusesLogin is a broker that answers start-ok with a method, or by hanging up.
func refusesLogin(answer frames.Method) func(net.Conn) {
	return func(conn net.Conn) {
		r := bufio.NewReader(conn)
		_, _ = io.ReadFull(r, make([]byte, 8))
		_, _ = conn.Write(frames.AppendMethod(nil, 0, &frames.ConnectionStart{VersionMinor: 9, Mechanisms: []byte("PLAIN"), Locales: []byte("en_US")}))
		_, _ = r.ReadByte()
		_, _ = r.Discard(r.Buffered())
		if answer != nil {
			_, _ = conn.Write(frames.AppendMethod(nil, 0, answer))
			_, _ = io.Copy(io.Discard, r)
		}
	}
}

// TestDialServerSaysWhatToDo: what is wrong, where, and what to do; nothing that differs from try to try, for it is logged once.
func TestDialServerSaysWhatToDo(t *testing.T) {
	ca, other := certtest.NewCA(t, "CA"), certtest.NewCA(t, "other")
	node := func(host string) *tls.Config {
		return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{ca.Issue(t, certtest.Asked{Name: "node", Hosts: []string{host}}).TLS(t)}}
	}
	trust := func(ca *certtest.CA) *tls.Config {
		return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca.Pool()}
	}
	handshake := func(c net.Conn) { _ = c.(*tls.Conn).Handshake() }
	says := func(text string) func(net.Conn) {
		return func(c net.Conn) {
			_, _ = io.ReadFull(c, make([]byte, 8))
			_, _ = c.Write([]byte(text))
			_, _ = io.Copy(io.Discard, c)
		}
	}
	closed := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		return l.Addr().String()
	}
	for name, c := range map[string]struct {
		scheme, address string
		trusting        *tls.Config
		want            string
	}{
		"TLS port": {"amqp", serving(t, nil, says("\x15\x03\x03\x00\x02\x02\x0a")), nil,
			"it speaks TLS on this port: begin the url with amqps://"},
		"plain port": {"amqps", serving(t, nil, says("AMQP\x00\x00\x09\x01")), nil,
			"it does not speak TLS on this port: give its port for TLS, usually 5671, or amqp:// to go without (tls: first record does not look like a TLS handshake)"},
		"another protocol": {"amqp", serving(t, nil, says("HTTP/1.1 400 Bad Request\r\n\r\n")), nil,
			"it does not speak AMQP on this port: give the broker's port for AMQP, usually 5672"},
		"wrong CA": {"amqps", serving(t, node("127.0.0.1"), handshake), trust(other),
			"its certificate is signed by nobody that is trusted: name the CA's file in the server's ca ("},
		"wrong name": {"amqps", serving(t, node("mq.example.test"), handshake), trust(ca),
			"its certificate is for another name: give in the url the host name that is in it ("},
		"refused": {"amqp", closed(), nil,
			"nothing listens there: start the broker, or correct host and port of the url (connect: connection refused)"},
		"unknown host": {"amqp", "mq.invalid:5672", nil, "its host name is not known: correct the url, or see to the name server ("},
		"hangs up": {"amqp", serving(t, nil, func(c net.Conn) { _, _ = io.ReadFull(c, make([]byte, 8)) }), nil,
			"it hung up without a word: see whether this is its port for AMQP and what its log says"},
		"wrong password": {"amqp", serving(t, nil, refusesLogin(&frames.ConnectionClose{ReplyCode: 403, ReplyText: "ACCESS_REFUSED - Login was refused"})), nil,
			`it refuses the login of user "guest": correct username and password, or those in the url; guest may only connect from the broker's own machine (`},
		"wrong password, without a word": {"amqp", serving(t, nil, refusesLogin(nil)), nil, `it refuses the login of user "guest": `},
		"no vhost": {"amqp", serving(t, nil, refusesLogin(&frames.ConnectionClose{ReplyCode: 530, ReplyText: "NOT_ALLOWED - vhost v not found"})), nil,
			`it lets user "guest" not into vhost "v": create the vhost, or give the user rights there, or correct the end of the url (Exception (530) Reason: "NOT_ALLOWED - vhost v not found")`},
	} {
		t.Run(name, func(t *testing.T) {
			u := url.URL{Scheme: c.scheme, User: url.UserPassword("guest", "hunter2"), Host: c.address, Path: "/v"}
			_, err := dialServer(t.Context(), jobAt(u.String()), c.trusting, "x")
			require.ErrorContains(t, err, `connect to server "mail" (`+c.address+"): "+c.want)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
}

// TestConnectFault: what is not easily brought about, without the ports of our side and with the cause to be found.
func TestConnectFault(t *testing.T) {
	near, far := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 40001}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5672}
	from := func(op string, err error) error {
		return &net.OpError{Op: op, Net: "tcp", Source: near, Addr: far, Err: err}
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"no answer":              {from("dial", os.ErrDeadlineExceeded), "it does not answer: see whether the broker is well, and whether a firewall is between (i/o timeout)"},
		"no answer to the login": {&amqpopen.SocketError{Err: from("read", os.ErrDeadlineExceeded), Under: amqp.ErrCredentials}, "it does not answer: see whether"},
		"a reset": {&amqpopen.SocketError{Err: from("read", os.NewSyscallError("read", syscall.ECONNRESET)), Under: amqp.ErrClosed},
			"it hung up without a word: see whether this is its port for AMQP and what its log says"},
		"no route": {from("dial", os.NewSyscallError("connect", syscall.EHOSTUNREACH)), "there is no way to it: correct the host of the url, or see to the network (connect: no route to host)"},
		"a name server that is down": {from("dial", &net.DNSError{Err: "read udp 127.0.0.1:40001->127.0.0.1:53: read: connection refused", Name: "mq"}),
			"its host name is not known: correct the url, or see to the name server"},
		"anything else": {errors.New("else"), "else"},
	} {
		t.Run(name, func(t *testing.T) {
			got := connectFault(c.err, amqp.URI{Username: "me", Vhost: "/"})
			require.ErrorIs(t, got, c.err)
			require.ErrorContains(t, got, c.want)
			require.NotContains(t, got.Error(), "40001")
			require.NotContains(t, got.Error(), "reset")
		})
	}
}
