package dispatch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// heartbeat is that of the dispatcher's connections.
	heartbeat = 10 * time.Second
	// connectTimeout bounds connecting and logging in.
	connectTimeout = 10 * time.Second
	// closeTimeout bounds the farewell.
	closeTimeout = 5 * time.Second
)

// connection is one to a server. Safe for concurrent use.
type connection struct {
	*amqp.Connection
	socket net.Conn
}

// dialServer connects to a job's server, which shows the connection by the given name. It gives up when ctx ends; from
// then on the connection does not depend on it.
func dialServer(ctx context.Context, job *Job, tlsConfig *tls.Config, name string) (*connection, error) {
	c := &connection{}
	hangUp := func() bool { return true }
	dialer := net.Dialer{Timeout: connectTimeout}
	props := amqp.NewConnectionProperties()
	props.SetClientConnectionName(name)
	conn, err := amqp.DialConfig(string(job.Server.URL), amqp.Config{Heartbeat: heartbeat, TLSClientConfig: tlsConfig, Properties: props,
		Dial: func(network, address string) (net.Conn, error) {
			socket, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			c.socket = socket
			hangUp = context.AfterFunc(ctx, func() { _ = socket.Close() })
			return socket, socket.SetDeadline(time.Now().Add(connectTimeout)) // which amqp takes back
		}})
	if !hangUp() && err == nil {
		err = errors.Join(context.Cause(ctx), conn.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("connect to server %q: %w", job.Server.Name, err)
	}
	c.Connection = conn
	return c, nil
}

// close ends the connection, whether or not the broker answers.
func (c *connection) close() { _ = c.CloseDeadline(time.Now().Add(closeTimeout)) }

// hangUp ends the connection at once.
func (c *connection) hangUp() { _ = c.socket.Close() }
