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
	version string
}

// login is SASL PLAIN that also announces authentication_failure_close: without
// it RabbitMQ answers bad credentials with seconds of silence and a closed
// socket, which looks like a network fault. amqp091-go sets the capabilities
// itself, right before it asks for the response, so that is where to add one.
type login struct {
	amqp.PlainAuth
	properties amqp.Table
}

// Response implements amqp.Authentication.
func (l *login) Response() string {
	if capabilities, ok := l.properties["capabilities"].(amqp.Table); ok {
		capabilities["authentication_failure_close"] = true
	}
	return l.PlainAuth.Response()
}

// connect dials, shakes hands and learns what must be known of the node.
func (c *Client) connect(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.ConnectTimeout)
	defer cancel()
	socket, err := c.o.Dial(ctx, "tcp", c.o.Address)
	if err != nil {
		return nil, unreachable(c.o.Address, err)
	}
	// amqp091-go has no contexts: a closed socket is what ends its calls.
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() })
	defer stop()
	l, err := c.handshake(socket)
	if err == nil {
		l.name = c.o.Node
		if l.name == "" {
			l.name, err = c.learnName(ctx, l)
		}
		if err == nil && ctx.Err() == nil {
			return l, nil
		}
		l.close()
	}
	_ = socket.Close()
	if cause := context.Cause(ctx); cause != nil {
		return nil, unreachable(c.o.Address, cause)
	}
	return nil, c.connectError(err)
}

func (c *Client) handshake(socket net.Conn) (*link, error) {
	properties := amqp.Table{
		"product":         "shardmq",
		"connection_name": "shardmq control",
	}
	conn, err := amqp.Open(socket, amqp.Config{
		SASL: []amqp.Authentication{&login{
			PlainAuth:  amqp.PlainAuth{Username: c.o.Username, Password: c.o.Password},
			properties: properties,
		}},
		Vhost:      c.o.Vhost,
		ChannelMax: uint16(min(c.o.Channels+1, 2000)), // one more than requests: learnName's
		Heartbeat:  heartbeat,
		Properties: properties,
		Locale:     "en_US",
	})
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
