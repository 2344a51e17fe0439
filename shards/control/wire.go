package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
	"github.com/shardmq/shardmq/shards/coordination"
)

// writeTimeout bounds one write to a socket: a peer that reads nothing for so
// long is as good as gone.
const writeTimeout = 10 * time.Second

// errSlow: the broker has not answered in time.
var errSlow = fmt.Errorf("no answer from the broker within %s", requestTimeout)

// wire is one AMQP connection of a Transport.
type wire struct {
	conn   *amqp.Connection
	socket net.Conn
	node   NodeAddress
	lost   chan *amqp.Error // closed by amqp091-go when the connection ends

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup // requests, also those whose caller has given up
}

// spawn runs fn in a goroutine that close waits for.
func (w *wire) spawn(fn func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.running.Go(fn)
	return true
}

// dutiful is a socket whose writes end: amqp091-go writes with locks held that it
// needs to notice the connection's end.
type dutiful struct{ net.Conn }

// Write implements net.Conn.
func (d dutiful) Write(b []byte) (int, error) {
	if err := d.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return d.Conn.Write(b)
}

// dial opens a connection; name is what the broker's own tools show. Until ctx
// ends, or stop is called, the end of ctx ends the connection.
func (t *Transport) dial(ctx context.Context, node NodeAddress, name string) (w *wire, stop func() bool, err error) {
	socket, err := t.o.Dial(ctx, "tcp", node.Address)
	if err != nil {
		return nil, nil, unreachable(node.Address, err)
	}
	stop = context.AfterFunc(ctx, func() { _ = socket.Close() })
	conn, err := t.account.handshake(dutiful{socket}, name, 2000)
	if err != nil {
		stop()
		if cause := context.Cause(ctx); cause != nil {
			return nil, nil, unreachable(node.Address, cause)
		}
		return nil, nil, t.account.connectError(err, node.Address, label(node))
	}
	return &wire{conn: conn, socket: socket, node: node, lost: conn.NotifyClose(make(chan *amqp.Error, 1))}, stop, nil
}

// label names a node in errors and logs.
func label(n NodeAddress) string {
	if n.Name != "" {
		return n.Name
	}
	return n.Address
}

// close ends the connection, politely if the broker is quick to answer, and waits
// for what uses it.
func (w *wire) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	cut := time.AfterFunc(closeTimeout, func() { _ = w.socket.Close() })
	_ = w.conn.CloseDeadline(time.Now().Add(closeTimeout))
	cut.Stop()
	_ = w.socket.Close()
	w.running.Wait()
}

// ask runs fn, and gives up waiting for it when ctx ends or the broker has not
// answered in time. What fn then returns late, with or without an error, is given
// to undo.
func ask[T any](ctx context.Context, w *wire, fn func() (T, error), undo func(T)) (T, error) {
	var zero T
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errSlow)
	defer cancel()
	done := make(chan outcome[T])
	if !w.spawn(func() {
		v, err := fn()
		select {
		case done <- outcome[T]{v, err}:
		case <-ctx.Done():
			undo(v)
		}
	}) {
		return zero, errLost
	}
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		return zero, context.Cause(ctx)
	}
}

// desk is a channel for one request at a time. A refusal closes it, and one that
// was not answered leaves it to its fate; the next request opens another.
type desk struct {
	w  *wire
	ch *amqp.Channel
}

// at runs fn on the desk's channel.
func at[T any](ctx context.Context, d *desk, fn func(*amqp.Channel) (T, error)) (T, error) {
	type answer struct {
		value T
		ch    *amqp.Channel
	}
	ch := d.ch
	d.ch = nil
	a, err := ask(ctx, d.w, func() (a answer, err error) {
		if ch == nil || ch.IsClosed() {
			if ch, err = d.w.conn.Channel(); err != nil {
				return a, err
			}
		}
		a.ch = ch
		a.value, err = fn(ch)
		return a, err
	}, func(a answer) { closeChannel(a.ch) })
	d.ch = a.ch
	return a.value, err
}

// closeChannel closes a channel that may be nil or closed.
func closeChannel(ch *amqp.Channel) {
	if ch != nil {
		_ = ch.Close()
	}
}

// refusal returns the broker's refusal of an operation, or err itself if it is
// none. It matches coordination.ErrNoRights if a right is missing.
func refusal(op string, w *wire, err error) error {
	closed, ok := errors.AsType[*amqp.Error](err)
	if !ok || !closed.Server || codeOf(closed) == frames.ConnectionForced {
		return fmt.Errorf("%s: %w", op, unreachable(w.node.Address, err))
	}
	refused := &shards.BrokerError{Code: uint16(closed.Code), Text: closed.Reason, Op: op, Node: label(w.node)}
	if codeOf(closed) == frames.AccessRefused && refusedText.MatchString(closed.Reason) {
		return &noRightsError{refused}
	}
	return refused
}

// isCode reports whether err is the broker's refusal with that code.
func isCode(err error, code frames.Code) bool {
	closed, ok := errors.AsType[*amqp.Error](err)
	return ok && closed.Server && codeOf(closed) == code
}

// noRightsError is a refusal for lack of rights.
type noRightsError struct{ refused *shards.BrokerError }

// Error implements error.
func (e *noRightsError) Error() string { return e.refused.Error() }

// Unwrap returns the class and the refusal.
func (e *noRightsError) Unwrap() []error { return []error{coordination.ErrNoRights, e.refused} }
