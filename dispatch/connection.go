package dispatch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/shardmq/shardmq/config/amqpopen"
)

const (
	// heartbeat is that of the dispatcher's connections.
	heartbeat = 10 * time.Second
	// connectTimeout bounds connecting and logging in.
	connectTimeout = 10 * time.Second
	// closeTimeout bounds the farewell.
	closeTimeout = 5 * time.Second
	// frameMax is what is proposed to brokers that have no limit, in octets: RabbitMQ's default.
	frameMax = 131072
)

// connection is one to a server. Safe for concurrent use.
type connection struct {
	*amqp.Connection
	socket net.Conn
}

// dialServer connects to a job's server, which shows the connection by the given name. It gives up when ctx ends; from
// then on the connection does not depend on it. tlsConfig, nil for whom the system trusts, is left as it is.
func dialServer(ctx context.Context, job *Job, tlsConfig *tls.Config, name string) (*connection, error) {
	uri, err := amqp.ParseURI(string(job.Server.URL))
	if err != nil { // which may have a password in it
		return nil, fmt.Errorf("connect to server %q: its url cannot be read", job.Server.Name)
	}
	address := net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port))
	conn, err := dialURI(ctx, address, uri, tlsConfig, name)
	if err != nil {
		return nil, fmt.Errorf("connect to server %q (%s): %w", job.Server.Name, address, connectFault(err, uri))
	}
	return conn, nil
}

func dialURI(ctx context.Context, address string, uri amqp.URI, tlsConfig *tls.Config, name string) (*connection, error) {
	dialer := net.Dialer{Timeout: connectTimeout}
	socket, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	hangUp := context.AfterFunc(ctx, func() { _ = socket.Close() })
	conn, err := login(socket, uri, tlsConfig, name)
	switch cut := !hangUp(); {
	case cut && err == nil:
		return nil, errors.Join(context.Cause(ctx), conn.Close())
	case cut:
		return nil, context.Cause(ctx) // why the socket is closed
	case err != nil:
		return nil, err
	}
	return &connection{Connection: conn, socket: socket}, nil
}

// login speaks TLS, if the URL says so, and AMQP, and closes the socket if that fails.
func login(socket net.Conn, uri amqp.URI, tlsConfig *tls.Config, name string) (*amqp.Connection, error) {
	err := socket.SetDeadline(time.Now().Add(connectTimeout)) // which amqp takes back
	if err == nil && uri.Scheme == "amqps" {
		secure := tls.Client(socket, serverTLS(tlsConfig, uri.Host))
		socket, err = secure, secure.Handshake()
	}
	if err != nil {
		_ = socket.Close()
		return nil, err
	}
	props := amqp.NewConnectionProperties()
	props.SetClientConnectionName(name)
	return amqpopen.Open(socket, amqp.Config{SASL: []amqp.Authentication{uri.PlainAuth()}, Vhost: uri.Vhost,
		Heartbeat: heartbeat, FrameSize: frameMax, Properties: props, Locale: "en_US"})
}

// serverTLS is a configuration that names the server.
func serverTLS(c *tls.Config, host string) *tls.Config {
	if c == nil {
		c = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if c.ServerName == "" {
		c = c.Clone()
		c.ServerName = host
	}
	return c
}

// close ends the connection, whether or not the broker answers.
func (c *connection) close() { _ = c.CloseDeadline(time.Now().Add(closeTimeout)) }

// hangUp ends the connection at once.
func (c *connection) hangUp() { _ = c.socket.Close() }
