package dispatch

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/config/amqpopen"
	"github.com/shardmq/shardmq/config/certs"
)

// serverRemedies is what to do in the section of a job's server, which has a url and a ca.
var serverRemedies = &certs.Remedies{
	CA:          "name the CA's file in the server's ca",
	Name:        "give in the url the host name that is in it",
	Required:    ", and job servers are shown none: let it do without (ssl_options.fail_if_no_peer_cert = false)",
	MayRequire:  "which job servers are not shown: ssl_options.fail_if_no_peer_cert = false",
	Version:     "have it speak TLS 1.2 or 1.3",
	UnknownName: "give in the url the host name it goes by",
}

const hungUp = "it hung up without a word: see whether this is its port for AMQP and what its log says"

// connectError is why a server could not be connected to, worded for who has to mend it.
type connectError struct {
	text string
	err  error
}

func (e *connectError) Error() string { return e.text }
func (e *connectError) Unwrap() error { return e.err }

// connectFault words what has gone wrong. It has nothing in it that differs from one try to the next, as the port of this
// side: each text is logged once.
func connectFault(err error, uri amqp.URI) error {
	cause := err
	if socket, ok := errors.AsType[*amqpopen.SocketError](err); ok {
		cause = socket.Err // what else it matches is a guess of the library's
	}
	if secure := serverRemedies.Fault(cause); errors.As(secure, new(*certs.Fault)) {
		return &connectError{secure.Error(), err}
	}
	text := whatToDo(cause, uri)
	for {
		op, ok := cause.(*net.OpError) //nolint:errorlint // what is around it stays
		if !ok || op.Addr == nil {
			break
		}
		cause = op.Err
	}
	lookup, isLookup := cause.(*net.DNSError) //nolint:errorlint // as above
	switch {
	case text == "":
		return &connectError{cause.Error(), err}
	case text == hungUp, isLookup && !lookup.IsNotFound: // by an end or a reset, as it happens; a lookup's may have a port of this side in it
		return &connectError{text, err}
	}
	return &connectError{fmt.Sprintf("%s (%v)", text, cause), err}
}

// whatToDo is what is wrong and what helps; "" where that is not known.
func whatToDo(err error, uri amqp.URI) string {
	said, isAMQP := errors.AsType[*amqp.Error](err)
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, amqpopen.ErrSpeaksTLS):
		return "it speaks TLS on this port: begin the url with amqps://"
	case errors.Is(err, amqpopen.ErrNotAMQP):
		return "it does not speak AMQP on this port: give the broker's port for AMQP, usually 5672"
	case isAMQP && said.Code == amqp.AccessRefused:
		text := fmt.Sprintf("it refuses the login of user %q: correct username and password, or those in the url", uri.Username)
		if uri.Username == "guest" {
			text += "; guest may only connect from the broker's own machine"
		}
		return text
	case isAMQP && said.Code == amqp.NotAllowed, errors.Is(err, amqp.ErrVhost):
		return fmt.Sprintf("it lets user %q not into vhost %q: create the vhost, or give the user rights there, or correct the end of the url", uri.Username, uri.Vhost)
	case errors.As(err, new(*net.DNSError)):
		return "its host name is not known: correct the url, or see to the name server"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: start the broker, or correct host and port of the url"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no way to it: correct the host of the url, or see to the network"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return hungUp
	case isNet && timeout.Timeout():
		return "it does not answer: see whether the broker is well, and whether a firewall is between"
	}
	return ""
}
