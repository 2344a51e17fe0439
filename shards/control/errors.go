package control

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
)

// ErrClosed is returned by requests after Close.
var ErrClosed = errors.New("control connection closed by its owner")

// errLost marks a connection that ended under a request.
var errLost = errors.New("control connection lost")

// UnreachableError says that a node gave no answer: it cannot be dialled, the
// connection broke, or the deadline passed. It matches shards.ErrUnreachable,
// and its cause with errors.Is and errors.As.
type UnreachableError struct {
	Address string
	Op      string // what was tried; empty when connecting
	Err     error
}

// Error implements error.
func (e *UnreachableError) Error() string {
	if e.Op != "" {
		return fmt.Sprintf("%s: no answer from broker %s: %v", e.Op, e.Address, e.Err)
	}
	return fmt.Sprintf("broker %s unreachable: %v", e.Address, e.Err)
}

// Unwrap returns the class and the cause.
func (e *UnreachableError) Unwrap() []error { return []error{shards.ErrUnreachable, e.Err} }

func unreachable(address string, err error) error {
	return &UnreachableError{Address: address, Err: err}
}

// isRefused reports whether the broker itself said no.
func isRefused(err error) bool {
	_, refused := errors.AsType[*shards.BrokerError](err)
	return refused
}

func (c *Client) connectError(err error) error {
	return c.account().connectError(err, c.o.Address, c.nodeOrAddress())
}

// connectError translates a failed handshake. A close that amqp091-go made up
// (a lost socket reads as "bad credentials" there) is no refusal.
func (a account) connectError(err error, address, node string) error {
	if isRefused(err) || errors.Is(err, shards.ErrUnreachable) {
		return err
	}
	closed, ok := errors.AsType[*amqp.Error](err)
	if !ok || !closed.Server || codeOf(closed) == frames.ConnectionForced {
		return unreachable(address, fmt.Errorf("AMQP handshake: %w", Plain(err)))
	}
	refusal := &shards.BrokerError{
		Code: uint16(closed.Code), Text: closed.Reason, Connecting: true,
		Op: fmt.Sprintf("connect to vhost '%s' as '%s'", a.vhost, a.username), Node: node,
	}
	switch {
	case codeOf(closed) == frames.AccessRefused:
		refusal.Right = fmt.Sprintf("login of user '%s' (name or password is wrong)", a.username)
	case codeOf(closed) == frames.NotAllowed && strings.Contains(closed.Reason, "refused for user"):
		refusal.Right = fmt.Sprintf("any permission in vhost '%s'", a.vhost)
	}
	return refusal
}

// socketError is an error of a socket as amqp091-go passes it on.
type socketError struct{ wrapped *amqp.Error }

func (e *socketError) Error() string { return e.wrapped.Reason }
func (e *socketError) Unwrap() error { return e.wrapped }

// Plain is an error of amqp091-go, but says only why a socket has ended where that is all there is to it: amqp091-go makes a 501 of that, as if the
// broker had said so.
func Plain(err error) error {
	if e, ok := errors.AsType[*amqp.Error](err); ok && !e.Server && codeOf(e) == frames.FrameError {
		return &socketError{e}
	}
	return err
}

func codeOf(e *amqp.Error) frames.Code { return frames.Code(e.Code) }

// request is what an operation is called in errors, and the rights it needs.
type request struct {
	op     string
	rights func(kind, name string) string // the right RabbitMQ checks on that resource
}

// fail translates an error of a request. lost reports that the connection, not
// the request, is at fault, so that another one may succeed.
func (c *Client) fail(r request, err error) (translated error, lost bool) {
	closed, isClosed := errors.AsType[*amqp.Error](err)
	switch {
	case isRefused(err):
		return err, false
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &UnreachableError{Address: c.o.Address, Op: r.op, Err: err}, false
	case errors.Is(err, amqp.ErrChannelMax):
		return &UnreachableError{Address: c.o.Address, Op: r.op, Err: err}, false
	case isClosed && closed.Server && codeOf(closed) != frames.ConnectionForced:
		return c.refusal(r, closed), false
	}
	return &UnreachableError{Address: c.o.Address, Op: r.op, Err: err}, true
}

func (c *Client) refusal(r request, e *amqp.Error) *shards.BrokerError {
	refusal := &shards.BrokerError{Code: uint16(e.Code), Text: e.Reason, Op: r.op, Node: c.nodeOrAddress()}
	if codeOf(e) == frames.AccessRefused {
		refusal.Right = missingRight(r, e.Reason)
	}
	return refusal
}

// refusedText matches RabbitMQ's text for a missing permission; from 4.0 on it
// names the permission, before that one has to know the operation.
var refusedText = regexp.MustCompile(`(?:(configure|write|read) )?access to (\w+) '(.*)' in vhost '.*' refused for user`)

// missingRight returns the permission to grant, e.g. "configure on queue 'q'".
func missingRight(r request, text string) string {
	m := refusedText.FindStringSubmatch(text)
	if m == nil {
		return "" // refused for another reason: a reserved name, an exclusive consumer
	}
	right := m[1]
	if right == "" && r.rights != nil {
		right = r.rights(m[2], m[3])
	}
	if right == "" {
		return ""
	}
	return fmt.Sprintf("%s on %s '%s'", right, m[2], m[3])
}

// nodeOrAddress names the node in errors.
func (c *Client) nodeOrAddress() string {
	if name := c.Node(); name != "" {
		return name
	}
	return c.o.Address
}
