// Package amqpopen opens connections of amqp091-go, and says why one could not be opened.
//
// amqp091-go reads in a goroutine of its own. When reading fails while the connection is being opened, as it does when a broker refuses a
// client's certificate behind the handshake of TLS 1.3, that goroutine shuts the connection down, and what is about to be written finds it
// closed: amqp.ErrClosed, or whatever a closed socket says, hides the reason. So the socket remembers it here.
//
// It uses amqp091-go and the standard library only: every layer that has such connections may use it.
package amqpopen

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Why what answers is no broker, or none that can be spoken to like this: the Err of a *SocketError.
var (
	ErrSpeaksTLS = errors.New("it speaks TLS on this port")
	ErrNotAMQP   = errors.New("it does not speak AMQP on this port")
)

// SocketError is why reading the socket has failed before the connection was open. It matches the cause, and what amqp091-go has made of it,
// with errors.Is and errors.As.
type SocketError struct {
	Err   error // of the socket, e.g. the alert of TLS
	Under error // as amqp091-go has put it, which is seldom of use
}

// Error implements error: it is the socket's.
func (e *SocketError) Error() string { return e.Err.Error() }

// Unwrap returns the cause and what has been made of it.
func (e *SocketError) Unwrap() []error { return []error{e.Err, e.Under} }

// Open opens an AMQP connection over a socket, which is the connection's from then on, and is closed if that fails. An error that is the
// broker's own is an *amqp.Error whose Server is set, the end of the socket a *SocketError. There is no timeout: a deadline of the socket, which
// amqp091-go takes back once the connection is open, or its Close, is what ends it early.
func Open(socket net.Conn, config amqp.Config) (*amqp.Connection, error) {
	w := &watched{Conn: socket}
	conn, err := amqp.Open(w, config)
	if err == nil {
		return conn, nil
	}
	err = explain(err, w.failure())
	_ = w.Close() // which ends amqp091-go's goroutines, too
	return nil, err
}

// explain is why a connection could not be opened: err is what amqp091-go says, failed what reading the socket has met, if anything.
func explain(err, failed error) error {
	if failed == nil {
		return err
	}
	said, isLibrary := errors.AsType[*amqp.Error](err)
	switch {
	case !isLibrary: // a write, to a socket that has been closed because of what was read
	case said.Server:
		return err
	case errors.Is(err, amqp.ErrClosed):
	case errors.Is(err, amqp.ErrCredentials), errors.Is(err, amqp.ErrVhost): // what amqp091-go takes any end for at these steps
		if hungUp(failed) {
			return err
		}
	case said.Code != amqp.FrameError || said.Reason != failed.Error() && said.Reason != io.ErrUnexpectedEOF.Error():
		return err // not of the socket
	}
	return &SocketError{Err: failed, Under: err}
}

// hungUp reports whether the peer has ended the connection without a word, as RabbitMQ does where it refuses a client that has not announced
// authentication_failure_close.
func hungUp(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) }

// watched is a socket that remembers why it could not be read. amqp091-go looks for methods beside those of net.Conn; all it looks for are here.
type watched struct {
	net.Conn

	mu     sync.Mutex
	begun  bool  // something has been read
	closed bool  // by this side: what is read from then on fails because of that
	err    error // the first
}

// Read implements net.Conn.
func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if n > 0 && !w.begun { // only amqp091-go's reader comes here
		w.begun = true
		if other := answered(b[0]); other != nil {
			n, err = 0, other
		}
	}
	if err != nil {
		w.mu.Lock()
		if w.err == nil && !w.closed {
			w.err = err
		}
		w.mu.Unlock()
	}
	return n, err
}

// answered is what is wrong with an answer that begins so; nil: nothing, or nothing that can be told from that.
func answered(first byte) error {
	switch first {
	case 1, 'A': // a method; the header of another version
		return nil
	case 0x15: // an alert, the answer of a TLS listener to plain AMQP
		return ErrSpeaksTLS
	}
	return ErrNotAMQP
}

// Close implements net.Conn.
func (w *watched) Close() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	return w.Conn.Close()
}

// ConnectionState is that of TLS, and the zero value without.
func (w *watched) ConnectionState() tls.ConnectionState {
	if secure, ok := w.Conn.(interface{ ConnectionState() tls.ConnectionState }); ok {
		return secure.ConnectionState()
	}
	return tls.ConnectionState{}
}

func (w *watched) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
