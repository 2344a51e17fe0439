package control

import (
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/config/amqpopen"
)

// account is where, and as whom, a connection logs in.
type account struct{ vhost, username, password string }

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

// handshake opens an AMQP connection over a socket, which is closed if it
// fails. name is what the broker's own tools show.
//
// A broker that is heard no more is noticed by its silence. amqp091-go waits for
// one and a half heartbeat intervals after any frame, while RabbitMQ sends one at
// least every half interval; but it forgets to wait after the handshake, until
// the next frame has come.
func (a account) handshake(socket net.Conn, name string, channels int) (*amqp.Connection, error) {
	properties := amqp.Table{
		"product":         "shardmq",
		"connection_name": name,
	}
	conn, err := amqpopen.Open(socket, amqp.Config{
		SASL: []amqp.Authentication{&login{
			PlainAuth:  amqp.PlainAuth{Username: a.username, Password: a.password},
			properties: properties,
		}},
		Vhost:      a.vhost,
		ChannelMax: uint16(min(channels, 2000)),
		Heartbeat:  heartbeat,
		Properties: properties,
		Locale:     "en_US",
	})
	if err != nil {
		return nil, err
	}
	if err := socket.SetReadDeadline(time.Now().Add(2 * heartbeat)); err != nil {
		_ = conn.CloseDeadline(time.Now().Add(closeTimeout))
		return nil, err
	}
	return conn, nil
}
