package amqpopen

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/shardmq/shardmq/frames"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	start  = &frames.ConnectionStart{VersionMinor: 9, Mechanisms: []byte("PLAIN"), Locales: []byte("en_US")}
	tune   = &frames.ConnectionTune{ChannelMax: 7, FrameMax: 8192, Heartbeat: 60}
	openOK = &frames.ConnectionOpenOk{}
	config = amqp.Config{SASL: []amqp.Authentication{&amqp.PlainAuth{Username: "u", Password: "p"}}, Vhost: "v", Heartbeat: time.Minute, Locale: "en_US"}
)

// refusal is what a socket may end with.
type refusal struct{ text string }

func (e *refusal) Error() string { return e.text }

// scripted is a socket whose reads give what they are told, and then fail. A write waits until the connection has been shut down, if it is the one that is named:
// amqp091-go shuts it down after a failed read, and closes the socket as it does.
type scripted struct {
	net.Conn // of no use

	reads   [][]byte
	err     error
	waiting int // the number of the write that waits; 0: none does

	mu     sync.Mutex
	writes int
	once   sync.Once
	closed chan struct{}
}

func (s *scripted) Read(b []byte) (int, error) {
	if len(s.reads) > 0 {
		n := copy(b, s.reads[0])
		s.reads = s.reads[1:]
		return n, nil
	}
	return 0, s.err
}

func (s *scripted) Write(b []byte) (int, error) {
	s.mu.Lock()
	s.writes++
	waits := s.writes == s.waiting
	s.mu.Unlock()
	if waits {
		<-s.closed
		return 0, &net.OpError{Op: "write", Err: net.ErrClosed}
	}
	return len(b), nil
}

func (s *scripted) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func (s *scripted) SetDeadline(time.Time) error     { return nil }
func (s *scripted) SetReadDeadline(time.Time) error { return nil }

// isClosed reports whether the socket has been closed.
func (s *scripted) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// method is a frame.
func method(m frames.Method) []byte { return frames.AppendMethod(nil, 0, m) }

// TestReadFailsBeforeTheWrite: whichever write it is that finds the connection shut down, the error is that of the read before it.
func TestReadFailsBeforeTheWrite(t *testing.T) {
	for name, err := range map[string]error{"an end": io.EOF, "a reset": &net.OpError{Op: "read", Err: syscall.ECONNRESET}, "an alert": &refusal{"certificate required"}} {
		for waiting, reads := range [][][]byte{nil, {}, {method(start)}, {method(start), method(tune)}} {
			t.Run(fmt.Sprintf("%s, write %d", name, waiting), func(t *testing.T) {
				s := &scripted{reads: reads, err: err, waiting: waiting, closed: make(chan struct{})}
				conn, got := Open(s, config)
				require.Nil(t, conn)
				require.True(t, s.isClosed())
				if waiting == 2 && hungUp(err) { // RabbitMQ may refuse a login so
					require.Equal(t, amqp.ErrCredentials, got)
					return
				}
				socket, ok := errors.AsType[*SocketError](got)
				require.True(t, ok, "%#v", got)
				require.Equal(t, err, socket.Err)
				require.EqualError(t, got, err.Error())
				require.ErrorIs(t, got, err)
			})
		}
	}
}

// TestAlways: nothing is held up here, so that the reader and what writes meet as they like.
func TestAlways(t *testing.T) {
	for range 500 {
		s := &scripted{err: &refusal{"certificate required"}, closed: make(chan struct{})}
		_, err := Open(s, config)
		require.EqualError(t, err, "certificate required")
		require.ErrorAs(t, err, new(*refusal))
		require.True(t, s.isClosed())
	}
}

// TestExplain: what amqp091-go may say, and what reading may have met by then.
func TestExplain(t *testing.T) {
	refused := &amqp.Error{Code: amqp.AccessRefused, Reason: "ACCESS_REFUSED", Server: true}
	alert, timeout := error(&refusal{"alert"}), fmt.Errorf("read: %w", os.ErrDeadlineExceeded)
	reset := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	for name, c := range map[string]struct {
		said, read error
		socket     bool
	}{
		"closed":                       {amqp.ErrClosed, alert, true},
		"closed, an end":               {amqp.ErrClosed, io.EOF, true},
		"closed by something else":     {amqp.ErrClosed, nil, false},
		"the text of the read":         {&amqp.Error{Code: amqp.FrameError, Reason: "alert"}, alert, true},
		"within a frame":               {&amqp.Error{Code: amqp.FrameError, Reason: "unexpected EOF"}, io.EOF, true},
		"a frame that cannot be read":  {amqp.ErrSyntax, io.EOF, false},
		"another 501":                  {&amqp.Error{Code: amqp.FrameError, Reason: "frame too large"}, io.EOF, false},
		"a write":                      {net.ErrClosed, alert, true},
		"a write alone":                {syscall.EPIPE, nil, false},
		"the broker's own":             {refused, io.EOF, false},
		"the broker's own, and more":   {refused, alert, false},
		"no mechanism":                 {amqp.ErrSASL, io.EOF, false},
		"a password, by an end":        {amqp.ErrCredentials, io.EOF, false},
		"a password, by a reset":       {amqp.ErrCredentials, reset, false},
		"a password, but it timed out": {amqp.ErrCredentials, timeout, true},
		"a vhost, by an end":           {amqp.ErrVhost, io.EOF, false},
		"a vhost, but there is more":   {amqp.ErrVhost, alert, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := explain(c.said, c.read)
			require.ErrorIs(t, got, c.said)
			if !c.socket {
				require.Equal(t, c.said, got)
				return
			}
			require.ErrorIs(t, got, c.read)
			require.EqualError(t, got, c.read.Error())
		})
	}
}
