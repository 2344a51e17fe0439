package control

import (
	"context"
	"fmt"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// link is one established AMQP connection and its idle channels.
type link struct {
	conn    *amqp.Connection
	socket  net.Conn
	lost    chan *amqp.Error // closed by amqp091-go when the connection ends
	idle    chan *amqp.Channel
	slots   chan struct{} // one token per channel in use
	name    string
	hash    uint32 // of the node's real name, or unknownHash
	version string
}

// clusterName is the name the broker gives its cluster.
func (l *link) clusterName() string {
	name, _ := l.conn.Properties["cluster_name"].(string)
	return name
}

// connect dials, shakes hands and learns what must be known of the node.
func (c *Client) connect(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.ConnectTimeout)
	defer cancel()
	l, stop, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	l.name, l.hash = c.Node(), unknownHash
	if l.name == "" {
		l.name, l.hash, err = c.learnName(ctx, l.clusterName())
	}
	if err == nil && ctx.Err() == nil {
		return l, nil
	}
	l.close()
	return nil, c.whyNot(ctx, err)
}

// open dials and shakes hands. Until stop is called the end of ctx ends the
// connection: amqp091-go has no contexts, a closed socket is what ends its calls.
func (c *Client) open(ctx context.Context) (l *link, stop func() bool, err error) {
	socket, err := c.o.Dial(ctx, "tcp", c.o.Address)
	if err != nil {
		return nil, nil, unreachable(c.o.Address, err)
	}
	stop = context.AfterFunc(ctx, func() { _ = socket.Close() })
	l, err = c.handshake(socket)
	if err == nil {
		return l, stop, nil
	}
	stop()
	return nil, nil, c.whyNot(ctx, err)
}

// whyNot is the error of a failed attempt to connect.
func (c *Client) whyNot(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return unreachable(c.o.Address, cause)
	}
	return c.connectError(err)
}

func (c *Client) handshake(socket net.Conn) (*link, error) {
	conn, err := c.account().handshake(socket, "shardmq control", c.o.Channels)
	if err != nil {
		return nil, err
	}
	l := &link{
		conn: conn, socket: socket,
		lost:  conn.NotifyClose(make(chan *amqp.Error, 1)),
		idle:  make(chan *amqp.Channel, c.o.Channels),
		slots: make(chan struct{}, c.o.Channels),
	}
	l.version, _ = conn.Properties["version"].(string)
	return l, nil
}

func (c *Client) account() account {
	return account{vhost: c.o.Vhost, username: c.o.Username, password: c.o.Password}
}

// close ends the connection, politely if the broker is quick to answer.
func (l *link) close() {
	_ = l.conn.CloseDeadline(time.Now().Add(closeTimeout))
	_ = l.socket.Close()
}

// channel returns an idle channel or opens one. The caller holds a slot.
func (l *link) channel() (*amqp.Channel, error) {
	for {
		select {
		case ch := <-l.idle:
			if !ch.IsClosed() {
				return ch, nil
			}
		default:
			ch, err := l.conn.Channel()
			if err != nil {
				return nil, fmt.Errorf("open a channel: %w", err)
			}
			return ch, nil
		}
	}
}

// release gives a channel back, unless an error closed it.
func (l *link) release(ch *amqp.Channel) {
	if ch != nil && !ch.IsClosed() {
		l.idle <- ch
	}
}
